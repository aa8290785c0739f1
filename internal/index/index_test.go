package index

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/airlock-run/airlock/internal/engine"
)

// bench is what a test of the suite works with. It sees the index only
// through the engine's interface.
type bench struct {
	*testing.T
	engine.Index
	clock *clock
}

// Run is the index's, not the test's.
func (b bench) Run(ctx context.Context, owner engine.Owner, id engine.ID) (*engine.Run, error) {
	return b.Index.Run(ctx, owner, id)
}

// want fails the test unless err is of that kind; an empty kind is no error.
func (b bench) want(err error, kind engine.Kind) {
	b.Helper()
	if err == nil && kind == "" {
		return
	}
	if err == nil || engine.KindOf(err) != kind {
		b.Fatalf("error %v, want kind %q", err, kind)
	}
}

func (b bench) same(what string, got, want any) {
	b.Helper()
	if want == nil {
		want = reflect.Zero(reflect.TypeOf(got)).Interface()
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (b bench) addFile(change func(*engine.File)) engine.File {
	b.Helper()
	file := newFile("ada")
	file.CreatedAt = b.clock.Now()
	file.ExpiresAt = file.CreatedAt.Add(file.TTL)
	if change != nil {
		change(&file)
	}
	b.want(b.AddFile(b.Context(), file), "")
	return file
}

func (b bench) addSession(change func(*engine.Session), files ...engine.SessionFile) engine.Session {
	b.Helper()
	session := newSession("ada")
	session.CreatedAt = b.clock.Now()
	session.ExpiresAt = session.CreatedAt.Add(session.TTL)
	if change != nil {
		change(&session)
	}
	for i := range files {
		files[i].Session = session.ID
	}
	b.want(b.AddSession(b.Context(), session, files), "")
	return session
}

func (b bench) start(change func(*engine.Run)) *engine.Run {
	b.Helper()
	run := newRun("ada")
	run.CreatedAt = b.clock.Now()
	if change != nil {
		change(run)
	}
	_, err := b.StartRun(b.Context(), run, nil, "", engine.Digest{})
	b.want(err, "")
	return run
}

func (b bench) finish(run *engine.Run, log []engine.OutputChunk, deleted ...string) {
	b.Helper()
	end(run, engine.StatusOK)
	b.want(b.FinishRun(b.Context(), run, log, deleted), "")
}

func (b bench) sessionPaths(id engine.ID) map[string]engine.ID {
	b.Helper()
	files, places, err := b.SessionFiles(b.Context(), "ada", id)
	b.want(err, "")
	paths := map[string]engine.ID{}
	for i, place := range places {
		if files[i].ID != place.File || files[i].Path != place.Path || place.Session != id {
			b.Errorf("file %+v and place %+v do not agree", files[i], place)
		}
		paths[place.Path] = place.File
	}
	return paths
}

func TestIndex(t *testing.T) {
	for _, suite := range []map[string]func(bench){fileTests, sessionTests, snapshotTests, volumeTests, runTests,
		searchTests, keyTests, expiryTests} {
		for name, check := range suite {
			t.Run(name, func(t *testing.T) {
				onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
					c := &clock{now: start}
					check(bench{T: t, Index: open(WithClock(c.Now)), clock: c})
				})
			})
		}
	}
}

var keyTests = map[string]func(bench){
	"key round trip": func(b bench) {
		key := engine.Key{ID: "abcdefghijkl", Owner: "ada", Admin: true, Hash: engine.Digest{1, 2}, CreatedAt: start,
			Packages: "onyx", Images: "py313,host", Mounts: "in,out:ro", Wall: engine.WallGVisor}
		other := engine.Key{ID: "a", Owner: "bob", CreatedAt: start.Add(time.Second)}
		b.want(b.AddKey(b.Context(), other), "")
		b.want(b.AddKey(b.Context(), key), "")
		b.want(b.AddKey(b.Context(), key), engine.ErrConflict)
		got, err := b.Key(b.Context(), key.ID)
		b.want(err, "")
		b.same("key", got, key)
		keys, err := b.Keys(b.Context())
		b.want(err, "")
		b.same("keys", keys, []engine.Key{key, other})

		b.want(b.RevokeKey(b.Context(), key.ID, start.Add(time.Minute)), "")
		b.want(b.RevokeKey(b.Context(), key.ID, start.Add(time.Hour)), "")
		key.RevokedAt = start.Add(time.Minute)
		got, err = b.Key(b.Context(), key.ID)
		b.want(err, "")
		b.same("revoked key", got, key)

		_, err = b.Key(b.Context(), "absent")
		b.want(err, engine.ErrNotFound)
		b.want(b.RevokeKey(b.Context(), "absent", start), engine.ErrNotFound)
	},
}

func TestCancelledContext(t *testing.T) { onEachStore(t, testCancelledContext) }

func testCancelledContext(t *testing.T, open func(...Option) *DB) {
	db := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := newFile("ada")
	for range 20 { // whichever way a select goes
		if err := db.AddFile(ctx, file); !errors.Is(err, engine.ErrCanceled) {
			t.Fatalf("AddFile = %v", err)
		}
		if _, err := db.Keys(ctx); !errors.Is(err, engine.ErrCanceled) {
			t.Fatalf("Keys = %v", err)
		}
	}
	if err := db.AddFile(t.Context(), file); err != nil {
		t.Fatalf("after the cancelled ones AddFile = %v", err)
	}
}

func TestClosed(t *testing.T) { onEachStore(t, testClosed) }

func testClosed(t *testing.T, open func(...Option) *DB) {
	db := open()
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := db.AddFile(t.Context(), newFile("ada")); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("AddFile = %v", err)
	}
	if _, err := db.Keys(t.Context()); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Keys = %v", err)
	}
}
