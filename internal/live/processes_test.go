package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func (p *place) process(session engine.ID, req ProcessRequest) Process {
	p.t.Helper()
	made, err := p.StartProcess(p.t.Context(), p.caller, session, req)
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

// output reads a process from an offset to its exit.
func (p *place) output(
	session, process engine.ID, from int64,
) (out map[ProcessEventType]string, dropped int64, end *Process) {
	p.t.Helper()
	events, err := p.WatchProcess(p.t.Context(), p.caller, session, process, from)
	if err != nil {
		p.t.Fatal(err)
	}
	out = map[ProcessEventType]string{}
	next := from
	for e := range events {
		if e.Offset != next {
			p.t.Fatalf("an event at %d, want %d", e.Offset, next)
		}
		next += int64(len(e.Data)) + e.Dropped
		out[e.Type] += string(e.Data)
		dropped += e.Dropped
		end = e.Process
	}
	return out, dropped, end
}

// shown reads a process until it has shown a text.
func (p *place) shown(session, process engine.ID, text string) {
	p.t.Helper()
	events, err := p.WatchProcess(p.t.Context(), p.caller, session, process, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	var all bytes.Buffer
	for e := range events {
		if all.Write(e.Data); strings.Contains(all.String(), text) {
			return
		}
	}
	p.t.Fatalf("%q is not in %q", text, all.String())
}

func TestProcesses(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	made := p.process(session, ProcessRequest{Argv: []string{
		"sh", "-c", "read x; echo got $x $Y; pwd; echo err >&2; exit 4"}, Env: map[string]string{"Y": "y"}})
	if !made.Running || made.Dir != "/workspace" || made.ExitCode != nil {
		t.Errorf("%+v", made)
	}
	if err := p.WriteProcess(t.Context(), p.caller, session, made.ID, []byte("line\n"), true); err != nil {
		t.Fatal(err)
	}
	out, _, end := p.output(session, made.ID, 0)
	if out[ProcessStdout] != "got line y\n/workspace\n" || out[ProcessStderr] != "err\n" || end == nil ||
		*end.ExitCode != 4 || end.Running || end.Output != 26 {
		t.Errorf("%q %+v", out, end)
	}
	if again, _, _ := p.output(session, made.ID, 4); len(again[ProcessStdout])+len(again[ProcessStderr]) != 22 {
		t.Errorf("from 4: %q", again)
	}
	for _, err := range []error{
		p.WriteProcess(t.Context(), p.caller, session, made.ID, []byte("x"), false),
		p.SignalProcess(t.Context(), p.caller, session, made.ID, "TERM"),
	} {
		if !errors.Is(err, engine.ErrConflict) {
			t.Errorf("to one that has ended: %v", err)
		}
	}
	stubborn := p.process(session, ProcessRequest{Shell: "trap '' TERM HUP INT; echo up; while :; do sleep 1000; done"})
	p.shown(session, stubborn.ID, "up")
	if err := p.SignalProcess(t.Context(), p.caller, session, stubborn.ID, "SIGTERM"); err != nil {
		t.Error(err)
	}
	if err := p.KillProcess(t.Context(), p.caller, session, stubborn.ID); err != nil {
		t.Error(err)
	}
	list, err := p.Processes(t.Context(), p.caller, session)
	if err != nil || len(list) != 2 || list[1].Signal != "SIGKILL" || list[1].Running {
		t.Errorf("%+v %v", list, err)
	}
	for name, req := range map[string]ProcessRequest{
		"nothing": {}, "both": {Argv: []string{"true"}, Shell: "true"}, "unknown": {Argv: []string{"no-such-command"}},
		"size": {Shell: "true", Terminal: &engine.TerminalSize{}},
	} {
		if _, err := p.StartProcess(t.Context(), p.caller, session, req); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.SignalProcess(t.Context(), p.caller, session, made.ID, "SIGNONE"); !errors.Is(err, engine.ErrInvalid) {
		t.Error(err)
	}
}

// A process runs between cells and beside them, and a restart ends it.
func TestProcessBesideCells(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	server := p.process(session, ProcessRequest{Argv: []string{"python3", "-uc", `
import http.server
s = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), http.server.SimpleHTTPRequestHandler)
print("up"); s.serve_forever()`}})
	p.shown(session, server.ID, "up")
	checkCell(t, p.run(session, "open('page.txt', 'w').write('hello'); import urllib.request as u; "+
		"u.urlopen('http://127.0.0.1:8080/page.txt').read()"), facts{Status: StatusOK})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: p.dial(session, 8080)}}
	answer, err := client.Get("http://sandbox/page.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); string(b) != "hello" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if _, err := p.DialPort(t.Context(), p.caller, session, 8081); !errors.Is(err, engine.ErrConflict) ||
		!strings.Contains(err.Error(), "port 8081 of session "+session.String()) {
		t.Errorf("a port at which nobody listens: %v", err)
	}
	if err := p.Restart(t.Context(), p.caller, session); err != nil {
		t.Fatal(err)
	}
	if _, _, end := p.output(session, server.ID, 0); end == nil || end.Running {
		t.Errorf("%+v", end)
	}
}

// A process does not wait for a cell that was asked for just before, whether the interpreter is about to start or
// waits: the cell may wait for the process.
func TestProcessAfterQueuedCell(t *testing.T) {
	p := open(t, Config{})
	for _, waits := range []bool{false, true, true, true} {
		session := p.session("python")
		if waits {
			p.run(session, "1")
		}
		c, err := p.Start(t.Context(), p.caller, session, CellRequest{Timeout: time.Minute,
			Code: "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err = p.StartProcess(ctx, p.caller, session, ProcessRequest{Argv: []string{"touch", "go"}})
		cancel()
		if err != nil {
			t.Fatalf("the interpreter waits: %v: %v", waits, err)
		}
		if end := p.end(session, c.ID); end.Status != StatusOK {
			t.Errorf("%+v", end)
		}
	}
}

// A terminal works between cells, when the interpreter alone would stand still.
func TestTerminalOfSession(t *testing.T) {
	p := open(t, Config{})
	session := p.session("bash")
	shell := p.process(session, ProcessRequest{Argv: []string{"bash", "--norc"},
		Terminal: &engine.TerminalSize{Columns: 80, Rows: 24}})
	typed := func(text string) {
		t.Helper()
		if err := p.WriteProcess(t.Context(), p.caller, session, shell.ID, []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	typed("echo $((40+2)) $TERM\r")
	// With the prompt: before that, bash reads the size and sets it again, which would undo a change meanwhile.
	p.shown(session, shell.ID, "42 xterm-256color\r\n\x1b[?2004hbash")
	if err := p.ResizeProcess(t.Context(), p.caller, session, shell.ID,
		engine.TerminalSize{Columns: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	typed("stty size\r")
	p.shown(session, shell.ID, "50 132")
	typed("sh -c \"echo run'ni'ng; exec sleep 1000\"\r")
	p.shown(session, shell.ID, "running")
	typed("\x03")
	typed("echo sta''tus $?\r")
	p.shown(session, shell.ID, "status 130")
	typed("exit 3\r")
	if _, _, end := p.output(session, shell.ID, 0); end == nil || *end.ExitCode != 3 {
		t.Errorf("%+v", end)
	}
}

// Of a flood the last part is kept, and it is said how much is not.
func TestFlood(t *testing.T) {
	p := open(t, Config{})
	session := p.session("bash")
	flood := p.process(session, ProcessRequest{Shell: "head -c 20000000 /dev/zero; echo -n end"})
	out, _, end := p.output(session, flood.ID, 0)
	again, dropped, _ := p.output(session, flood.ID, 0)
	if end.Output != 20_000_003 || !strings.HasSuffix(again[ProcessStdout], "end") ||
		dropped+int64(len(again[ProcessStdout])) != end.Output || dropped < 18_000_000 {
		t.Errorf("%+v, dropped %d, kept %d of %d", end, dropped, len(again[ProcessStdout]), len(out[ProcessStdout]))
	}
}

// Many small pieces of two streams take no more memory than a few large ones.
func TestOutputIsBounded(t *testing.T) {
	o := output{changed: make(chan struct{})}
	for i := range 1 << 20 {
		o.write([]ProcessEventType{ProcessStdout, ProcessStderr}[i%2], []byte{'x'})
	}
	if len(o.chunks) > keptOutput/chunkCost {
		t.Errorf("%d pieces are kept", len(o.chunks))
	}
}

// The children of an ended process keep its output open, and the output is still
// read.
func TestDoubleFork(t *testing.T) {
	p := open(t, Config{})
	session := p.session("bash")
	made := p.process(session, ProcessRequest{
		Shell: "mkfifo go; (setsid sh -c 'read -r x < go; echo later' &); echo first"})
	if _, _, end := p.output(session, made.ID, 0); end == nil || *end.ExitCode != 0 {
		t.Fatalf("%+v", end)
	}
	if p.leases(session) == 0 {
		t.Error("nobody keeps its sandbox going")
	}
	p.process(session, ProcessRequest{Shell: "echo > go"})
	for range 1000 { // it is written to by then, and the exit is not the last that is seen
		if now, err := p.Process(t.Context(), p.caller, session, made.ID); err != nil ||
			now.Output == int64(len("first\nlater\n")) {
			return
		}
		p.run(session, "true")
	}
	t.Error("what it wrote later is lost")
}

func (p *place) leases(session engine.ID) int {
	at, err := p.find(p.t.Context(), p.caller, session)
	if err != nil {
		p.t.Fatal(err)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.interpreter == nil {
		return 0
	}
	return at.interpreter.leases
}

// A process that no caller watches lets its session be frozen and expire.
func TestUnwatchedProcess(t *testing.T) {
	p := open(t, Config{Idle: 300 * time.Millisecond})
	session := p.session("bash")
	made := p.process(session, ProcessRequest{Shell: "sleep 1000"})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	at, err := p.find(ctx, p.caller, session)
	if err != nil {
		t.Fatal(err)
	}
	at.mu.Lock()
	kept := at.processes[0]
	at.mu.Unlock()
	if err := kept.output.await(ctx); err != nil {
		t.Fatal(err)
	}
	if now, err := p.Process(ctx, p.caller, session, made.ID); err != nil || now.Running {
		t.Errorf("%+v %v", now, err)
	}
}

// Another caller finds nothing of a session.
func TestInsideIsOwned(t *testing.T) {
	p := open(t, Config{})
	session := p.session("bash")
	made := p.process(session, ProcessRequest{Shell: "sleep 1000"})
	ctx, eve := t.Context(), engine.Caller{Owner: "eve"}
	_, start := p.StartProcess(ctx, eve, session, ProcessRequest{Shell: "true"})
	_, list := p.Processes(ctx, eve, session)
	_, get := p.Process(ctx, eve, session, made.ID)
	_, watch := p.WatchProcess(ctx, eve, session, made.ID, 0)
	_, _, files := p.ListFiles(ctx, eve, session, "", 1)
	_, stat := p.StatFile(ctx, eve, session, "x")
	_, _, open := p.OpenFile(ctx, eve, session, "x")
	_, write := p.WriteFile(ctx, eve, session, "x", strings.NewReader("x"))
	_, folder := p.MakeFolder(ctx, eve, session, "x")
	_, move := p.MoveFile(ctx, eve, session, "x", "y", true)
	_, seen := p.WatchFiles(ctx, eve, session, "", true)
	_, dial := p.DialPort(ctx, eve, session, 80)
	_, other := p.Process(ctx, p.caller, session, engine.NewID())
	for i, err := range []error{
		start, list, get, watch, p.WriteProcess(ctx, eve, session, made.ID, nil, true),
		p.SignalProcess(ctx, eve, session, made.ID, "KILL"),
		p.ResizeProcess(ctx, eve, session, made.ID, engine.TerminalSize{Columns: 1, Rows: 1}),
		p.KillProcess(ctx, eve, session, made.ID),
		files, stat, open, write, folder, move, p.RemoveFile(ctx, eve, session, "x", true), seen, dial, other,
	} {
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("verb %d: %v", i, err)
		}
	}
}

// Files that are written beside cells are a cell's to read, and the session's to keep.
func TestFilesOfSession(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	ctx := t.Context()
	if e, err := p.WriteFile(ctx, p.caller, session, "in/data.csv", strings.NewReader("a,b\n1,2\n")); err != nil ||
		e.Size != 8 {
		t.Fatalf("%+v %v", e, err)
	}
	changes, err := p.WatchFiles(ctx, p.caller, session, "", true)
	if err != nil {
		t.Fatal(err)
	}
	if c := p.run(session, "open('out.txt', 'w').write(open('in/data.csv').read().upper())"); c.Status != StatusOK {
		t.Fatalf("%+v", c)
	}
	for e := range changes {
		if e.Kind == engine.FileCreated && e.Path == "out.txt" {
			break
		}
	}
	_, f, err := p.OpenFile(ctx, p.caller, session, "out.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "A,B\n1,2\n" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if _, err := p.MoveFile(ctx, p.caller, session, "in/data.csv", "kept.csv", false); err != nil {
		t.Error(err)
	}
	if got := p.stored(session); !slices.Contains(got, "kept.csv") || slices.Contains(got, "in/data.csv") {
		t.Errorf("stored when it is moved: %q", got)
	}
	if err := p.RemoveFile(ctx, p.caller, session, "in", true); err != nil {
		t.Error(err)
	}
	entries, _, err := p.ListFiles(ctx, p.caller, session, "", 5)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(slices.Collect(func(yield func(string) bool) {
		for _, e := range entries {
			if !strings.HasPrefix(e.Path, ".") && !yield(e.Path) {
				return
			}
		}
	})); got != "[kept.csv out.txt]" {
		t.Errorf("left: %s", got)
	}
}

// A request that meets the end of its sandbox may be repeated.
func TestEndedSandboxIsTemporary(t *testing.T) {
	ended := &engine.Error{Op: "enter", Kind: engine.ErrConflict, Err: engine.ErrNoProgram, Hint: "start one first"}
	if err := sandboxError(ended); !errors.Is(err, engine.ErrUnavailable) || engine.RetrySeconds(err, 0) != "1" {
		t.Errorf("got %v, want %v", err, engine.ErrUnavailable)
	}
	closed := &engine.Error{Op: "enter", Kind: engine.ErrConflict, Err: errors.New("port 80: refused")}
	if err := sandboxError(closed); !errors.Is(err, closed) {
		t.Errorf("got %v, want %v", err, closed)
	}
}
