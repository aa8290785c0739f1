package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// rememberingSandbox is one whose sessions can be stored with their memory.
func rememberingSandbox(t *testing.T) *executor.Sandbox {
	t.Helper()
	if os.Geteuid() != 0 || sandboxtest.Binary() == "" {
		sandboxtest.Skip(t, "a kernel of its own needs root, and AIRLOCK_TEST_EXECUTOR with airlock-gvisor beside it")
	}
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: sandboxtest.LiveRuntimesOf(t), Warm: true,
		Wall: string(engine.WallGVisor), Binary: sandboxtest.Binary()})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openRemembering opens a room over such a sandbox.
func openRemembering(t *testing.T, s engine.Sandbox, blobs engine.Blobs, index engine.Index) *place {
	t.Helper()
	config := engine.Config{Wall: engine.WallGVisor,
		Network: engine.NetworkConfig{Allow: []string{"api.example.com"}, Egress: greeter{}}}
	return openOver(t, Config{}, enginetest.StartOn(t, config, s, blobs, index), s)
}

// greeter is an Egress that greets each connection.
type greeter struct{}

func (greeter) Open(_ context.Context, _ engine.Grant, file *os.File, _ func([]engine.Contact)) (io.Closer, error) {
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "hello")
			conn.Close()
		}
	}()
	return l, nil
}

func (greeter) Authority() (certificate, key []byte, err error) {
	return nil, nil, errors.ErrUnsupported
}

// Ten times a session is paused with its memory and used again, with changes between: variables, files everywhere and
// processes are as they were.
func TestPauseWithMemoryTenTimes(t *testing.T) {
	p := openRemembering(t, rememberingSandbox(t), enginetest.NewBlobs(), enginetest.NewIndex())
	s := p.session("python")
	p.want(p.run(s, "import os, subprocess, threading\nx, f = [], open('/tmp/open.txt', 'w')\n"+
		"server = subprocess.Popen(['sleep', '1000'])\nos.makedirs('/opt/mine')\nos.remove('/etc/hosts')"), StatusOK)
	for i := range 10 {
		p.want(p.run(s, fmt.Sprintf("x.append(%d); f.write('%d'); f.flush(); open('d%d', 'w').write('d')\n"+
			"open('/opt/mine/%d', 'w').write('m')", i, i, i, i)), StatusOK)
		if err := p.Pause(t.Context(), p.caller, s, WithMemory); err != nil {
			t.Fatal(err)
		}
		if info, err := p.Info(t.Context(), p.caller, s); err != nil || info.State != StatePaused {
			t.Errorf("%s, %v", info.State, err)
		}
		if held, err := p.sandbox.Held(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("it takes memory: %v, %v", held, err)
		}
		c := p.want(p.run(s, "len(x), open('/tmp/open.txt').read(), sorted(os.listdir()) == sorted('d%d' % i for i in x), "+
			"server.poll(), len(os.listdir('/opt/mine')), os.path.exists('/etc/hosts')"), StatusOK)
		want := fmt.Sprintf("(%d, '%s', True, None, %d, False)", i+1, "0123456789"[:i+1], i+1)
		if got := plain(t, c); got != want || c.Restarted || c.Message != "" {
			t.Fatalf("cycle %d: %s, want %s; restarted %v: %q", i, got, want, c.Restarted, c.Message)
		}
	}
	files, _, err := p.engine.SessionFiles(t.Context(), p.caller, s)
	if err != nil || len(files) != 10 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// Copies go on from the same variables, and have no random numbers in common.
func TestCopiesWithMemory(t *testing.T) {
	p := openRemembering(t, rememberingSandbox(t), enginetest.NewBlobs(), enginetest.NewIndex())
	for language, code := range map[string][2]string{
		"python": {"import random, uuid, secrets, tempfile\nx = 7",
			"x, random.random(), uuid.uuid4(), secrets.token_hex(), tempfile.mktemp()"},
		"javascript": {"x = 7; const crypto = require('crypto'); crypto.randomUUID()",
			"[x, Math.random(), crypto.randomUUID(), crypto.randomBytes(8).toString('hex'), globalThis.crypto.randomUUID()," +
				"crypto.randomInt(2 ** 40), globalThis.crypto.getRandomValues(new Uint32Array(2)).join()].join(' ')"},
		"bash": {"x=7", "echo $x $RANDOM$RANDOM$RANDOM"},
	} {
		t.Run(language, func(t *testing.T) {
			s := p.session(language)
			p.want(p.run(s, code[0]), StatusOK)
			made, _, err := p.Copy(t.Context(), p.caller, engine.CopySource{Session: s},
				CopyRequest{Count: 3, Memory: WithMemory})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, id := range []engine.ID{s, made[0].ID, made[1].ID, made[2].ID} {
				c := p.want(p.run(id, code[1]), StatusOK)
				shown := text(c, Stdout)
				if language != "bash" {
					shown = strings.Trim(plain(t, c), "()'\"")
				}
				words := strings.FieldsFunc(shown, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
				if words[0] != "7" || c.Restarted {
					t.Errorf("%s is not that of the source; restarted %v: %s", words[0], c.Restarted, c.Message)
				}
				for _, word := range words[1:] {
					if seen[word] {
						t.Errorf("%s came twice", word)
					}
					seen[word] = true
				}
			}
		})
	}
}

// A notebook that was closed, with its service, is as it was.
func TestMemoryOutlivesService(t *testing.T) {
	sandbox, blobs, index := rememberingSandbox(t), enginetest.NewBlobs(), enginetest.NewIndex()
	p := openRemembering(t, sandbox, blobs, index)
	s := p.session("python")
	p.want(p.run(s, "x = 41"), StatusOK)
	p.stop()
	again := openRemembering(t, sandbox, blobs, index)
	c := again.want(again.run(s, "x + 1"), StatusOK)
	if plain(t, c) != "42" || c.Restarted {
		t.Errorf("%s, restarted %v: %s", plain(t, c), c.Restarted, c.Message)
	}
}

// Programs reach their proxy, also after a pause, and those without a grant have none.
func TestNetworkOfOwnKernel(t *testing.T) {
	p := openRemembering(t, rememberingSandbox(t), enginetest.NewBlobs(), enginetest.NewIndex())
	made, err := p.Create(t.Context(), p.caller, Request{Network: &engine.Network{Allow: []string{"api.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	const connect = "import socket; [socket.create_connection(('127.0.0.1', 3128)).recv(9) for _ in range(3)]"
	const want = "[b'hello', b'hello', b'hello']"
	for range 3 {
		c := p.want(p.run(made.ID, connect), StatusOK)
		if got := plain(t, c); got != want || c.Restarted {
			t.Errorf("the proxy says %s; restarted %v: %s", got, c.Restarted, c.Message)
		}
		if err := p.Pause(t.Context(), p.caller, made.ID, WithMemory); err != nil {
			t.Fatal(err)
		}
	}
	if c := p.run(p.session("python"), connect); c.Status != StatusError {
		t.Errorf("without a grant: %s", c.Status)
	}
}

// A session whose memory cannot be stored goes on, and can be paused when there is room again.
func TestMemoryWithoutSpace(t *testing.T) {
	blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
	p := openRemembering(t, rememberingSandbox(t), blobs, index)
	s := p.session("python")
	p.want(p.run(s, "x = 1"), StatusOK)
	full := func(at string) func(string) error {
		return func(method string) error {
			if method == at {
				return engine.ErrFull
			}
			return nil
		}
	}
	for _, at := range []string{"Put", "SaveFiles"} {
		blobs.Fail(full(at))
		index.Fail(full(at))
		if err := p.Pause(t.Context(), p.caller, s, WithMemory); !errors.Is(err, engine.ErrFull) {
			t.Errorf("without room (%s): %v", at, err)
		}
		blobs.Fail(nil)
		index.Fail(nil)
		checkCell(t, p.run(s, "x"), facts{Result: "1", Restarted: new(false)}, at)
	}
	if err := p.Pause(t.Context(), p.caller, s, WithMemory); err != nil {
		t.Fatal(err)
	}
	checkCell(t, p.run(s, "x"), facts{Result: "1", Restarted: new(false)}, "paused")
}

// A service that stops tries again to store a session that was busy after it had looked, and says if it gives up.
func TestRememberIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		at := &session{service: &Service{log: slog.New(slog.NewTextHandler(&said, nil))}}
		begin := func(ctx context.Context) <-chan struct{} {
			at.mu.Lock()
			defer at.mu.Unlock()
			at.interpreter = &interpreter{began: true, keeping: make(chan struct{})} // it looks idle, and is not
			done := make(chan struct{})
			go func() { defer close(done); at.rememberIdle(ctx, make(chan struct{}, 1)) }()
			return done
		}
		done := begin(t.Context())
		select {
		case <-done:
			t.Error("it gave up at once")
		case <-time.After(10 * busyLook):
		}
		at.mu.Lock()
		at.interpreter = nil
		at.mu.Unlock()
		if <-done; said.Len() > 0 {
			t.Errorf("it said %s", &said)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done = begin(ctx)
		cancel()
		if <-done; !strings.Contains(said.String(), "ends without its memory") {
			t.Errorf("it said %q", &said)
		}
	})
}
