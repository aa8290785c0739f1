package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// longIndex has so many files that reading them all takes an hour.
type longIndex struct{ *enginetest.Index }

func (longIndex) Digests(ctx context.Context) (map[engine.Digest]bool, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	select {
	case <-timer.C:
		return map[engine.Digest]bool{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A service with many files answers before all are looked through, and ends in the middle.
func TestStartBesideSweep(t *testing.T) {
	for name, c := range map[string]struct{ wait, opens time.Duration }{
		"it waits for the end":  {0, time.Hour},
		"it waits for a moment": {time.Second, time.Second},
		"it waits for long":     {2 * time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r := enginetest.StartOn(t, engine.Config{SweepTime: c.wait}, sandboxtest.NewFake(nil), enginetest.NewBlobs(),
					longIndex{enginetest.NewIndex()})
				if took := time.Since(began); took != c.opens {
					t.Errorf("it opened after %v, want %v", took, c.opens)
				}
				if _, err := r.ListRuns(t.Context(), engine.Caller{Owner: "ada"}, engine.RunQuery{}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// oldIndex has runs that are not indexed by words yet, and takes 60 ms for 256.
type oldIndex struct {
	*enginetest.Index
	left atomic.Int64
}

func (x *oldIndex) IndexRuns(_ context.Context, limit int) (int, error) {
	time.Sleep(time.Duration(limit) * 60 * time.Millisecond / 256)
	n := min(int64(limit), x.left.Load())
	x.left.Add(-n)
	return int(n), nil
}

// After an upgrade a million runs are findable within minutes, not hours.
func TestIndexedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &oldIndex{Index: enginetest.NewIndex()}
		x.left.Store(1_000_000)
		enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(nil), enginetest.NewBlobs(), x)
		time.Sleep(time.Minute)
		if left := x.left.Load(); left < 800_000 {
			t.Errorf("after a minute only %d are left: it takes more than half of the time", left)
		}
		time.Sleep(9 * time.Minute)
		if left := x.left.Load(); left > 0 {
			t.Errorf("after ten minutes %d are left", left)
		}
	})
}
