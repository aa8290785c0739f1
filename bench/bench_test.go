package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/bench/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a contestant that calls attempt.
func fake(name string, attempt func() error) contestant {
	return ready(name, func(context.Context) (time.Duration, error) { return time.Millisecond, attempt() })
}

func TestEverybodyHasATurnInEveryRound(t *testing.T) {
	var order strings.Builder
	var everybody []contestant
	for _, name := range []string{"a", "b", "c"} {
		everybody = append(everybody, fake(name, func() error { order.WriteString(name); return nil }))
	}
	times, err := turns(t.Context(), 3, everybody...)
	if err != nil || len(times) != 3 || len(times[0]) != 3 {
		t.Errorf("%v %v", times, err)
	}
	if want := "abc" + "abc" + "bca" + "cab"; order.String() != want { // once for nothing, then who begins changes
		t.Errorf("order %s, want %s", order.String(), want)
	}
	if _, err := turns(t.Context(), 1, fake("bad", func() error { return errors.New("no") })); err == nil ||
		!strings.Contains(err.Error(), "bad: no") {
		t.Errorf("a call that fails: %v", err)
	}
}

// A service that stalls once makes all late that were due meanwhile.
func TestRateCountsFromWhenItWasDue(t *testing.T) {
	const stall = 300 * time.Millisecond
	gate := make(chan struct{})
	go func() { lab.Pause(t.Context(), stall); close(gate) }()
	times, failed, err := atRate(t.Context(), fake("stalls", func() error { <-gate; return nil }), 100, time.Second)
	if err != nil || failed != nil || len(times) != 100 {
		t.Fatalf("%d times, %v, %v", len(times), failed, err)
	}
	late := 0
	for _, took := range times {
		if took > stall/3 {
			late++
		}
	}
	if late < 10 {
		t.Errorf("%d were late", late)
	}
}

func TestSpanEndsWithItsLastAnswer(t *testing.T) {
	var s span
	slow := ready("slow", func(context.Context) (time.Duration, error) {
		lab.Pause(t.Context(), 100*time.Millisecond)
		return 100 * time.Millisecond, nil
	})
	if err := s.add(t.Context(), slow, 2, 150*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if len(s.times) != 4 || s.length < 200*time.Millisecond {
		t.Errorf("%d answers in %v", len(s.times), s.length)
	}
	refused := fake("refuses", func() error { return errors.New("busy") })
	if err := s.add(t.Context(), refused, 2, time.Second); err != nil || s.why == nil {
		t.Errorf("of a span with answers, refusals are %v and %v", err, s.why)
	}
	if err := (&span{}).add(t.Context(), refused, 2, time.Second); err == nil {
		t.Error("nothing but refusals went through")
	}
}

func TestCaller(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server-Timing", "queue;dur=0.5, program;dur=2")
		if r.URL.Path == "/busy" {
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		_, _ = w.Write([]byte(r.Header.Get("Content-Type") + " " + r.Header.Get("X-Api-Key")))
	}))
	defer s.Close()
	c := newCaller(s.URL, "x-api-key", "k")
	defer c.close()
	if _, err := c.do(t.Context(), "POST", "/", `{}`, "application/json k"); err != nil {
		t.Error(err)
	}
	got := map[string]float64{}
	for name, ms := range stages(c.timing) {
		got[name] = ms
	}
	if got["queue"] != 0.5 || got["program"] != 2 || len(got) != 2 {
		t.Errorf("stages %v", got)
	}
	if _, err := c.do(t.Context(), "POST", "/", []byte("x"), "elsewhere"); err == nil {
		t.Error("an answer without the wanted text went through")
	}
	_, err := c.do(t.Context(), "GET", "/busy", nil)
	if e, ok := errors.AsType[*statusError](err); !ok || e.status != http.StatusTooManyRequests {
		t.Errorf("a refusal is %v", err)
	}
}

func TestJudged(t *testing.T) {
	p := &program{output: "plot.png", stdout: "ok"}
	kept, err := judged([]byte(
		`[{"status":"Accepted","exitStatus":0,"files":{"stdout":"ok\n"},"fileIds":{"plot.png":"ABC"}}]`), p)
	if err != nil || kept != "ABC" {
		t.Errorf("%q, %v", kept, err)
	}
	for _, body := range []string{
		`[]`, `{}`, `[{"status":"Nonzero Exit Status","files":{"stdout":"ok"},"fileIds":{"plot.png":"A"}}]`,
		`[{"status":"Accepted","files":{"stdout":"no"},"fileIds":{"plot.png":"A"}}]`,
		`[{"status":"Accepted","files":{"stdout":"ok"}}]`,
	} {
		if _, err := judged([]byte(body), p); err == nil {
			t.Errorf("%s went through", body)
		}
	}
}

func TestMedianOf(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(100-i))
	}
	if got := medianOf(values); got != (margin{51, 41, 61}) {
		t.Errorf("%+v", got)
	}
}
