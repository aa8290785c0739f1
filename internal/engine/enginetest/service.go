package enginetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Start opens a service on fresh fakes and shuts it down with the test. Its
// log goes to the test's.
func Start(t testing.TB, cfg engine.Config, sandbox engine.Sandbox) *engine.Service {
	t.Helper()
	return StartOn(t, cfg, sandbox, NewBlobs(), NewIndex())
}

// StartOn is Start on stores that the test has.
func StartOn(
	t testing.TB, cfg engine.Config, sandbox engine.Sandbox, blobs engine.Blobs, index engine.Index,
) *engine.Service {
	t.Helper()
	if fake, ok := index.(*Index); ok && cfg.Now != nil {
		fake.Now = nil // such clocks leap
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := engine.New(cfg, sandbox, blobs, index, log)
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}
