package linux

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// cells runs programs as cells, each in its own live session.
type cells struct {
	live   *live.Service
	engine *engine.Service
	caller engine.Caller
}

func newCells(t *testing.T, s engine.Sandbox) *cells {
	t.Helper()
	c := &cells{caller: engine.Caller{Owner: "mallory"}}
	t.Cleanup(func() { c.live.Close() }) // after the engine
	c.engine = enginetest.Start(t, engine.Config{Maxima: engine.Limits{Processes: 1000}}, s)
	c.live = live.New(live.Config{}, c.engine, quiet)
	return c
}

// run runs a program as a cell, and then another cell, which must work whatever the
// first did. It converts the end of a cell to that of a program.
func (c *cells) run(t *testing.T, spec *engine.Spec) sandboxtest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), spec.Limits.Timeout+time.Minute)
	defer cancel()
	request := live.Request{Language: spec.Language.Name, Limits: spec.Limits}
	for _, in := range spec.Inputs {
		file, err := c.engine.PutFile(ctx, c.caller, engine.Upload{Name: in.Path}, io.NewSectionReader(in.File, 0, in.Size))
		if err != nil {
			t.Fatal(err)
		}
		request.Files = append(request.Files, engine.FileRef{ID: file.ID, Path: in.Path})
	}
	made, err := c.live.Create(ctx, c.caller, request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.engine.DeleteSession(context.WithoutCancel(ctx), c.caller, made.ID); err != nil {
			t.Error(err)
		}
	}()
	cell := c.cell(ctx, t, made.ID, withEnvironment(spec), spec.Limits.Timeout)
	next := map[string]string{"python": "print('alive')", "bash": "echo alive",
		"js": "console.log('alive')"}[spec.Language.Name]
	after := c.cell(ctx, t, made.ID, next, 20*time.Second)
	if after.Status == live.StatusLost && strings.Contains(after.Message, "memory limit") {
		// Processes that a cell leaves behind may use up the memory of their own session: on a busy machine the kernel
		// is late to free what thousands of them had. It ends the session's processes, and not the session.
		after = c.cell(ctx, t, made.ID, next, 20*time.Second)
	}
	if after.Status != live.StatusOK ||
		!strings.Contains(said(after, live.Stdout), "alive\n") {
		t.Errorf("after it a cell is %s: %q, %s %s", after.Status, after.Message, said(after, live.Stdout),
			said(after, live.Stderr))
	}
	return c.result(ctx, t, cell)
}

func (c *cells) cell(ctx context.Context, t *testing.T, session engine.ID, code string, limit time.Duration) live.Cell {
	t.Helper()
	started, err := c.live.Start(ctx, c.caller, session, live.CellRequest{Code: code, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := c.live.Wait(ctx, c.caller, session, started.ID)
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// withEnvironment returns a program that sets its environment, which a cell cannot have.
func withEnvironment(spec *engine.Spec) string {
	env := spec.Env
	if spec.Calls {
		env["AIRLOCK_CALLS_FDS"] = fmt.Sprint(guest.AnswersFD, guest.CallsFD)
	}
	text, _ := json.Marshal(env) // these are strings
	switch spec.Language.Name {
	case "python":
		return fmt.Sprintf("import os; os.environ.update(%s)\n%s", text, spec.Code)
	case "js":
		return fmt.Sprintf("Object.assign(process.env, %s)\n%s", text, spec.Code)
	}
	var b strings.Builder
	for name, value := range env {
		fmt.Fprintf(&b, "export %s='%s'\n", name, value)
	}
	return b.String() + spec.Code
}

func said(c live.Cell, stream live.OutputType) (text string) {
	for _, o := range c.Outputs {
		if o.Type == stream {
			text += o.Text
		}
	}
	return text
}

// result converts a cell's end to a program's.
func (c *cells) result(ctx context.Context, t *testing.T, cell live.Cell) sandboxtest.Result {
	t.Helper()
	r := sandboxtest.Result{
		Outcome: &engine.Outcome{Duration: cell.Usage.Duration, CPU: cell.Usage.CPU, MemoryPeak: cell.Usage.MemoryPeak,
			Dropped: cell.Dropped, Deleted: cell.Deleted},
		Stdout: said(cell, live.Stdout), Stderr: said(cell, live.Stderr) + cell.Message, Files: map[string]string{},
	}
	for _, f := range cell.Files {
		_, content, err := c.engine.OpenFile(ctx, c.caller, f.ID)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		r.Files[f.Path] = string(b)
	}
	code, signal := 0, ""
	switch cell.Status {
	case live.StatusTimeout:
		r.TimedOut = true
		return r
	case live.StatusLost:
		r.OOM = strings.Contains(cell.Message, "memory limit")
		_, signal, _ = strings.Cut(cell.Message, "killed by ")
		signal = strings.TrimSuffix(signal, ".")
		if _, exit, ok := strings.Cut(cell.Message, "exit code "); ok {
			code, _ = strconv.Atoi(strings.TrimSuffix(exit, "."))
		}
	}
	for _, o := range cell.Outputs {
		if o.Type != live.Error {
			continue
		}
		r.Stderr += strings.Join(o.Traceback, "\n") + o.Name + ": " + o.Value
	}
	if cell.ExitCode != nil && cell.Status != live.StatusLost {
		code = *cell.ExitCode
		if code > 192 { // sys.exit(-9): of an attack that ran beside the interpreter
			signal = unix.SignalName(unix.Signal(256 - code))
		}
	}
	if signal == "" && r.OOM {
		signal = "SIGKILL"
	}
	if signal != "" {
		r.Signal = signal
		code = 128 + int(cmp.Or(unix.SignalNum(signal), unix.SIGKILL))
	}
	r.ExitCode = &code
	return r
}
