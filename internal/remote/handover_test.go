package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Sessions of a worker that is drained, that has failed, or whose api has failed continue with
// their files as of the last run or cell, and report that.
func TestHandOver(t *testing.T) {
	if _, err := os.Stat(filepath.Join(os.Getenv("AIRLOCK_TEST_DATA"), "runtimes", "python")); err != nil {
		sandboxtest.Skip(t, "needs live sessions: AIRLOCK_TEST_DATA names a data directory after airlock setup")
	}
	ann := engine.Caller{Owner: "ann"}
	for _, what := range []string{"a worker is drained", "a worker is gone", "an api is gone"} {
		first, one := serve(t, local(t), token)
		_, two := serve(t, local(t), token)
		two.Name, two.Epoch = "second", 2
		s := api(t, token, one)
		index := enginetest.NewIndex()
		core := enginetest.StartOn(t, engine.Config{}, s, s.config.Blobs, index)
		cells := live.New(live.Config{}, core, quiet)
		former := cells
		t.Cleanup(func() { former.Close() })

		held, err := core.CreateSession(t.Context(), ann, engine.SessionRequest{Origin: engine.OriginOnyx,
			Kind: engine.SessionHeld})
		if err != nil {
			t.Fatal(err)
		}
		bash := func(code string) *engine.Run {
			t.Helper()
			req := engine.RunRequest{Language: "bash", Code: code, Session: held.ID}
			req.Profile.Program.Inline, req.Profile.Files.Discard = true, true
			run, err := core.Run(t.Context(), ann, req)
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		bash("mkdir d; echo kept > d/a.txt; echo old > b.txt")
		bash("rm b.txt")

		session, err := cells.Create(t.Context(), ann, live.Request{Language: "bash"})
		if err != nil {
			t.Fatal(err)
		}
		cell := func(code string) live.Cell {
			t.Helper()
			c, err := cells.Start(t.Context(), ann, session.ID, live.CellRequest{Code: code})
			if err != nil {
				t.Fatal(err)
			}
			if c, err = cells.Wait(t.Context(), ann, session.ID, c.ID); err != nil {
				t.Fatal(err)
			}
			return c
		}
		cell("x=1; echo kept > c.txt")

		switch what {
		case "a worker is drained":
			first.awaitIdle(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := first.Drain(ctx); err != nil {
				t.Errorf("an interpreter that waits holds the end up: %v", err)
			}
			s.Update([]Node{one, two}) // nobody has heard of it yet
		case "a worker is gone":
			s.Update([]Node{two})
		default: // the worker still has the workspaces
			other := api(t, token, one)
			other.config.Blobs = s.config.Blobs
			former.Close()
			core = enginetest.StartOn(t, engine.Config{}, other, s.config.Blobs, index)
			cells = live.New(live.Config{}, core, quiet)
			t.Cleanup(func() { cells.Close() })
		}
		run := bash("ls -R; cat d/a.txt")
		if !strings.Contains(run.Stdout, "kept") || strings.Contains(run.Stdout, "b.txt") ||
			run.Stderr != restored {
			t.Errorf("%s: %q %q", what, run.Stdout, run.Stderr)
		}
		if run := bash("ls"); run.Stderr != "" || !strings.Contains(run.Stdout, "d") {
			t.Errorf("the second one: %q %q", run.Stdout, run.Stderr)
		}
		c := cell("echo [$x] $(cat c.txt)")
		if len(c.Outputs) == 0 || !strings.Contains(c.Outputs[0].Text, "[] kept") || !c.Restarted {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// awaitIdle returns when an interpreter waits.
func (w *Worker) awaitIdle(t *testing.T) {
	t.Helper()
	late := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		w.mu.Lock()
		n := len(w.idle)
		w.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("no interpreter waits")
		}
	}
}

const restored = "[The workspace of this session was lost, with its machine or in a restart of the service. " +
	"It has its files as of the last run again; what ran in it has ended.]\n"
