package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// listing is code whose value is every file with its content.
const listing = `sorted((r + '/' + f, open(r + '/' + f).read()) for r, _, fs in __import__('os').walk('.') for f in fs)`

// Ten times a session is paused and used again, with changes between: its files are those that it left.
func TestPauseTenTimes(t *testing.T) {
	p := openAlone(t, Config{})
	s := p.session("python")
	p.run(s, "import os; os.makedirs('d/e')")
	for i := range 10 {
		p.run(s, fmt.Sprintf("import os\nopen('d/e/%d.txt', 'w').write('%d' * 1000)\nopen('same.txt', 'a').write('%d')\n"+
			"if os.path.exists('d/e/%d.txt'): os.remove('d/e/%d.txt')", i, i, i, i-2, i-2))
		if _, err := p.WriteFile(t.Context(), p.caller, s, fmt.Sprintf("beside%d.txt", i), strings.NewReader("b")); err != nil {
			t.Fatal(err)
		}
		before := plain(t, p.want(p.run(s, "gone = True\n"+listing), StatusOK))
		if err := p.Pause(t.Context(), p.caller, s, WithoutMemory); err != nil {
			t.Fatal(err)
		}
		if info, err := p.Info(t.Context(), p.caller, s); err != nil || info.State != StatePaused {
			t.Errorf("%s, %v", info.State, err)
		}
		if held, err := p.sandbox.Held(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("it takes memory: %v, %v", held, err)
		}
		c := p.want(p.run(s, "assert 'gone' not in globals()\n"+listing), StatusOK)
		if after := plain(t, c); after != before || !c.Restarted || !strings.Contains(c.Message, "paused") {
			t.Fatalf("cycle %d: %s\nwas %s\nrestarted %v: %q", i, after, before, c.Restarted, c.Message)
		}
	}
}

// Copies go apart from each other and from the source; the language, the limits and the setup are the source's.
func TestCopies(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Setup: Setup{Env: map[string]string{"NAME": "n"}, Dir: "/tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	s := made.ID
	p.run(s, "x = 1; open('/workspace/a.txt', 'w').write('one')")
	snapshot, err := p.AddSnapshot(t.Context(), p.caller, s, "v1", WithoutMemory)
	if err != nil || snapshot.Files != 1 || len(snapshot.Dropped) > 0 {
		t.Fatalf("%d files, %v, %v", snapshot.Files, snapshot.Dropped, err)
	}
	p.run(s, "open('/workspace/a.txt', 'w').write('two')")
	const look = "import os; ('x' in globals(), open('/workspace/a.txt').read(), os.environ['NAME'], os.getcwd())"
	for name, each := range map[string]struct {
		from engine.CopySource
		want string
	}{
		"of the snapshot": {engine.CopySource{Snapshot: snapshot.ID}, "(False, 'one', 'n', '/tmp')"},
		"of the session":  {engine.CopySource{Session: s}, "(False, 'two', 'n', '/tmp')"},
	} {
		copies, _, err := p.Copy(t.Context(), p.caller, each.from, CopyRequest{Count: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range copies {
			c := p.want(p.run(one.ID, look), StatusOK)
			if got := plain(t, c); got != each.want || !c.Restarted || !strings.Contains(c.Message, "copy") {
				t.Errorf("%s: %s, restarted %v: %q", name, got, c.Restarted, c.Message)
			}
			p.run(one.ID, "open('/workspace/a.txt', 'w').write('its own')")
		}
	}
	checkCell(t, p.run(s, "x, open('/workspace/a.txt').read()"), facts{Result: "(1, 'two')", Restarted: new(false)}, "source")
}

// A snapshot can be made while a cell runs, and has what the cell has written so far.
func TestSnapshotOfBusy(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: "open('a.txt', 'w').write('so far'); input()",
		AllowInput: true})
	if err != nil {
		t.Fatal(err)
	}
	events, err := p.Watch(t.Context(), p.caller, s, c.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Type == InputEvent {
			break
		}
	}
	copies, _, err := p.Copy(t.Context(), p.caller, engine.CopySource{Session: s}, CopyRequest{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	checkCell(t, p.run(copies[0].ID, "open('a.txt').read()"), facts{Result: "'so far'"}, "the copy")
	if err := p.Answer(t.Context(), p.caller, s, "x"); err != nil {
		t.Error(err)
	}
	checkCell(t, p.end(s, c.ID), facts{Result: "'x'"}, "the source")
}

// A copy has no network and no mount that its caller may not have.
func TestCopyWithoutRights(t *testing.T) {
	p := open(t, Config{})
	for settings, kind := range map[string]engine.Kind{
		`{"network":{"Allow":["example.com"]},"language":"python"}`: engine.ErrNetwork,
		`{"mounts":["data"],"language":"python"}`:                   engine.ErrInvalid,
		`{"image":"gone","language":"python"}`:                      engine.ErrInvalid,
	} {
		of, err := p.engine.CreateSession(t.Context(), p.caller, engine.SessionRequest{Kind: engine.SessionLive,
			Live: settings})
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := p.AddSnapshot(t.Context(), p.caller, of.ID, "", WithoutMemory)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []engine.CopySource{{Session: of.ID}, {Snapshot: snapshot.ID}} {
			if _, _, err := p.Copy(t.Context(), p.caller, from, CopyRequest{Count: 1}); engine.KindOf(err) != kind {
				t.Errorf("%s: %v, want %s", settings, err, kind)
			}
		}
	}
}

// A session that cannot store its files is not paused.
func TestPauseWithoutSpace(t *testing.T) {
	first := open(t, Config{})
	index := enginetest.NewIndex()
	p := openOn(t, Config{}, first.sandbox, enginetest.NewBlobs(), index)
	s := p.session("python")
	index.Fail(func(method string) error {
		if method == "SaveFiles" {
			return engine.ErrFull
		}
		return nil
	})
	p.run(s, "x = 1; open('a.txt', 'w').write('a' * 100)")
	if err := p.Pause(t.Context(), p.caller, s, WithoutMemory); !errors.Is(err, engine.ErrFull) || !strings.Contains(err.Error(), "would be lost") {
		t.Errorf("%v", err)
	}
	checkCell(t, p.run(s, "x, len(open('a.txt').read())"), facts{Result: "(1, 100)", Restarted: new(false)}, "it goes on")
	index.Fail(nil)
	p.run(s, "open('a.txt', 'a').write('')\nimport os; os.utime('a.txt')")
	if err := p.Pause(t.Context(), p.caller, s, WithoutMemory); err != nil {
		t.Error(err)
	}
	checkCell(t, p.run(s, "len(open('a.txt').read())"), facts{Result: "100", Restarted: new(true)}, "paused")
}

// The service stops while a process writes: what it wrote is there, and the setup is, too.
func TestStopStoresAll(t *testing.T) {
	blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
	first := open(t, Config{})
	p := openOn(t, Config{}, first.sandbox, blobs, index)
	made, err := p.Create(t.Context(), p.caller, Request{Origin: engine.OriginE2B,
		Setup: Setup{Env: map[string]string{"NAME": "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := made.ID
	served := p.process(s, ProcessRequest{Argv: []string{"python3", "-c",
		"open('late.txt', 'w').write('late'); import http.server, sys; sys.stdout = sys.stderr; " +
			"http.server.test(http.server.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"}})
	p.shown(s, served.ID, "Serving")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the server would not end by itself
	if err := p.engine.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := p.sandbox.Release(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	again := openOn(t, Config{}, first.sandbox, blobs, index)
	again.SetPrelude(engine.OriginE2B, "shell.user_ns['prelude'] = 'p'")
	c := again.want(again.run(s, "import os; (open('late.txt').read(), os.environ['NAME'], prelude)"), StatusOK)
	if got := plain(t, c); got != "('late', 'n', 'p')" {
		t.Error(got)
	}
	if _, err := again.DialPort(t.Context(), again.caller, s, 8000); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("its server: %v", err)
	}
}
