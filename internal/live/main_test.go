package live

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/language/typescript"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The executor of a test's sandbox is this test binary, executed again, and so is the compiler in it.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "compile" && os.Args[2] == "typescript" {
		os.Exit(typescript.Main(os.Args[3:], os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(linux.ExecutorMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// place is a room over a real sandbox.
type place struct {
	*Service
	t       *testing.T
	engine  *engine.Service
	sandbox engine.Sandbox
	caller  engine.Caller
}

// open opens a room whose interpreters are forked from a zygote, as in a service.
func open(t *testing.T, config Config) *place {
	t.Helper()
	return openWith(t, config, sandboxtest.LiveRuntimesOf(t))
}

// openWithPackages opens one for cells that draw.
func openWithPackages(t *testing.T, config Config) *place {
	t.Helper()
	return openWith(t, config, sandboxtest.Runtimes())
}

func openWith(t *testing.T, config Config, runtimes string) *place {
	t.Helper()
	launcher := linux.NewLauncher(linux.LaunchOptions{Runtimes: runtimes, Warm: true})
	sandbox, err := linux.Start(t.Context(), linux.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	return openOn(t, config, sandbox, enginetest.NewBlobs(), enginetest.NewIndex())
}

func openOn(t *testing.T, config Config, sandbox engine.Sandbox, blobs engine.Blobs, index engine.Index) *place {
	t.Helper()
	core := enginetest.StartOn(t, engine.Config{}, sandbox, blobs, index)
	s := New(config, core, quiet)
	var once sync.Once
	p := &place{Service: s, t: t, engine: core, sandbox: sandbox, caller: engine.Caller{Owner: "ann"}}
	t.Cleanup(func() {
		once.Do(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := core.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			s.Close()
		})
	})
	return p
}

// session makes a session.
func (p *place) session(language string) engine.ID {
	p.t.Helper()
	made, err := p.Create(p.t.Context(), p.caller, Request{Language: language})
	if err != nil {
		p.t.Fatal(err)
	}
	return made.ID
}

// run runs a cell to its end.
func (p *place) run(session engine.ID, code string) Cell {
	p.t.Helper()
	return p.runCell(session, CellRequest{Code: code})
}

func (p *place) runCell(session engine.ID, req CellRequest) Cell {
	p.t.Helper()
	c, err := p.Start(p.t.Context(), p.caller, session, req)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.end(session, c.ID)
}

func (p *place) end(session, cell engine.ID) Cell {
	p.t.Helper()
	c, err := p.Wait(p.t.Context(), p.caller, session, cell)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// dial connects to a port of a session, whatever the address.
func (p *place) dial(session engine.ID, port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.DialPort(ctx, p.caller, session, port)
	}
}
