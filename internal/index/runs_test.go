package index

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

var runTests = map[string]func(bench){
	"run round trip": func(b bench) {
		code := 3
		run := b.start(func(r *engine.Run) { r.Origin, r.Image = engine.OriginLibreChat, "py313" })
		got, err := b.Run(b.Context(), "ada", run.ID)
		b.want(err, "")
		b.same("queued run", got, run)
		_, err = b.RunLog(b.Context(), "ada", run.ID)
		b.want(err, engine.ErrConflict)

		one, two := newFile("ada"), newFile("ada")
		one.Path, two.Path = "a.png", "b/c.csv"
		run.Files = []engine.File{one, two}
		run.ExitCode, run.Truncated = &code, true
		run.Stdout, run.Stderr = "out\x00 ü\n", "err"
		run.CPU, run.MemoryPeak, run.Start = 123*time.Millisecond, 1<<33, engine.StartWarm
		run.Inputs = []engine.InputState{{ID: engine.NewID(), Path: "in \"1\"", Changed: true},
			{ID: engine.NewID(), Path: "in2", Deleted: true}}
		run.Dropped = []engine.DroppedFile{{Path: "huge", Reason: "too large"}}
		run.Message, run.Hint = "as the test asked", "it was not sent"
		end(run, engine.StatusError)
		b.want(b.FinishRun(b.Context(), run, []engine.OutputChunk{
			{Stream: engine.Stdout, Data: run.Stdout}, {Stream: engine.Stderr, Data: "err"}}, nil), "")
		got, err = b.Run(b.Context(), "ada", run.ID)
		b.want(err, "")
		b.same("finished run", got, run)

		b.want(b.FinishRun(b.Context(), run, nil, nil), engine.ErrInternal) // text without a log
		run.Stdout, run.Stderr = "", ""
		b.want(b.FinishRun(b.Context(), run, nil, nil), engine.ErrConflict) // it has ended
		signal := b.start(nil)
		end(signal, engine.StatusKilled)
		signal.Signal = "SIGSEGV"
		b.want(b.FinishRun(b.Context(), signal, nil, nil), "")
		got, err = b.Run(b.Context(), "ada", signal.ID)
		b.want(err, "")
		b.same("killed run", got, signal)
		log, err := b.RunLog(b.Context(), "ada", signal.ID)
		b.want(err, "")
		b.same("log of a silent run", log, nil)
	},
	"foreign and unknown runs answer alike": func(b bench) {
		run := b.start(nil)
		b.finish(run, nil)
		stranger := newRun("bob")
		for owner, id := range map[engine.Owner]engine.ID{"bob": run.ID, "ada": stranger.ID} {
			_, err := b.Run(b.Context(), owner, id)
			b.same("text", err.Error(), "get run "+id.String()+": not_found")
			_, err = b.RunLog(b.Context(), owner, id)
			b.want(err, engine.ErrNotFound)
			_, err = b.Runs(b.Context(), engine.RunQuery{Owner: owner, Page: engine.Page{After: id}})
			b.want(err, engine.ErrNotFound)
		}
		end(stranger, engine.StatusOK)
		b.want(b.FinishRun(b.Context(), stranger, nil, nil), engine.ErrNotFound)
	},
	"the log comes back as it went in": func(b bench) {
		for _, log := range [][]engine.OutputChunk{
			nil,
			{{Stream: engine.Stderr, Data: "only errors"}},
			{{Stream: engine.Stdout, Data: "a"}, {Stream: engine.Stdout, Data: "b"}, {Stream: engine.Stderr, Data: "ü"},
				{Stream: engine.Stdout, Data: "c\x00d"}},
			{{Stream: engine.Stdout, Data: strings.Repeat("long", 100_000)},
				{Stream: engine.Stderr, Data: strings.Repeat("x", 63)}, {Stream: engine.Stderr, Data: strings.Repeat("y", 64)}},
		} {
			run := b.start(nil)
			for _, chunk := range log {
				if chunk.Stream == engine.Stdout {
					run.Stdout += chunk.Data
				} else {
					run.Stderr += chunk.Data
				}
			}
			b.finish(run, log)
			got, err := b.RunLog(b.Context(), "ada", run.ID)
			b.want(err, "")
			b.same("log", got, log)
			whole, err := b.Run(b.Context(), "ada", run.ID)
			b.want(err, "")
			b.same("run", whole, run)
		}
		run := b.start(nil)
		end(run, engine.StatusOK)
		b.want(b.FinishRun(b.Context(), run, []engine.OutputChunk{{Stream: "stdlog", Data: "x"}}, nil), engine.ErrInternal)
		b.want(b.FinishRun(b.Context(), run, []engine.OutputChunk{{Stream: engine.Stdout, Data: "x"}}, nil),
			engine.ErrInternal)
	},
	"a list comes with the beginning of what was printed": func(b bench) {
		long, silent := b.start(nil), b.start(nil)
		long.Stdout, long.Stderr = strings.Repeat("ü", 100_000), "an error"
		b.finish(long, []engine.OutputChunk{{Stream: engine.Stdout, Data: long.Stdout},
			{Stream: engine.Stderr, Data: long.Stderr}})
		b.finish(silent, nil)
		for most, want := range map[int][2]string{0: {"", ""}, 5: {"üü", "an er"},
			1000: {strings.Repeat("ü", 500), "an error"}} {
			list, err := b.Runs(b.Context(), engine.RunQuery{Owner: "ada", Output: most})
			b.want(err, "")
			for _, run := range list {
				if run.ID == long.ID {
					b.same("output", [2]string{run.Stdout, run.Stderr}, want)
				} else {
					b.same("no output", run.Stdout+run.Stderr, "")
				}
			}
		}
	},
	"what was run comes back however it was recorded, and is found": func(b bench) {
		source := &engine.Source{
			Language: "py", Code: "# zürich\nread_csv('x')", Stdin: []byte{0, 255}, Args: []string{"-v"}, Entry: "tram.py",
			Client: "CLI", Files: []engine.FileRef{{ID: engine.NewID(), Owner: "ada", Path: "in.csv", ReadOnly: true}},
			Packages: "onyx", Image: "py313", Timeout: time.Minute, Memory: 1 << 20, EchoLast: true, Plots: true,
		}
		silent := b.start(func(r *engine.Run) { r.Source = source })
		got, err := b.Run(b.Context(), "ada", silent.ID) // also when its end is never recorded
		b.want(err, "")
		b.same("begun", got.Source, source)
		b.finish(silent, nil)
		spoke := b.start(func(r *engine.Run) { r.Source = source })
		spoke.Stdout = "Genève 42"
		b.finish(spoke, []engine.OutputChunk{{Stream: engine.Stdout, Data: spoke.Stdout}})
		session := newSession("ada")
		session.Implicit = true
		at := newRun("ada")
		at.Source, at.Session = source, session.ID
		end(at, engine.StatusOOM)
		b.want(b.InsertFinished(b.Context(), engine.FinishedRun{Run: at, Session: &session}), "")
		other, theirs := newSession("bob"), newRun("bob")
		other.Implicit, theirs.Session = true, other.ID
		theirs.Source = &engine.Source{Code: "zürich"}
		_, err = b.StartRun(b.Context(), theirs, &other, "", engine.Digest{})
		b.want(err, "")
		b.finish(theirs, nil)
		hidden := b.start(func(r *engine.Run) { r.Source, r.Origin = source, engine.OriginPreview })
		b.finish(hidden, nil)
		for _, id := range []engine.ID{silent.ID, spoke.ID, at.ID} {
			got, err := b.Run(b.Context(), "ada", id)
			b.want(err, "")
			b.same("source", got.Source, source)
		}
		n, err := b.IndexRuns(b.Context(), 100)
		b.want(err, "")
		b.same("indexed", n, 5)
		found := func(owner engine.Owner, text string) (n int) {
			runs, err := b.Runs(b.Context(), engine.RunQuery{Owner: owner, Text: text, Source: true, Programs: true})
			b.want(err, "")
			for _, r := range runs {
				if r.Source == nil {
					b.Errorf("%q: %v comes without what was run", text, r.ID)
				}
			}
			return len(runs)
		}
		for text, want := range map[string]int{
			"zurich": 3, "ZÜRI": 3, "csv": 3, "read_csv": 3, "READ_CSV('x')": 3, "tram": 3, "in.csv": 3, "cli": 3,
			"genève 42": 1, "zürich genève": 1, "42 absent": 0, "memory": 1, "%": 0, "\" OR owner : x": 0, "NOT": 0, "616461": 0,
		} {
			b.same(text, found("ada", text), want)
		}
		b.same("bob's", found("bob", "zürich"), 1)
		gone, err := b.ExpireRuns(b.Context(), start.Add(time.Hour), 100)
		b.want(err, "")
		b.same("expired", gone, 5)
		for _, table := range []string{"run_logs", "run_text"} {
			var n int
			b.want(b.Index.(*DB).read(b.Context(), "count", "", func(c *conn) error {
				return c.row(b.Context(), []any{&n}, "SELECT count(*) FROM "+table)
			}), "")
			b.same("rows left in "+table, n, 0)
		}
	},
	"runs that are recorded once are recorded together, or none of them": func(b bench) {
		made := func() engine.FinishedRun {
			run, session := newRun("ada"), newSession("ada")
			run.Session, session.Implicit = session.ID, true
			end(run, engine.StatusError)
			run.Stdout, run.FinishedAt = "out\n", start.Add(time.Hour)
			return engine.FinishedRun{Run: run, Session: &session,
				Log: []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}}
		}
		first, second := made(), made()
		b.want(b.InsertFinished(b.Context(), first, second, first), engine.ErrConflict)
		_, err := b.Run(b.Context(), "ada", second.Run.ID)
		b.want(err, engine.ErrNotFound)
		b.want(b.InsertFinished(b.Context(), first, second), "")
		for _, r := range []engine.FinishedRun{first, second} {
			got, err := b.Run(b.Context(), "ada", r.Run.ID)
			b.want(err, "")
			b.same("run", []any{got.Status, got.Stdout, got.Session, got.Duration},
				[]any{r.Run.Status, r.Run.Stdout, r.Session.ID, r.Run.Duration})
			log, err := b.RunLog(b.Context(), "ada", r.Run.ID)
			b.want(err, "")
			b.same("log", log, r.Log)
			session, err := b.Session(b.Context(), "ada", r.Session.ID)
			b.want(err, "")
			b.same("session's expiry", session.ExpiresAt, r.Run.FinishedAt.Add(time.Hour))
		}
		b.want(b.FinishRun(b.Context(), first.Run, first.Log, nil), engine.ErrConflict)
		first = made()
		first.Run.Files = []engine.File{newFile("ada")}
		b.want(b.InsertFinished(b.Context(), first), engine.ErrInternal)
	},
	"a run settles its session": func(b bench) {
		input, kept, removed := b.addFile(nil), b.addFile(nil), b.addFile(nil)
		session := b.addSession(nil,
			engine.SessionFile{File: input.ID, Path: "changed", Role: engine.RoleInput},
			engine.SessionFile{File: kept.ID, Path: "kept", Role: engine.RoleInput},
			engine.SessionFile{File: removed.ID, Path: "removed", Role: engine.RoleInput})
		b.clock.move(10 * time.Minute)
		run := b.start(func(r *engine.Run) { r.Session = session.ID })
		changed, fresh := newFile("ada"), newFile("ada")
		changed.Path, fresh.Path = "changed", "fresh"
		run.Files = []engine.File{changed, fresh}
		run.Inputs = []engine.InputState{{ID: input.ID, Path: "changed", Changed: true},
			{ID: removed.ID, Path: "removed", Deleted: true}}
		b.finish(run, nil, "removed", "never there")
		b.same("paths", b.sessionPaths(session.ID), map[string]engine.ID{
			"changed": changed.ID, "fresh": fresh.ID, "kept": kept.ID})
		_, places, err := b.SessionFiles(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("role", places[0].Role, engine.RoleOutput)

		got, err := b.Session(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("session's expiry", got.ExpiresAt, run.FinishedAt.Add(time.Hour))
		for id, want := range map[engine.ID]time.Time{input.ID: run.FinishedAt.Add(time.Hour),
			kept.ID: start.Add(time.Hour)} {
			file, err := b.File(b.Context(), "ada", id)
			b.want(err, "")
			b.same("expiry", file.ExpiresAt, want)
		}
	},
	"a run that takes longer than its session lives wins": func(b bench) {
		session := b.addSession(nil)
		b.clock.move(time.Hour - time.Second)
		run := b.start(func(r *engine.Run) { r.Session = session.ID })
		b.clock.move(time.Minute)
		_, err := b.Session(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.finish(run, nil)
		now := b.clock.move(24 * time.Hour)
		late := newRun("ada")
		late.Session = session.ID
		_, err = b.StartRun(b.Context(), late, nil, "", engine.Digest{})
		b.want(err, engine.ErrNotFound)
		_, err = b.Run(b.Context(), "ada", late.ID)
		b.want(err, engine.ErrNotFound)
		expired, err := b.ExpiredSessions(b.Context(), now, 1)
		b.want(err, "")
		b.same("expired", len(expired), 1)
	},
	"nobody runs in a foreign session": func(b bench) {
		session := b.addSession(func(s *engine.Session) { s.Owner = "bob" })
		run := newRun("ada")
		run.Session = session.ID
		_, err := b.StartRun(b.Context(), run, nil, "", engine.Digest{})
		b.want(err, engine.ErrNotFound)
	},
	"a session that is deleted in mid-run": func(b bench) {
		session := b.addSession(nil)
		run := b.start(func(r *engine.Run) { r.Session = session.ID })
		b.want(b.DeleteSession(b.Context(), "ada", session.ID), "")
		file := newFile("ada")
		file.Path = "a"
		run.Files = []engine.File{file}
		b.finish(run, nil)
		_, err := b.File(b.Context(), "ada", file.ID)
		b.want(err, "")
	},
	"FinishRun does all or nothing": func(b bench) {
		taken := b.addFile(nil)
		session := b.addSession(nil, engine.SessionFile{File: taken.ID, Path: "gone", Role: engine.RoleInput})
		run := b.start(func(r *engine.Run) { r.Session = session.ID })
		file := newFile("ada")
		run.Files = []engine.File{file, taken} // the second file's id is used
		end(run, engine.StatusOK)
		run.Stdout = "x"
		b.want(b.FinishRun(b.Context(), run, []engine.OutputChunk{{Stream: engine.Stdout, Data: "x"}}, []string{"gone"}),
			engine.ErrConflict)
		_, err := b.File(b.Context(), "ada", file.ID)
		b.want(err, engine.ErrNotFound)
		b.same("paths", b.sessionPaths(session.ID), map[string]engine.ID{"gone": taken.ID})
		got, err := b.Run(b.Context(), "ada", run.ID)
		b.want(err, "")
		b.same("status", got.Status, engine.StatusQueued)
	},
	"lists of runs": func(b bench) {
		session := b.addSession(nil)
		old := b.start(func(r *engine.Run) { r.Session = session.ID })
		b.clock.move(time.Second)
		onyx := b.start(func(r *engine.Run) { r.Origin = engine.OriginOnyx })
		b.start(func(r *engine.Run) { r.Owner = "bob" })
		b.clock.move(time.Second)
		young := b.start(nil)
		file := newFile("ada")
		young.Files = []engine.File{file}
		young.Stdout = "text"
		b.finish(young, []engine.OutputChunk{{Stream: engine.Stdout, Data: "text"}})
		young.Stdout = "" // lists are without texts
		for _, test := range []struct {
			name  string
			query engine.RunQuery
			want  []engine.Run
		}{
			{"all", engine.RunQuery{}, []engine.Run{*young, *onyx, *old}},
			{"of an origin", engine.RunQuery{Origin: engine.OriginNative}, []engine.Run{*young, *old}},
			{"of a session", engine.RunQuery{Session: session.ID}, []engine.Run{*old}},
			{"first page", engine.RunQuery{Page: engine.Page{Limit: 2}}, []engine.Run{*young, *onyx}},
			{"second page", engine.RunQuery{Page: engine.Page{Limit: 2, After: onyx.ID}}, []engine.Run{*old}},
		} {
			test.query.Owner = "ada"
			got, err := b.Runs(b.Context(), test.query)
			b.want(err, "")
			b.same(test.name, got, test.want)
		}
		runs, err := b.Runs(b.Context(), engine.RunQuery{Owner: "bob", Session: session.ID})
		b.want(err, "")
		b.same("runs of a foreign session", runs, nil)
	},
	"files of a run that have expired are left out": func(b bench) {
		run := b.start(nil)
		run.Files = []engine.File{newFile("ada")}
		b.finish(run, nil)
		b.clock.move(time.Hour)
		got, err := b.Run(b.Context(), "ada", run.ID)
		b.want(err, "")
		b.same("files", got.Files, nil)
	},
	"idempotency": func(b bench) {
		first := newRun("ada")
		one, two := engine.Digest{1}, engine.Digest{2}
		earlier, err := b.StartRun(b.Context(), first, nil, "key", one)
		b.want(err, "")
		b.same("earlier", earlier, engine.ID{})
		for _, test := range []struct {
			name  string
			owner engine.Owner
			key   string
			print engine.Digest
			want  engine.ID
			kind  engine.Kind
		}{
			{"again", "ada", "key", one, first.ID, ""},
			{"other content", "ada", "key", two, first.ID, engine.ErrConflict},
			{"other key", "ada", "KEY", one, engine.ID{}, ""},
			{"other owner", "bob", "key", one, engine.ID{}, ""},
			{"no key", "ada", "", one, engine.ID{}, ""},
			{"no key again", "ada", "", one, engine.ID{}, ""},
		} {
			run, session := newRun(test.owner), newSession(test.owner)
			run.Session = session.ID
			earlier, err := b.StartRun(b.Context(), run, &session, test.key, test.print)
			b.want(err, test.kind)
			b.same(test.name, earlier, test.want)
			_, runErr := b.Run(b.Context(), test.owner, run.ID)
			_, sessionErr := b.Session(b.Context(), test.owner, session.ID)
			if recorded := test.want.IsZero(); recorded != (runErr == nil) || recorded != (sessionErr == nil) {
				b.Errorf("%s: run %v, session %v", test.name, runErr, sessionErr)
			}
		}
		b.finish(first, nil)
		b.want(b.NameRun(b.Context(), "bob", first.ID, "Rates"), engine.ErrNotFound)
		b.want(b.NameRun(b.Context(), "ada", first.ID, "Rates"), "")
		named, err := b.Run(b.Context(), "ada", first.ID)
		b.want(err, "")
		b.same("the name", named.Name, "Rates")
		_, err = b.ExpireRuns(b.Context(), first.FinishedAt.Add(time.Second), 10)
		b.want(err, "")
		earlier, err = b.StartRun(b.Context(), newRun("ada"), nil, "key", two)
		b.want(err, "") // the key went with its run
		b.same("earlier", earlier, engine.ID{})
	},
	"idempotency in parallel": func(b bench) {
		var callers sync.WaitGroup
		earlier := make([]engine.ID, 8)
		begun := make([]engine.ID, len(earlier))
		for i := range earlier {
			callers.Go(func() {
				run := newRun("ada")
				begun[i] = run.ID
				var err error
				if earlier[i], err = b.StartRun(b.Context(), run, nil, "key", engine.Digest{1}); err != nil {
					b.Error(err)
				}
			})
		}
		callers.Wait()
		var winner engine.ID
		for i, id := range earlier {
			if id.IsZero() {
				if !winner.IsZero() {
					b.Fatal("two runs began")
				}
				winner = begun[i]
			}
		}
		for _, id := range earlier {
			if !id.IsZero() && id != winner {
				b.Errorf("told of run %v, the winner is %v", id, winner)
			}
		}
		runs, err := b.Runs(b.Context(), engine.RunQuery{Owner: "ada"})
		b.want(err, "")
		b.same("runs", len(runs), 1)
	},
	"interrupted runs": func(b bench) {
		queued, running, done := b.start(nil), b.start(func(r *engine.Run) { r.Status = engine.StatusRunning }), b.start(nil)
		b.finish(done, nil)
		now := b.clock.move(time.Minute)
		n, err := b.InterruptRuns(b.Context(), now)
		b.want(err, "")
		b.same("interrupted", n, 2)
		for id, want := range map[engine.ID]engine.Status{queued.ID: engine.StatusInterrupted,
			running.ID: engine.StatusInterrupted, done.ID: engine.StatusOK} {
			run, err := b.Run(b.Context(), "ada", id)
			b.want(err, "")
			b.same("status", run.Status, want)
			if want == engine.StatusInterrupted && (!run.FinishedAt.Equal(now) || run.Message == "") {
				b.Errorf("finished at %v: %q", run.FinishedAt, run.Message)
			}
		}
		end(queued, engine.StatusOK)
		b.want(b.FinishRun(b.Context(), queued, nil, nil), engine.ErrConflict)
		log, err := b.RunLog(b.Context(), "ada", queued.ID)
		b.want(err, "")
		b.same("log", log, nil)
	},
	"expiry of runs and of their implicit sessions": func(b bench) {
		begin := func(files ...engine.File) (*engine.Run, engine.Session) {
			run, session := newRun("ada"), newSession("ada")
			run.Session, session.Implicit = session.ID, true
			_, err := b.StartRun(b.Context(), run, &session, "", engine.Digest{})
			b.want(err, "")
			run.Stdout, run.Files = "x", files
			b.finish(run, []engine.OutputChunk{{Stream: engine.Stdout, Data: "x"}})
			return run, session
		}
		output := newFile("ada")
		output.Path = "out"
		empty, emptySession := begin()
		full, fullSession := begin(output)
		shared, sharedSession := begin()
		second := b.start(func(r *engine.Run) { r.Session = sharedSession.ID }) // continues
		named := b.addSession(nil)
		inNamed := b.start(func(r *engine.Run) { r.Session = named.ID })
		b.finish(inNamed, nil)

		n, err := b.ExpireRuns(b.Context(), empty.FinishedAt, 10) // not before that
		b.want(err, "")
		b.same("gone", n, 0)
		n, err = b.ExpireRuns(b.Context(), empty.FinishedAt.Add(time.Second), 3)
		b.want(err, "")
		b.same("gone", n, 3)
		n, err = b.ExpireRuns(b.Context(), empty.FinishedAt.Add(time.Second), 3)
		b.want(err, "")
		b.same("gone", n, 1)
		for id, kind := range map[engine.ID]engine.Kind{empty.ID: engine.ErrNotFound, full.ID: engine.ErrNotFound,
			shared.ID: engine.ErrNotFound, second.ID: ""} {
			_, err := b.Run(b.Context(), "ada", id)
			b.want(err, kind)
		}
		for id, kind := range map[engine.ID]engine.Kind{emptySession.ID: engine.ErrNotFound, fullSession.ID: "",
			sharedSession.ID: "", named.ID: ""} {
			_, err := b.Session(b.Context(), "ada", id)
			b.want(err, kind)
		}
		b.same("files outlive their run", b.sessionPaths(fullSession.ID), map[string]engine.ID{"out": output.ID})
	},
}

// A text is stored once, whatever the number of its pieces.
func TestLogIsCompact(t *testing.T) {
	run := newRun("ada")
	var log []engine.OutputChunk
	for range 10_000 {
		log = append(log, engine.OutputChunk{Stream: engine.Stdout, Data: "one line of text\n"})
		run.Stdout += "one line of text\n"
	}
	text, err := joinLog(log, run)
	if err != nil {
		t.Fatal(err)
	}
	if overhead := len(text.stdout) + len(text.stderr) + len(text.chunks) - len(run.Stdout); overhead > len(log) {
		t.Errorf("%d chunks cost %d bytes", len(log), overhead)
	}
}

func BenchmarkRun(b *testing.B) {
	db := openAt(b, newPath(b))
	for b.Loop() {
		run, session := newRun("ada"), newSession("ada")
		run.Session, session.Implicit = session.ID, true
		if _, err := db.StartRun(b.Context(), run, &session, "", engine.Digest{}); err != nil {
			b.Fatal(err)
		}
		end(run, engine.StatusOK)
		run.Stdout = strings.Repeat("some output\n", 100)
		run.Files = []engine.File{newFile("ada")}
		if err := db.FinishRun(b.Context(), run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}},
			nil); err != nil {
			b.Fatal(err)
		}
	}
}
