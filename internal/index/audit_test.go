package index

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// An entry of the audit log stays as it is: the database itself refuses to change it, and to delete it in its first
// month.
func TestAudit(t *testing.T) { onEachStore(t, testAudit) }

func testAudit(t *testing.T, open func(...Option) *DB) {
	db, ctx := open(), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	entry := func(age time.Duration, object string) engine.AuditEntry {
		return engine.AuditEntry{At: now.Add(-age), Owner: "ada", Key: "k1", From: engine.FromLoopback,
			Action: engine.ActKeyMade, Object: object, Outcome: engine.OutcomeDone, Detail: "for bob", More: 3}
	}
	const day = 24 * time.Hour
	old, late, young := entry(40*day, "old"), entry(35*day, "late"), entry(time.Minute, "young")
	for _, e := range []engine.AuditEntry{old, late, young} {
		if err := db.AddAudit(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, q engine.AuditQuery, want ...engine.AuditEntry) {
		t.Helper()
		got, err := db.Audit(ctx, q)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", what, err, diff)
		}
	}
	all := engine.AuditQuery{Before: now.Add(time.Hour), Limit: 10}
	want("all", all, young, late, old)
	want("of a time", engine.AuditQuery{Since: late.At, Before: young.At, Limit: 10}, late)
	want("the newest", engine.AuditQuery{Before: all.Before, Limit: 1}, young)
	for _, statement := range []string{"UPDATE audit SET outcome = 'failed'",
		"UPDATE audit SET owner = 'eve' WHERE object = 'old'",
		"DELETE FROM audit", "DELETE FROM audit WHERE object = 'young'"} {
		if err := db.write(ctx, "tamper", "", func(ctx context.Context, c *conn) error {
			_, err := c.exec(ctx, statement)
			return err
		}); err == nil {
			t.Errorf("%s: done", statement)
		}
	}
	want("after that", all, young, late, old)
	if n, err := db.ExpireAudit(ctx, late.At, 10); n != 1 || err != nil {
		t.Errorf("expired %d: %v", n, err)
	}
	want("the rest", all, young, late)

	// A key is made with its entry, or not at all.
	key := engine.Key{ID: "k9", Owner: "ada", CreatedAt: now}
	if err := db.AddKey(ctx, key, entry(0, "k9")); err != nil {
		t.Fatal(err)
	}
	if err := db.AddKey(ctx, key, entry(0, "k9 again")); engine.KindOf(err) != engine.ErrConflict {
		t.Errorf("made twice: %v", err)
	}
	if err := db.RevokeKey(ctx, "absent", now, entry(0, "absent")); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("revoked what is not there: %v", err)
	}
	want("with the key", all, entry(0, "k9"), young, late)
}
