package remote

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A worker whose disk is low takes no programs, and says so.
func TestWorkerLow(t *testing.T) {
	var bad, good atomic.Int32
	worker, first := serve(t, counted(&bad, nil, open), token)
	_, second := serve(t, counted(&good, nil, open), token)
	second.Epoch, second.Free = 2, 1
	worker.config.Room = func() error { return errors.New("the disk is low") }
	s := api(t, token, first, second)
	for range 4 {
		if _, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{}); err != nil {
			t.Fatal(err)
		}
	}
	if bad.Load() != 0 || good.Load() != 4 {
		t.Errorf("%d programs ran where the disk is low", bad.Load())
	}
	beats := &Beats{Worker: worker}
	beats.registered.Store(true)
	if err := beats.Ready(); err == nil || !strings.Contains(err.Error(), "low") {
		t.Errorf("ready: %v", err)
	}
}

// What the cache of a worker has no room for is stored all the same.
func TestOutputsWithoutCache(t *testing.T) {
	sandbox := sandboxtest.NewFake(func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		file, err := sandboxtest.File("made.txt", "made")
		outcome := sandboxtest.Exit(0)
		outcome.Outputs = []engine.Output{file}
		return outcome, err
	})
	worker, node := serve(t, sandbox, token)
	worker.config.Cache.Close() // what it is to keep, it cannot
	if err := os.RemoveAll(worker.config.Cache.Dir()); err != nil {
		t.Fatal(err)
	}
	outcome, err := api(t, token, node).Run(t.Context(), sandboxtest.Python("1"), &sink{})
	if err != nil || len(outcome.Outputs) != 1 || len(outcome.Dropped) != 0 {
		t.Fatalf("%+v, %v", outcome, err)
	}
}
