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
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The executor of a test's sandbox is this test binary, executed again, and so is the compiler in it.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "compile" && os.Args[2] == "typescript" {
		os.Exit(typescript.Main(os.Args[3:], os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], map[string]func() executor.Wall{"": linux.New}))
	}
	goleak.VerifyTestMain(testRun{m})
}

// testRun is a run of the tests with the sandboxes that they share: an executor takes seconds to start,
// most of them for packages.
type testRun struct{ *testing.M }

var shared struct {
	folder  string // of the runtimes without packages
	sandbox map[bool]*executor.Sandbox
}

// Run implements goleak.TestingM.
func (r testRun) Run() int {
	shared.sandbox = map[bool]*executor.Sandbox{}
	code := r.M.Run()
	for _, s := range shared.sandbox {
		s.Close()
	}
	if shared.folder != "" {
		os.RemoveAll(shared.folder)
	}
	return code
}

// sharedSandbox returns a sandbox whose interpreters are forked from a zygote, as in a service.
func sharedSandbox(t *testing.T, packages bool) *executor.Sandbox {
	t.Helper()
	if shared.sandbox[packages] != nil {
		return shared.sandbox[packages]
	}
	runtimes := sandboxtest.Runtimes()
	if !packages {
		var err error
		if shared.folder, err = os.MkdirTemp("", "live"); err == nil {
			runtimes, err = sandboxtest.LiveRuntimes(shared.folder)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sandbox, err := startSandbox(context.Background(), runtimes)
	if err != nil {
		t.Fatal(err)
	}
	shared.sandbox[packages] = sandbox
	return sandbox
}

func startSandbox(ctx context.Context, runtimes string) (*executor.Sandbox, error) {
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: runtimes, Warm: true,
		Wall: os.Getenv("AIRLOCK_TEST_WALL"), Binary: sandboxtest.Binary()})
	return executor.Start(ctx, executor.Config{Launcher: launcher, Log: quiet})
}

var quiet = slog.New(slog.DiscardHandler)

// place is a room over a real sandbox.
type place struct {
	*Service
	t       *testing.T
	engine  *engine.Service
	sandbox engine.Sandbox
	caller  engine.Caller
	stop    func() // as a service does
}

// open opens a room over the sandbox without packages that tests share.
func open(t *testing.T, config Config) *place {
	t.Helper()
	return openOn(t, config, sharedSandbox(t, false), enginetest.NewBlobs(), enginetest.NewIndex())
}

// openWithPackages opens one for cells that draw.
func openWithPackages(t *testing.T, config Config) *place {
	t.Helper()
	return openOn(t, config, sharedSandbox(t, true), enginetest.NewBlobs(), enginetest.NewIndex())
}

// openAlone opens a room over a sandbox of its own, for tests that count what it has, or end it.
func openAlone(t *testing.T, config Config) *place {
	t.Helper()
	return openWith(t, config, sandboxtest.LiveRuntimesOf(t))
}

func openWith(t *testing.T, config Config, runtimes string) *place {
	t.Helper()
	sandbox, err := startSandbox(t.Context(), runtimes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	return openOn(t, config, sandbox, enginetest.NewBlobs(), enginetest.NewIndex())
}

func openOn(t *testing.T, config Config, sandbox engine.Sandbox, blobs engine.Blobs, index engine.Index) *place {
	t.Helper()
	return openOver(t, config, enginetest.StartOn(t, engine.Config{}, sandbox, blobs, index), sandbox)
}

// openOver opens a room over an engine.
func openOver(t *testing.T, config Config, core *engine.Service, sandbox engine.Sandbox) *place {
	t.Helper()
	s := New(config, core, quiet)
	p := &place{Service: s, t: t, engine: core, sandbox: sandbox, caller: engine.Caller{Owner: "ann"}}
	p.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.PauseAll(ctx)
		if err := core.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	t.Cleanup(p.stop)
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
