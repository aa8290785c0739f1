package index

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// TestUsage checks that the account of what an owner keeps follows every way
// in which something comes and goes.
func TestUsage(t *testing.T) { onEachStore(t, testUsage) }

func testUsage(t *testing.T, open func(...Option) *DB) {
	c := &clock{now: start}
	db := open(WithClock(c.Now))
	ctx := t.Context()
	want := func(when string, u engine.Usage) {
		t.Helper()
		got, err := db.Usage(ctx, "ada")
		if diff := cmp.Diff(u, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", when, err, diff)
		}
	}
	want("at first", engine.Usage{})
	kept, deleted := newFile("ada"), newFile("ada")
	session, implicit := newSession("ada"), newSession("ada")
	implicit.Implicit = true
	run := newRun("ada")
	run.Session = implicit.ID
	err := errors.Join(db.AddFile(ctx, kept), db.AddFile(ctx, deleted), db.AddFile(ctx, newFile("bob")),
		db.AddSession(ctx, session, nil))
	if _, startErr := db.StartRun(ctx, run, &implicit, "", engine.Digest{}); errors.Join(err, startErr) != nil {
		t.Fatal(err, startErr)
	}
	want("two files, a session", engine.Usage{Files: 2, Bytes: 24, Sessions: 1})
	end(run, engine.StatusOK)
	run.Stdout = strings.Repeat("x", countedOutput)
	run.Files = []engine.File{newFile("ada")}
	if err := db.FinishRun(ctx, run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}, nil); err != nil {
		t.Fatal(err)
	}
	want("and a run with a file", engine.Usage{Files: 3, Bytes: 36, Sessions: 1, Results: countedOutput})
	if err := errors.Join(db.DeleteFile(ctx, "ada", deleted.ID), db.DeleteSession(ctx, "ada", session.ID)); err != nil {
		t.Fatal(err)
	}
	want("deleted", engine.Usage{Files: 2, Bytes: 24, Results: countedOutput})
	now := c.move(2 * time.Hour)
	if _, err := db.ExpireFiles(ctx, now, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExpireRuns(ctx, now, 10); err != nil {
		t.Fatal(err)
	}
	want("expired", engine.Usage{})
}

// TestQuota checks that what would exceed a quota is refused as a whole, and
// leaves no trace.
func TestQuota(t *testing.T) { onEachStore(t, testQuota) }

func testQuota(t *testing.T, open func(...Option) *DB) {
	db := open(WithClock(func() time.Time { return start }),
		WithQuota(engine.Quota{Files: 3, Bytes: 40, Sessions: 2}))
	ctx := t.Context()
	full := func(what string, err error) {
		t.Helper()
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Kind != engine.ErrFull || !errors.Is(err, engine.ErrQuota) || !strings.Contains(e.Hint, "owner_") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 2 {
		if err := errors.Join(db.AddFile(ctx, newFile("ada")), db.AddSession(ctx, newSession("ada"), nil)); err != nil {
			t.Fatal(err)
		}
	}
	large := newFile("ada")
	large.Size = 17
	full("bytes", db.AddFile(ctx, large))
	full("sessions", db.AddSession(ctx, newSession("ada"), nil))
	run := newRun("ada")
	if _, err := db.StartRun(ctx, run, nil, "", engine.Digest{}); err != nil {
		t.Fatal(err)
	}
	end(run, engine.StatusOK)
	run.Files = []engine.File{newFile("ada"), newFile("ada")}
	full("outputs", db.FinishRun(ctx, run, nil, nil))
	if again, err := db.Run(ctx, "ada", run.ID); err != nil || again.Status.Final() {
		t.Errorf("half of it was recorded: %+v, %v", again, err)
	}
	run.Files = nil
	if err := errors.Join(db.FinishRun(ctx, run, nil, nil), db.AddFile(ctx, newFile("ada")),
		db.AddFile(ctx, newFile("bob"))); err != nil {
		t.Errorf("what fits: %v", err)
	}
	if u, err := db.Usage(ctx, "ada"); err != nil || u != (engine.Usage{Files: 3, Bytes: 36, Sessions: 2}) {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestQuotaOfCopies checks that snapshots and copies count like other files, and that what would
// exceed a quota leaves no trace.
func TestQuotaOfCopies(t *testing.T) {
	onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
		quota := engine.Quota{Files: 4, Sessions: 3}
		b := bench{T: t, Index: open(WithClock(func() time.Time { return start }), WithQuota(quota)),
			clock: &clock{now: start}}
		f := b.addFile(nil)
		of := b.addSession(nil, engine.SessionFile{File: f.ID, Path: "a", Role: engine.RoleInput})
		made := b.snapshotOf(of.ID, "")
		copies := func(n int) (list []engine.Session) {
			for range n {
				list = append(list, newSession("ada"))
			}
			return list
		}
		from := engine.CopySource{Snapshot: made.ID}
		for name, asked := range map[string][]engine.Session{"files": copies(3), "sessions": copies(4)} {
			err := b.AddCopies(t.Context(), from, asked, time.Hour)
			if !errors.Is(err, engine.ErrQuota) {
				t.Errorf("%s: %v", name, err)
			}
			_, err = b.Session(t.Context(), "ada", asked[0].ID)
			b.want(err, engine.ErrNotFound)
		}
		b.want(b.AddCopies(t.Context(), from, copies(2), time.Hour), "")
		_, err := b.AddSnapshot(t.Context(), engine.Snapshot{ID: engine.NewID(), Owner: "ada", Session: of.ID,
			ExpiresAt: start.Add(time.Hour)})
		b.want(err, engine.ErrFull)
		list, err := b.Snapshots(t.Context(), engine.SnapshotQuery{Owner: "ada", Page: engine.Page{Limit: 9}})
		b.want(err, "")
		b.same("snapshots", list, []engine.Snapshot{made})
	})
}

// TestUsageOfUsers checks that what a user of a key keeps counts for the key's owner, too.
func TestUsageOfUsers(t *testing.T) { onEachStore(t, testUsageOfUsers) }

func testUsageOfUsers(t *testing.T, open func(...Option) *DB) {
	c := &clock{now: start}
	db := open(WithClock(c.Now))
	ctx := t.Context()
	want := func(when string, owner engine.Owner, u engine.Usage) {
		t.Helper()
		got, err := db.Usage(ctx, owner)
		if diff := cmp.Diff(u, got); err != nil || diff != "" {
			t.Errorf("%s, %s: %v %s", when, owner, err, diff)
		}
	}
	x, y := engine.Caller{Owner: "web"}.User("x").Owner, engine.Caller{Owner: "web"}.User("y").Owner
	other := engine.Owner("jwt/user/user/" + strings.Repeat("f", 27)) // no user of a key "jwt"
	kept, session := newFile(x), newSession(y)
	run := newRun(y)
	_, err := db.StartRun(ctx, run, nil, "", engine.Digest{})
	end(run, engine.StatusOK)
	run.Stdout = strings.Repeat("x", countedOutput)
	err = errors.Join(err, db.AddFile(ctx, kept), db.AddFile(ctx, newFile("web")), db.AddSession(ctx, session, nil),
		db.AddFile(ctx, newFile(other)),
		db.FinishRun(ctx, run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	want("all", "web", engine.Usage{Files: 2, Bytes: 24, Sessions: 1, Results: countedOutput, Users: 2})
	want("all", x, engine.Usage{Files: 1, Bytes: 12})
	want("all", y, engine.Usage{Sessions: 1, Results: countedOutput})
	want("all", "jwt", engine.Usage{})
	if err := errors.Join(db.DeleteFile(ctx, x, kept.ID), db.DeleteSession(ctx, y, session.ID)); err != nil {
		t.Fatal(err)
	}
	want("deleted", "web", engine.Usage{Files: 1, Bytes: 12, Results: countedOutput, Users: 1})
	if _, err := db.ExpireRuns(ctx, c.move(2*time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	want("expired", "web", engine.Usage{Files: 1, Bytes: 12})
	err = db.look(ctx, "test", "", func(c *conn) error {
		n := 0
		err := c.row(ctx, []any{&n}, "SELECT count(*) FROM usage WHERE owner LIKE 'web/user/%'")
		if n != 0 {
			t.Errorf("%d users without anything have a row", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestQuotaOfUsers checks that all users of a key together keep as much as one owner, or as its
// key says, and that no more of them keep anything.
func TestQuotaOfUsers(t *testing.T) { onEachStore(t, testQuotaOfUsers) }

func testQuotaOfUsers(t *testing.T, open func(...Option) *DB) {
	db := open(WithClock(func() time.Time { return start }),
		WithQuota(engine.Quota{Files: 2, Bytes: 1000, Sessions: 2, Results: countedOutput}))
	ctx := t.Context()
	user := func(name string) engine.Owner { return engine.Caller{Owner: "web"}.User(name).Owner }
	full := func(what string, err error) {
		t.Helper()
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Kind != engine.ErrFull || !errors.Is(err, engine.ErrQuota) || !strings.Contains(e.Hint, "of this key") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(db.AddFile(ctx, newFile(user("z0"))), db.AddFile(ctx, newFile(user("z1")))); err != nil {
		t.Fatal(err)
	}
	full("a third user", db.AddFile(ctx, newFile(user("z2"))))
	key := engine.Key{ID: "abc", Owner: "web", Allowance: engine.Allowance{Users: 3, Shares: 2}, CreatedAt: start}
	if err := errors.Join(db.AddKey(ctx, key), db.AddFile(ctx, newFile(user("z1"))),
		db.AddSession(ctx, newSession(user("z2")), nil)); err != nil {
		t.Fatal("with twice as much", err)
	}
	full("a fourth user", db.AddFile(ctx, newFile(user("z3"))))
	if err := db.AddFile(ctx, newFile(user("z1"))); !errors.Is(err, engine.ErrQuota) {
		t.Errorf("one user more than its own: %v", err)
	}
	results := func() int64 {
		u, err := db.Usage(ctx, "web")
		if err != nil {
			t.Fatal(err)
		}
		return u.Results
	}
	for i := range 4 {
		run := newRun(user(fmt.Sprint("z", i%3)))
		_, err := db.StartRun(ctx, run, nil, "", engine.Digest{})
		end(run, engine.StatusOK)
		run.Stdout = strings.Repeat("x", countedOutput)
		err = errors.Join(err, db.FinishRun(ctx, run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}, nil))
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := results(); got != 2*countedOutput {
		t.Errorf("outputs of all users: %d", got)
	}
	if err := db.RevokeKey(ctx, "abc", start); err != nil {
		t.Fatal(err)
	}
	full("with the key revoked", db.AddFile(ctx, newFile(user("z2"))))
}

// TestUsageOfOlderIndex checks that what was kept before there was an account
// is in it.
func TestUsageOfOlderIndex(t *testing.T) {
	path := newPath(t)
	old := openAt(t, path)
	file, run := newFile("ada"), newRun("ada")
	_, err := old.StartRun(t.Context(), run, nil, "", engine.Digest{})
	end(run, engine.StatusOK)
	run.Stderr = strings.Repeat("y", countedOutput+1)
	err = errors.Join(err, old.AddFile(t.Context(), file), old.AddSession(t.Context(), newSession("ada"), nil),
		old.FinishRun(t.Context(), run, []engine.OutputChunk{{Stream: engine.Stderr, Data: run.Stderr}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	user := engine.Caller{Owner: "ada"}.User("eve").Owner
	if err := old.AddFile(t.Context(), newFile(user)); err != nil {
		t.Fatal(err)
	}
	var script []byte
	for _, name := range []string{"0002_usage", "0010_accounts"} {
		text, err := released.ReadFile("migrations-sqlite/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		script = append(script, text...)
	}
	writer := <-old.store.(*local).writer
	undo := `DROP TRIGGER file_added; DROP TRIGGER file_removed; DROP TRIGGER session_added; DROP TRIGGER session_removed;
		DROP TRIGGER volume_added; DROP TRIGGER volume_measured; DROP TRIGGER volume_removed;
		DROP TRIGGER snapshot_added; DROP TRIGGER snapshot_removed; DROP TRIGGER output_added; DROP TRIGGER output_removed;
		DROP INDEX run_logs_counted; DROP TABLE usage;
		ALTER TABLE run_logs DROP COLUMN owner; ALTER TABLE run_logs DROP COLUMN counted;
		ALTER TABLE keys DROP COLUMN users; ALTER TABLE keys DROP COLUMN shares; ALTER TABLE keys DROP COLUMN protocols;`
	_, err = writer.conn.ExecContext(t.Context(), undo+string(script))
	old.store.(*local).writer <- writer
	if err != nil {
		t.Fatal(err)
	}
	if u, err := old.Usage(t.Context(), "ada"); err != nil ||
		u != (engine.Usage{Files: 2, Bytes: 24, Sessions: 1, Results: countedOutput + 1, Users: 1}) {
		t.Errorf("%s, %v", fmt.Sprint(u), err)
	}
}
