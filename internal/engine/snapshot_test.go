package engine_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// copyOf makes sessions of a source.
func copyOf(t *testing.T, r *rig, from engine.CopySource, n int) []engine.Session {
	t.Helper()
	made, _, err := r.CopySession(t.Context(), alice, from, make([]engine.SessionRequest, n))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSnapshot(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	a, b := r.put(t, alice, "a.txt", "A"), r.put(t, alice, "b.txt", "B")
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{
		Files: []engine.FileRef{{ID: a.ID, Path: "d/a.txt"}, {ID: b.ID}}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.AddSnapshot(t.Context(), alice, session.ID, "v1", false)
	if err != nil || made.Files != 2 || made.Bytes != 2 {
		t.Fatalf("%d files, %d bytes, %v", made.Files, made.Bytes, err)
	}
	if err := r.DeleteSession(t.Context(), alice, session.ID); err != nil {
		t.Fatal(err)
	}
	for _, f := range []engine.File{a, b} {
		if err := r.DeleteFile(t.Context(), alice, f.ID); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"d/a.txt": "input A", "b.txt": "input B"}
	for _, each := range copyOf(t, r, engine.CopySource{Snapshot: made.ID}, 3) {
		if diff := cmp.Diff(want, r.places(t, alice, each.ID)); diff != "" || each.ID == session.ID {
			t.Errorf("%s %s", each.ID, diff)
		}
	}
	for _, called := range []string{made.ID.String(), "v1"} {
		if found, err := r.GetSnapshot(t.Context(), alice, called); err != nil || found.ID != made.ID {
			t.Errorf("%s: %v, %v", called, found.ID, err)
		}
	}
	copied := copyOf(t, r, engine.CopySource{Snapshot: made.ID}, 1)[0]
	again, err := r.AddSnapshot(t.Context(), alice, copied.ID, "v1", false)
	if found, other := r.GetSnapshot(t.Context(), alice, "v1"); err != nil || other != nil || found.ID != again.ID {
		t.Errorf("the newest of a name: %v, %v, %v", found.ID, err, other)
	}
}

func TestSnapshotRefused(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	r.index.Quota.Sessions = 3
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.AddSnapshot(t.Context(), alice, session.ID, "", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"-x", "a b", "a\n", strings.Repeat("x", 129), "ü"} {
		_, err := r.AddSnapshot(t.Context(), alice, session.ID, name, false)
		wantKind(t, err, engine.ErrInvalid, "name")
		_, err = r.GetSnapshot(t.Context(), alice, name)
		wantKind(t, err, engine.ErrNotFound, "")
	}
	_, err = r.AddSnapshot(t.Context(), bob, session.ID, "", false)
	wantKind(t, err, engine.ErrNotFound, session.ID.String())
	for name, each := range map[string]struct {
		caller engine.Caller
		from   engine.CopySource
		count  int
		kind   engine.Kind
	}{
		"none":                     {alice, engine.CopySource{Session: session.ID}, 0, engine.ErrInvalid},
		"too many":                 {alice, engine.CopySource{Session: session.ID}, 10_000, engine.ErrInvalid},
		"over the quota":           {alice, engine.CopySource{Session: session.ID}, 3, engine.ErrFull},
		"another owner's":          {bob, engine.CopySource{Session: session.ID}, 1, engine.ErrNotFound},
		"another owner's snapshot": {bob, engine.CopySource{Snapshot: made.ID}, 1, engine.ErrNotFound},
		"a snapshot as a session":  {alice, engine.CopySource{Session: made.ID}, 1, engine.ErrNotFound},
		"a session as a snapshot":  {alice, engine.CopySource{Snapshot: session.ID}, 1, engine.ErrNotFound},
	} {
		_, _, err := r.CopySession(t.Context(), each.caller, each.from, make([]engine.SessionRequest, each.count))
		if engine.KindOf(err) != each.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantKind(t, r.DeleteSnapshot(t.Context(), bob, made.ID), engine.ErrNotFound, made.ID.String())
	list, err := r.ListSessions(t.Context(), alice, engine.SessionQuery{})
	if err != nil || len(list) != 1 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}

// A snapshot expires after its last use, and its bytes with it.
func TestSnapshotExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{SnapshotTTL: 3 * time.Hour, FileTTL: time.Hour}, nil)
		a := r.put(t, alice, "a.txt", "A")
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{TTL: time.Hour,
			Files: []engine.FileRef{{ID: a.ID}}})
		if err != nil {
			t.Fatal(err)
		}
		made, err := r.AddSnapshot(t.Context(), alice, session.ID, "", false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		copied := copyOf(t, r, engine.CopySource{Snapshot: made.ID}, 1)[0]
		if diff := cmp.Diff(map[string]string{"a.txt": "input A"}, r.places(t, alice, copied.ID)); diff != "" {
			t.Error(diff)
		}
		time.Sleep(2 * time.Hour)
		if _, err := r.GetSnapshot(t.Context(), alice, made.ID.String()); err != nil {
			t.Errorf("it was used two hours ago: %v", err)
		}
		time.Sleep(2 * time.Hour)
		_, err = r.GetSnapshot(t.Context(), alice, made.ID.String())
		wantKind(t, err, engine.ErrNotFound, made.ID.String())
		time.Sleep(24 * time.Hour) // those of the copy are kept a day
		if known, err := r.index.Digests(t.Context()); err != nil || known[a.SHA256] {
			t.Errorf("its bytes are kept, %v", err)
		}
	})
}

// What a program has changed is in a snapshot of its session, and a failing index leaves nothing of one.
func TestSnapshotOfHeld(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
	if err != nil {
		t.Fatal(err)
	}
	r.sandbox.Change(session.ID, leaves(t, "new.txt", "n").Outputs...)
	fault := errors.New("the disk is on fire")
	r.index.Fail(func(method string) error {
		if method == "AddSnapshot" {
			return fault
		}
		return nil
	})
	if _, err := r.AddSnapshot(t.Context(), alice, session.ID, "", false); !errors.Is(err, fault) {
		t.Error(err)
	}
	r.index.Fail(nil)
	made, err := r.AddSnapshot(t.Context(), alice, session.ID, "", false)
	if err != nil || made.Files != 1 || made.Kind != engine.SessionHeld {
		t.Fatalf("%d files, %s, %v", made.Files, made.Kind, err)
	}
	list, err := r.ListSnapshots(t.Context(), alice, engine.SnapshotQuery{})
	if err != nil || len(list) != 1 {
		t.Errorf("%d snapshots, %v", len(list), err)
	}
	copied := copyOf(t, r, engine.CopySource{Snapshot: made.ID}, 1)[0]
	if diff := cmp.Diff(map[string]string{"new.txt": "output n"}, r.places(t, alice, copied.ID)); diff != "" {
		t.Error(diff)
	}
}
