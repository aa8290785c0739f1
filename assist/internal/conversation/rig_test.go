package conversation_test

import (
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/state"
)

type rig struct {
	*changes.Replies
	db   *state.DB
	root string
	data string // of the database
}

func newRig(t *testing.T) *rig {
	t.Helper()
	data := t.TempDir()
	db, err := state.Open(t.Context(), data, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{db: db, root: t.TempDir(), data: data}
	r.Replies = changes.NewReplies(changes.Options{
		Store: db.Projects(), Journal: db.Journal(), Outbox: assignment.NewOutbox(db.Outbox()),
		Protected: []string{data}})
	return r
}
