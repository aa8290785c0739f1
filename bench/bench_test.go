package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	for name, want := range map[string]time.Duration{"queue": 500 * time.Microsecond, "program": 2 * time.Millisecond,
		"gram": 0} {
		if got := stage(c.timing, name); got != want {
			t.Errorf("%s took %v", name, got)
		}
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
