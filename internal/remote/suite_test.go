package remote

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/language/typescript"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestMain makes the test binary the executor when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], map[string]func() executor.Wall{"": linux.New}))
	}
	if len(os.Args) > 2 && os.Args[1] == "compile" && os.Args[2] == "typescript" {
		os.Exit(typescript.Main(os.Args[3:], os.Stderr))
	}
	os.Exit(m.Run())
}

var quiet = slog.New(slog.DiscardHandler)

const token = "a token for tests, of 32 characters"

// serve has a worker with a sandbox answer, and returns its address.
func serve(t *testing.T, sandbox engine.Sandbox, token string) (*Worker, Node) {
	t.Helper()
	cache, err := blob.OpenCache(t.Context(), t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorker(WorkerConfig{Sandbox: sandbox, Cache: cache, Slots: 16, Seats: 64, Memory: 64 << 30, Log: quiet})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secured, err := mutual.Optional(token)
	if err != nil {
		t.Fatal(err)
	}
	server, err := Server(l, w.Handler(), secured, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(server, l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		cache.Close()
	})
	node := Node{Name: t.Name(), Epoch: 1, Address: "http://" + l.Addr().String(), Slots: 16, Free: 16}
	for _, l := range language.All() {
		node.Languages = append(node.Languages, l.Name)
	}
	return w, node
}

// api returns a sandbox on workers, with a directory of files.
func api(t *testing.T, token string, nodes ...Node) *Sandbox {
	t.Helper()
	secured, err := mutual.Optional(token)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Blobs: blobs, TLS: secured, Temp: t.TempDir(), Log: quiet})
	s.Update(nodes)
	t.Cleanup(func() {
		s.Close()
		blobs.Close()
	})
	return s
}

func local(t *testing.T) engine.Sandbox {
	t.Helper()
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: os.Getenv("AIRLOCK_TEST_DATA") + "/runtimes",
		Binary: sandboxtest.Binary()})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fetched is a distant sandbox whose inputs and outputs are files, as the suite has them.
type fetched struct{ *Sandbox }

func (f fetched) stored(ctx context.Context, list []engine.Input) ([]engine.Input, error) {
	list = slices.Clone(list)
	for i, in := range list {
		b, err := f.config.Blobs.Put(ctx, io.NewSectionReader(in.File, 0, in.Size), in.Size)
		if err != nil {
			return nil, err
		}
		list[i].SHA256 = b.SHA256
	}
	return list, nil
}

func (f fetched) Hold(
	ctx context.Context, id engine.ID, generation int64, wall engine.Wall, inputs []engine.Input, limits engine.Limits,
) error {
	inputs, err := f.stored(ctx, inputs)
	if err != nil {
		return err
	}
	return f.Sandbox.Hold(ctx, id, generation, wall, inputs, limits)
}

func (f fetched) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	inputs, err := f.stored(ctx, spec.Inputs)
	if err != nil {
		return nil, err
	}
	known := *spec
	known.Inputs = inputs
	o, err := f.Sandbox.Run(ctx, &known, host)
	if err != nil {
		return nil, err
	}
	return o, f.open(ctx, o.Outputs)
}

func (f fetched) Changes(
	ctx context.Context, id engine.ID, limits engine.FileLimit, paths ...string,
) (*engine.Changes, error) {
	c, err := f.Sandbox.Changes(ctx, id, limits, paths...)
	if err != nil {
		return nil, err
	}
	return c, f.open(ctx, c.Outputs)
}

func (f fetched) open(ctx context.Context, list []engine.Output) (err error) {
	for i, o := range list {
		if list[i].File, err = f.config.Blobs.Open(context.WithoutCancel(ctx), o.Blob.SHA256, o.Blob.Size); err != nil {
			return err
		}
	}
	return nil
}

func TestSuite(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			_, node := serve(t, local(t), token)
			return fetched{api(t, token, node)}
		},
		Root: os.Geteuid() == 0, Brief: os.Getenv("AIRLOCK_TEST_WHOLE") == "",
	})
}
