package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// fake is a contestant that calls attempt.
func fake(attempt func() error) contestant {
	return contestant{name: "fake", open: func(context.Context, *workload) (*client, error) {
		return &client{attempt: func(context.Context) error { return attempt() }, close: func() {}}, nil
	}}
}

func TestEverybodyHasATurnInEveryRound(t *testing.T) {
	var order []string
	var everybody []contestant
	for _, name := range []string{"a", "b", "c"} {
		one := fake(func() error { order = append(order, name); return nil })
		one.name = name
		everybody = append(everybody, one)
	}
	times, err := takeTurns(t.Context(), &printing, 3, everybody)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(times["a"]) + len(times["b"]) + len(times["c"]); got != 9 {
		t.Errorf("%d measurements in 3 rounds of 3", got)
	}
	var said string
	for _, name := range order {
		said += name
	}
	if want := "abc" + "abc" + "bca" + "cab"; said != want { // once for nothing, then who begins changes
		t.Errorf("order %s, want %s", said, want)
	}
}

// A service that stalls once makes all late that were due meanwhile.
func TestConstantRateCountsFromWhenItWasDue(t *testing.T) {
	const stall = 300 * time.Millisecond
	var n atomic.Int64
	gate := make(chan struct{})
	go func() {
		pause(context.Background(), stall)
		close(gate)
	}()
	c, err := constantRate(t.Context(), fake(func() error {
		n.Add(1)
		<-gate
		return nil
	}), &printing, 1000, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	// The last of 200 was due after 199 ms, and nobody was free before 300.
	if c.N != 200 || c.P50 < 100 || c.P99 < 200 {
		t.Errorf("a stall of %v is hidden: %+v", stall, c)
	}
}

func TestFailuresAreCountedAndNotMeasured(t *testing.T) {
	var n atomic.Int64
	broken := errors.New("refused")
	var s span
	err := s.add(t.Context(), fake(func() error {
		if n.Add(1) > 10 {
			return broken
		}
		return nil
	}), &printing, 2, time.Minute)
	if err != nil || len(s.times) != 10 || s.failed != 2 || !errors.Is(s.why, broken) {
		t.Errorf("%d measured, %d failed, %v, %v", len(s.times), s.failed, s.why, err)
	}
	var none span
	if err := none.add(t.Context(), fake(func() error { return broken }), &printing, 2, time.Minute); !errors.Is(
		err, broken) {
		t.Errorf("nothing but failures: %v", err)
	}
}

func TestStolenTime(t *testing.T) {
	before := readProcessors("cpu  100 0 50 800 0 0 0 50 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	after := readProcessors("cpu  200 0 100 1580 0 0 0 120 70 70\n")
	if before.all != 1000 || before.stolen != 50 || after.stolenSince(before) != 0.07 {
		t.Errorf("%+v, %+v: %v stolen", before, after, after.stolenSince(before))
	}
	if got := before.stolenSince(after) + readProcessors("").stolenSince(processors{}); got != 0 {
		t.Errorf("%v stolen where nothing is known", got)
	}
}
