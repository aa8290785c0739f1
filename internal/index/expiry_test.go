package index

import (
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// expiryTests hold for the fake index of other packages' tests too: both find
// the same objects.
var expiryTests = map[string]func(bench){
	"what expires is not found from then on": func(b bench) {
		ctx := b.Context()
		file, session := b.addFile(nil), b.addSession(nil)
		placed := engine.SessionFile{Session: session.ID, File: file.ID, Path: "a", Role: engine.RoleInput}
		b.want(b.LinkFiles(ctx, []engine.SessionFile{placed}), "")
		b.clock.move(time.Hour - time.Microsecond)
		b.look(file, session, "")
		b.clock.move(time.Microsecond)
		b.look(file, session, engine.ErrNotFound)
		b.want(b.LinkFiles(ctx, []engine.SessionFile{placed}), engine.ErrNotFound)
		b.want(b.DeleteFile(ctx, "ada", file.ID), engine.ErrNotFound)
		run := newRun("ada")
		run.Session = session.ID
		_, err := b.StartRun(ctx, run, nil, "", engine.Digest{})
		b.want(err, engine.ErrNotFound)
		expired, err := b.ExpiredSessions(ctx, b.clock.Now(), 10)
		b.want(err, "")
		b.same("expired sessions", len(expired), 1)
		n, err := b.ExpireFiles(ctx, b.clock.Now(), 10)
		b.want(err, "")
		b.same("expired files", n, 1)
	},
	"an expired file has no place in a session that lasts": func(b bench) {
		file := b.addFile(nil)
		session := b.addSession(func(s *engine.Session) { s.ExpiresAt = start.Add(24 * time.Hour) },
			engine.SessionFile{File: file.ID, Path: "a", Role: engine.RoleInput})
		b.same("places", len(b.sessionPaths(session.ID)), 1)
		b.clock.move(time.Hour)
		b.same("places", len(b.sessionPaths(session.ID)), 0)
		_, _, err := b.SessionFile(b.Context(), "ada", session.ID, file.ID)
		b.want(err, engine.ErrNotFound)
	},
	"a use moves the expiry, never backwards": func(b bench) {
		ctx := b.Context()
		file, session := b.addFile(nil), b.addSession(nil)
		use := b.clock.move(30 * time.Minute)
		for _, at := range []time.Time{use, use.Add(-time.Minute)} {
			b.want(b.Touch(ctx, map[engine.ID]time.Time{file.ID: at, session.ID: at}), "")
		}
		b.clock.move(time.Hour - time.Microsecond)
		b.look(file, session, "")
		b.clock.move(time.Microsecond)
		b.look(file, session, engine.ErrNotFound)
	},
	"a run is a use from its beginning to its end": func(b bench) {
		file, session := b.addFile(nil), b.addSession(nil)
		b.clock.move(30 * time.Minute)
		run := b.start(func(r *engine.Run) { r.Session = session.ID })
		b.clock.move(59 * time.Minute)
		_, err := b.Session(b.Context(), "ada", session.ID)
		b.want(err, "")
		run.Inputs = []engine.InputState{{ID: file.ID, Path: "a"}}
		b.finish(run, nil) // two seconds after it began
		ended := run.FinishedAt.Sub(b.clock.Now())
		b.clock.move(ended + time.Hour - time.Microsecond)
		b.look(file, session, "")
		b.clock.move(time.Microsecond)
		b.look(file, session, engine.ErrNotFound)
	},
}

// look finds a file and a session in every way, or in none.
func (b bench) look(file engine.File, session engine.Session, kind engine.Kind) {
	b.Helper()
	ctx := b.Context()
	_, err := b.File(ctx, "ada", file.ID)
	b.want(err, kind)
	_, err = b.Session(ctx, "ada", session.ID)
	b.want(err, kind)
	_, _, err = b.SessionFiles(ctx, "ada", session.ID)
	b.want(err, kind)
	files, err := b.Files(ctx, engine.FileQuery{Owner: "ada"})
	b.want(err, "")
	sessions, err := b.Sessions(ctx, engine.SessionQuery{Owner: "ada"})
	b.want(err, "")
	if there := kind == ""; (len(files) == 1) != there || (len(sessions) == 1) != there {
		b.Errorf("the lists have %d files and %d sessions, want %v", len(files), len(sessions), there)
	}
}

func TestFakeExpiry(t *testing.T) {
	for name, check := range expiryTests {
		t.Run(name, func(t *testing.T) {
			c, fake := &clock{now: start}, enginetest.NewIndex()
			fake.Now = c.Now
			check(bench{T: t, Index: fake, clock: c})
		})
	}
}
