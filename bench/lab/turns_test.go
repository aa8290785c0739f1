package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a contestant that calls attempt.
func fake(name string, attempt func() error) Contestant {
	return Ready(name, func(context.Context) (time.Duration, error) { return time.Millisecond, attempt() })
}

func TestTry(t *testing.T) {
	bad := errors.New("bad")
	if err := Try(func() { Check(nil) }); err != nil {
		t.Error(err)
	}
	if err := Try(func() { _ = Must(1, bad); t.Error("it went on") }); !errors.Is(err, bad) {
		t.Error(err)
	}
	defer func() {
		if recover() != "fault" {
			t.Error("another panic was swallowed")
		}
	}()
	_ = Try(func() { panic("fault") })
}

func TestEverybodyHasATurnInEveryRound(t *testing.T) {
	var order strings.Builder
	var everybody []Contestant
	for _, name := range []string{"a", "b", "c"} {
		everybody = append(everybody, fake(name, func() error { order.WriteString(name); return nil }))
	}
	if times := Turns(t.Context(), 3, everybody...); len(times) != 3 || len(times[0]) != 3 {
		t.Errorf("%v", times)
	}
	if want := "abc" + "abc" + "bca" + "cab"; order.String() != want { // once for nothing, then who begins changes
		t.Errorf("order %s, want %s", order.String(), want)
	}
	err := Try(func() { Turns(t.Context(), 1, fake("bad", func() error { return errors.New("no") })) })
	if err == nil || !strings.Contains(err.Error(), "bad: no") {
		t.Errorf("a call that fails: %v", err)
	}
}

// A service that stalls once makes all late that were due meanwhile.
func TestRateCountsFromWhenItWasDue(t *testing.T) {
	const stall = 300 * time.Millisecond
	gate := make(chan struct{})
	go func() { Pause(t.Context(), stall); close(gate) }()
	l := AtRate(t.Context(), fake("stalls", func() error { <-gate; return nil }), 100, time.Second)
	if l.Failed != nil || len(l.Times) != 100 {
		t.Fatalf("%d times, %v", len(l.Times), l.Failed)
	}
	late := 0
	for _, took := range l.Times {
		if took > stall/3 {
			late++
		}
	}
	if late < 10 {
		t.Errorf("%d were late", late)
	}
}

func TestLoadEndsWithItsLastAnswer(t *testing.T) {
	var l Load
	l.Saturate(t.Context(), Ready("slow", func(context.Context) (time.Duration, error) {
		Pause(t.Context(), 100*time.Millisecond)
		return 100 * time.Millisecond, nil
	}), 2, 150*time.Millisecond)
	if len(l.Times) != 4 || l.Length < 200*time.Millisecond {
		t.Errorf("%d answers in %v", len(l.Times), l.Length)
	}
	refused := fake("refuses", func() error { return errors.New("busy") })
	if l.Saturate(t.Context(), refused, 2, time.Second); l.Failed == nil {
		t.Error("refusals are not reported beside answers")
	}
	if Try(func() { new(Load).Saturate(t.Context(), refused, 2, time.Second) }) == nil {
		t.Error("nothing but refusals went through")
	}
}
