package index

import (
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

var sessionTests = map[string]func(bench){
	"session round trip": func(b bench) {
		one, two := b.addFile(nil), b.addFile(func(f *engine.File) { f.Path = "made/here" })
		places := []engine.SessionFile{
			{File: two.ID, Path: "z", Role: engine.RoleOutput},
			{File: one.ID, Path: "data/a.csv", Role: engine.RoleInput, ReadOnly: true},
			{File: one.ID, Path: "b", Role: engine.RoleInput},
		}
		session := b.addSession(func(s *engine.Session) { s.Kind, s.Origin = engine.SessionHeld, engine.OriginOnyx },
			places...)
		got, err := b.Session(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("session", got, session)
		files, gotPlaces, err := b.SessionFiles(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("places in order of path", gotPlaces, []engine.SessionFile{places[2], places[1], places[0]})
		atB, atA, atZ := one, one, two
		atB.Path, atA.Path, atZ.Path = "b", "data/a.csv", "z"
		b.same("files", files, []engine.File{atB, atA, atZ})
		b.want(b.AddSession(b.Context(), session, nil), engine.ErrConflict)
	},
	"foreign, expired, deleted and unknown sessions answer alike": func(b bench) {
		alive, deleted := b.addSession(nil), b.addSession(nil)
		expired := b.addSession(func(s *engine.Session) { s.ExpiresAt = start })
		b.want(b.DeleteSession(b.Context(), "ada", deleted.ID), "")
		for _, id := range []engine.ID{expired.ID, deleted.ID, engine.NewID()} {
			_, err := b.Session(b.Context(), "ada", id)
			b.same("text", err.Error(), "get session "+id.String()+": not_found")
			_, _, err = b.SessionFiles(b.Context(), "ada", id)
			b.want(err, engine.ErrNotFound)
		}
		_, err := b.Session(b.Context(), "bob", alive.ID)
		b.same("text", err.Error(), "get session "+alive.ID.String()+": not_found")
		_, _, err = b.SessionFiles(b.Context(), "bob", alive.ID)
		b.want(err, engine.ErrNotFound)
		b.want(b.DeleteSession(b.Context(), "bob", alive.ID), engine.ErrNotFound)
		b.want(b.DeleteSession(b.Context(), "ada", deleted.ID), engine.ErrNotFound)
		b.want(b.Touch(b.Context(), map[engine.ID]time.Time{deleted.ID: start}), "")
		b.want(b.DeleteSession(b.Context(), "ada", expired.ID), "") // the clean-up does so
		_, err = b.Session(b.Context(), "ada", alive.ID)
		b.want(err, "")
	},
	"one file of a session": func(b bench) {
		f, other := b.addFile(nil), b.addFile(nil)
		session := b.addSession(func(s *engine.Session) { s.Implicit, s.Scope = true, "agent:x" },
			engine.SessionFile{File: f.ID, Path: "b", Role: engine.RoleInput},
			engine.SessionFile{File: f.ID, Path: "a", Role: engine.RoleInput, ReadOnly: true})
		got, err := b.Session(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("session", got, session)
		file, place, err := b.SessionFile(b.Context(), "ada", session.ID, f.ID)
		b.want(err, "")
		f.Path = "a"
		b.same("file", file, f)
		b.same("its first place", place, engine.SessionFile{Session: session.ID, File: f.ID, Path: "a",
			Role: engine.RoleInput, ReadOnly: true})
		for _, pair := range [][2]engine.ID{{session.ID, other.ID}, {session.ID, engine.NewID()}, {engine.NewID(), f.ID}} {
			_, _, err := b.SessionFile(b.Context(), "ada", pair[0], pair[1])
			b.want(err, engine.ErrNotFound)
		}
		_, _, err = b.SessionFile(b.Context(), "bob", session.ID, f.ID)
		b.want(err, engine.ErrNotFound)
	},
	"links": func(b bench) {
		one, two := b.addFile(nil), b.addFile(nil)
		foreign := b.addFile(func(f *engine.File) { f.Owner = "bob" })
		expired := b.addFile(func(f *engine.File) { f.ExpiresAt = start })
		session := b.addSession(nil)
		other := b.addSession(nil)
		at := func(file engine.ID, path string) engine.SessionFile {
			return engine.SessionFile{Session: session.ID, File: file, Path: path, Role: engine.RoleInput}
		}
		b.want(b.LinkFiles(b.Context(), []engine.SessionFile{at(one.ID, "a"), at(one.ID, "b"),
			{Session: other.ID, File: one.ID, Path: "a", Role: engine.RoleInput}}), "")
		b.want(b.LinkFiles(b.Context(), []engine.SessionFile{{Session: session.ID, File: two.ID, Path: "a",
			Role: engine.RoleOutput, ReadOnly: true}}), "")
		b.want(b.LinkFiles(b.Context(), nil), "")
		b.same("paths", b.sessionPaths(session.ID), map[string]engine.ID{"a": two.ID, "b": one.ID})
		b.same("the other's paths", b.sessionPaths(other.ID), map[string]engine.ID{"a": one.ID})
		_, places, err := b.SessionFiles(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("place", places[0], engine.SessionFile{Session: session.ID, File: two.ID, Path: "a", Role: engine.RoleOutput,
			ReadOnly: true})

		for _, bad := range []engine.SessionFile{
			at(foreign.ID, "c"), at(expired.ID, "c"), at(engine.NewID(), "c"),
			{Session: engine.NewID(), File: one.ID, Path: "c", Role: engine.RoleInput},
		} {
			b.want(b.LinkFiles(b.Context(), []engine.SessionFile{at(one.ID, "c"), bad}), engine.ErrNotFound)
		}
		b.same("nothing is half linked", b.sessionPaths(session.ID), map[string]engine.ID{"a": two.ID, "b": one.ID})
		lost := newSession("ada")
		b.want(b.AddSession(b.Context(), lost, []engine.SessionFile{
			{Session: lost.ID, File: foreign.ID, Path: "c", Role: engine.RoleInput}}), engine.ErrNotFound)
		_, err = b.Session(b.Context(), "ada", lost.ID)
		b.want(err, engine.ErrNotFound)

		b.want(b.DeleteFile(b.Context(), "ada", one.ID), "")
		b.same("without the deleted file", b.sessionPaths(session.ID), map[string]engine.ID{"a": two.ID})
		b.want(b.DeleteSession(b.Context(), "ada", session.ID), "")
		_, err = b.File(b.Context(), "ada", two.ID)
		b.want(err, "")
	},
	"lists of sessions": func(b bench) {
		old := b.addSession(nil)
		b.clock.move(time.Second)
		b.addSession(func(s *engine.Session) { s.Implicit = true })
		b.addSession(func(s *engine.Session) { s.Owner = "bob" })
		b.addSession(func(s *engine.Session) { s.ExpiresAt = start })
		onyx := b.addSession(func(s *engine.Session) { s.Origin = engine.OriginOnyx })
		b.clock.move(time.Second)
		young := b.addSession(nil)
		for _, test := range []struct {
			name  string
			query engine.SessionQuery
			want  []engine.Session
		}{
			{"all", engine.SessionQuery{}, []engine.Session{young, onyx, old}},
			{"of an origin", engine.SessionQuery{Origin: engine.OriginNative}, []engine.Session{young, old}},
			{"first page", engine.SessionQuery{Page: engine.Page{Limit: 2}}, []engine.Session{young, onyx}},
			{"second page", engine.SessionQuery{Page: engine.Page{Limit: 2, After: onyx.ID}}, []engine.Session{old}},
			{"third page", engine.SessionQuery{Page: engine.Page{Limit: 2, After: old.ID}}, nil},
		} {
			test.query.Owner = "ada"
			got, err := b.Sessions(b.Context(), test.query)
			b.want(err, "")
			b.same(test.name, got, test.want)
		}
	},
	"life of sessions": func(b bench) {
		held := b.addSession(func(s *engine.Session) { s.Kind = engine.SessionHeld })
		implicit := b.addSession(func(s *engine.Session) { s.Implicit = true; s.ExpiresAt = start.Add(time.Minute) })
		b.want(b.Touch(b.Context(), map[engine.ID]time.Time{held.ID: start.Add(-time.Minute)}), "") // never backwards
		got, err := b.Session(b.Context(), "ada", held.ID)
		b.want(err, "")
		b.same("untouched", got, held)
		b.want(b.Touch(b.Context(), map[engine.ID]time.Time{held.ID: start.Add(time.Minute)}), "")
		held.ExpiresAt = start.Add(time.Hour + time.Minute)

		now := b.clock.move(24 * time.Hour)
		expired, err := b.ExpiredSessions(b.Context(), now, 10)
		b.want(err, "")
		b.same("expired", expired, []engine.Session{implicit, held})
		expired, err = b.ExpiredSessions(b.Context(), held.ExpiresAt.Add(-time.Microsecond), 1)
		b.want(err, "")
		b.same("expired", expired, []engine.Session{implicit})
		all, err := b.HeldSessions(b.Context(), 0)
		b.want(err, "")
		b.same("held", all, []engine.Session{held})
	},
	"the sessions of an edge, of every owner, and their scope": func(b bench) {
		made := func(owner engine.Owner, change func(*engine.Session)) engine.Session {
			s := newSession(owner)
			s.Origin = engine.OriginE2B
			change(&s)
			b.want(b.AddSession(b.Context(), s, nil), "")
			return s
		}
		ada := made("ada", func(*engine.Session) {})
		bob := made("bob", func(s *engine.Session) { s.CreatedAt = start.Add(1000) })
		made("ada", func(s *engine.Session) { s.Origin = engine.OriginNative })
		made("ada", func(s *engine.Session) { s.Implicit = true })
		elsewhere := made("ada", func(s *engine.Session) { s.Place.Holder = 7 })
		made("ada", func(s *engine.Session) { s.ExpiresAt = start })
		b.want(b.SetScope(b.Context(), "ada", ada.ID, "x"), "")
		b.want(b.SetScope(b.Context(), "ada", bob.ID, "x"), engine.ErrNotFound)
		b.want(b.SetLive(b.Context(), "ada", ada.ID, "{}"), engine.ErrNotFound) // which is no live one
		b.want(b.NameSession(b.Context(), "ada", ada.ID, "Rates"), "")
		b.want(b.NameSession(b.Context(), "ada", bob.ID, "Rates"), engine.ErrNotFound)
		ada.Scope, ada.Name = "x", "Rates"
		got, err := b.OriginSessions(b.Context(), engine.OriginE2B, 0, false)
		b.want(err, "")
		b.same("sessions", got, []engine.Session{ada, bob})
		got, err = b.OriginSessions(b.Context(), engine.OriginE2B, 7, true)
		b.want(err, "")
		b.same("sessions of others", got, []engine.Session{ada, bob})
		got, err = b.OriginSessions(b.Context(), engine.OriginE2B, 0, true)
		b.want(err, "")
		b.same("sessions of others", got, []engine.Session{elsewhere})
	},
}
