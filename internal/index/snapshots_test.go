package index

import (
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// snapshotOf records a snapshot of a session.
func (b bench) snapshotOf(session engine.ID, name string) engine.Snapshot {
	b.Helper()
	now := b.clock.Now()
	made, err := b.AddSnapshot(b.Context(), engine.Snapshot{ID: engine.NewID(), Owner: "ada", Origin: engine.OriginNative,
		Name: name, Session: session, CreatedAt: now, ExpiresAt: now.Add(time.Hour), TTL: time.Hour})
	b.want(err, "")
	return made
}

// contents returns the digests of a session's files by path.
func (b bench) contents(session engine.ID) map[string]engine.Digest {
	b.Helper()
	files, _, err := b.SessionFiles(b.Context(), "ada", session)
	b.want(err, "")
	found := map[string]engine.Digest{}
	for _, f := range files {
		found[f.Path] = f.SHA256
	}
	return found
}

var snapshotTests = map[string]func(bench){
	"a snapshot outlives its session and its files": func(b bench) {
		one, two := b.addFile(nil), b.addFile(func(f *engine.File) { f.Size = 30 })
		of := b.addSession(func(s *engine.Session) { s.Kind, s.Live = engine.SessionLive, "{}" },
			engine.SessionFile{File: one.ID, Path: "a", Role: engine.RoleInput, ReadOnly: true},
			engine.SessionFile{File: two.ID, Path: "d/b", Role: engine.RoleOutput})
		want := b.contents(of.ID)
		made := b.snapshotOf(of.ID, "first")
		b.same("what is in it", []any{made.Files, made.Bytes, made.Kind, made.Live, made.Wall},
			[]any{2, int64(42), engine.SessionLive, "{}", engine.WallGVisor})
		got, err := b.Snapshot(b.Context(), "ada", made.ID)
		b.want(err, "")
		b.same("snapshot", got, made)
		b.want(b.DeleteSession(b.Context(), "ada", of.ID), "")
		b.want(b.DeleteFile(b.Context(), "ada", one.ID), "")
		b.want(b.DeleteFile(b.Context(), "ada", two.ID), "")
		free, err := b.Unreferenced(b.Context(), []engine.Digest{one.SHA256, two.SHA256})
		b.want(err, "")
		b.same("bytes that nothing has", len(free), 0)
		known, err := b.Digests(b.Context())
		b.want(err, "")
		b.same("bytes", known, map[engine.Digest]bool{one.SHA256: true, two.SHA256: true})
		u, err := b.Usage(b.Context(), "ada")
		b.want(err, "")
		b.same("usage", u, engine.Usage{Files: 2, Bytes: 42})

		copies := []engine.Session{newSession("ada"), newSession("ada")}
		b.want(b.AddCopies(b.Context(), engine.CopySource{Snapshot: made.ID}, copies, 2*time.Hour), "")
		for _, each := range copies {
			b.same("copy", b.contents(each.ID), want)
		}
		_, places, err := b.SessionFiles(b.Context(), "ada", copies[0].ID)
		b.want(err, "")
		b.same("places", []any{places[0].ReadOnly, places[0].Role, places[1].ReadOnly, places[1].Role},
			[]any{true, engine.RoleInput, false, engine.RoleOutput})

		digests, err := b.DeleteSnapshot(b.Context(), "ada", made.ID)
		b.want(err, "")
		b.same("its bytes", len(digests), 2)
		b.same("a copy without it", b.contents(copies[1].ID), want)
		u, err = b.Usage(b.Context(), "ada")
		b.want(err, "")
		b.same("usage", u, engine.Usage{Files: 4, Bytes: 84, Sessions: 2})
	},
	"a copy of a session has files of its own": func(b bench) {
		f := b.addFile(nil)
		of := b.addSession(nil, engine.SessionFile{File: f.ID, Path: "a", Role: engine.RoleOutput})
		made := newSession("ada")
		b.want(b.AddCopies(b.Context(), engine.CopySource{Session: of.ID}, []engine.Session{made}, time.Hour), "")
		b.want(b.DeleteFile(b.Context(), "ada", f.ID), "")
		b.same("copy", b.contents(made.ID), map[string]engine.Digest{"a": f.SHA256})
		b.same("source", b.contents(of.ID), map[string]engine.Digest{})
	},
	"foreign, expired, deleted and unknown snapshots answer alike": func(b bench) {
		of := b.addSession(func(s *engine.Session) { s.ExpiresAt = start.Add(24 * time.Hour) })
		made, deleted := b.snapshotOf(of.ID, "x"), b.snapshotOf(of.ID, "x")
		_, err := b.DeleteSnapshot(b.Context(), "ada", deleted.ID)
		b.want(err, "")
		gone := func(owner engine.Owner, id engine.ID) {
			b.Helper()
			_, err := b.Snapshot(b.Context(), owner, id)
			b.want(err, engine.ErrNotFound)
			_, err = b.DeleteSnapshot(b.Context(), owner, id)
			b.want(err, engine.ErrNotFound)
			copied := newSession(owner)
			b.want(b.AddCopies(b.Context(), engine.CopySource{Snapshot: id}, []engine.Session{copied}, time.Hour),
				engine.ErrNotFound)
			_, err = b.Session(b.Context(), owner, copied.ID)
			b.want(err, engine.ErrNotFound)
		}
		gone("bob", made.ID)
		gone("ada", deleted.ID)
		gone("ada", engine.NewID())
		b.clock.move(30 * time.Minute)
		used := newSession("ada")
		b.want(b.AddCopies(b.Context(), engine.CopySource{Snapshot: made.ID}, []engine.Session{used}, time.Hour), "")
		now := b.clock.move(45 * time.Minute) // it was used after half an hour
		n, err := b.ExpireSnapshots(b.Context(), now, 10)
		b.want(err, "")
		b.same("expired", n, 0)
		now = b.clock.move(45 * time.Minute)
		gone("ada", made.ID)
		n, err = b.ExpireSnapshots(b.Context(), now, 10)
		b.want(err, "")
		b.same("expired", n, 1)
		_, err = b.AddSnapshot(b.Context(), engine.Snapshot{ID: engine.NewID(), Owner: "bob", Session: of.ID})
		b.want(err, engine.ErrNotFound)
		b.want(b.AddCopies(b.Context(), engine.CopySource{Session: of.ID}, []engine.Session{newSession("bob")}, time.Hour),
			engine.ErrNotFound)
	},
	"snapshots are listed, newest first": func(b bench) {
		of, other := b.addSession(nil), b.addSession(nil)
		var all []engine.Snapshot
		for _, each := range []struct {
			session engine.ID
			name    string
		}{{of.ID, "a"}, {of.ID, "b"}, {other.ID, "a"}} {
			b.clock.move(time.Second)
			all = append(all, b.snapshotOf(each.session, each.name))
		}
		for name, each := range map[string]struct {
			query engine.SnapshotQuery
			want  []engine.Snapshot
		}{
			"all":          {engine.SnapshotQuery{}, []engine.Snapshot{all[2], all[1], all[0]}},
			"of a session": {engine.SnapshotQuery{Session: of.ID}, []engine.Snapshot{all[1], all[0]}},
			"of a name":    {engine.SnapshotQuery{Name: "a"}, []engine.Snapshot{all[2], all[0]}},
			"a page":       {engine.SnapshotQuery{Page: engine.Page{After: all[2].ID, Limit: 1}}, []engine.Snapshot{all[1]}},
		} {
			each.query.Owner = "ada"
			if each.query.Page.Limit == 0 {
				each.query.Page.Limit = 10
			}
			got, err := b.Snapshots(b.Context(), each.query)
			b.want(err, "")
			b.same(name, got, each.want)
		}
		none, err := b.Snapshots(b.Context(), engine.SnapshotQuery{Owner: "bob", Page: engine.Page{Limit: 10}})
		b.want(err, "")
		b.same("another owner's", len(none), 0)
	},
}
