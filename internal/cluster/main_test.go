package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/cluster"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/postgrestest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

var (
	postgres = sync.OnceValues(func() (*postgrestest.Server, error) {
		server, err := postgrestest.Start(context.Background())
		if err == nil {
			stopPostgres = server.Stop
		}
		return server, err
	})
	stopPostgres = func() error { return nil }
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopPostgres(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func newDatabase(t *testing.T) string {
	t.Helper()
	server, err := postgres()
	if errors.Is(err, postgrestest.ErrMissing) && os.Getenv("AIRLOCK_NO_SKIP") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	address, err := server.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// gate is an index whose beats stop while it is closed, as those of a node that was
// stopped.
type gate struct {
	engine.NodeIndex
	mu     sync.Mutex
	closed bool
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func (g *gate) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return engine.ErrUnavailable
	}
	return nil
}

func (g *gate) Beat(ctx context.Context, epoch engine.Epoch, load engine.Load, draining bool) (bool, error) {
	if err := g.check(); err != nil {
		return false, err
	}
	return g.NodeIndex.Beat(ctx, epoch, load, draining)
}

// replica is a service on a database that it shares.
type replica struct {
	*engine.Service
	member *cluster.Member
	gate   *gate
	index  *index.DB
}

var alice = engine.Caller{Owner: "alice"}

// start starts a replica on a database, and a store of files that all have.
func start(
	t *testing.T, name, address string, blobs engine.Blobs, program sandboxtest.Program, changes ...func(*engine.Config),
) *replica {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError + 1}))
	db, err := index.OpenPostgres(t.Context(), address, "", log, index.WithReplicas())
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{gate: &gate{NodeIndex: db}, index: db}
	r.member, err = cluster.Join(t.Context(), cluster.Config{
		Index: r.gate, Node: engine.Node{Name: name, Role: engine.RoleAll, Address: "http://" + name}, Log: log,
		Interval: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := engine.Config{Now: db.Now, Cluster: r.member}
	for _, change := range changes {
		change(&cfg)
	}
	r.Service = engine.New(cfg, sandboxtest.NewFake(program), blobs, db, log)
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.member.Follow(r.Service)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := errors.Join(r.Shutdown(ctx), r.member.Leave(context.Background()), db.Close())
		if err != nil {
			t.Error(err)
		}
	})
	return r
}

func newBlobs() engine.Blobs { return enginetest.NewBlobs() }

// eventually waits for something to become so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-late:
			t.Fatalf("%s: not within a minute", what)
		case <-tick.C:
		}
	}
}
