package conversation_test

import (
	"log/slog"
	"testing"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/changes"
	"github.com/airlock-run/airlock/internal/state"
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
	db, err := state.Open(t.Context(), data, slog.New(slog.NewTextHandler(t.Output(), nil)))
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
		Store: db.Projects(), Journal: db.Journal(), Outbox: assignment.NewOutbox(db.Outbox(), nil),
		Protected: []string{data}})
	return r
}
