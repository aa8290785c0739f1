package dify

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns the dialect over a real engine, whose programs are scripts.
func serve(t *testing.T, cfg engine.Config) http.Handler {
	t.Helper()
	e := enginetest.StartOn(t, cfg, sandboxtest.NewFake(dialecttest.Script), enginetest.NewBlobs(), enginetest.NewIndex())
	return New(e, Options{
		Caller: func(*http.Request) engine.Caller { return engine.Caller{Owner: "alice"} },
		Output: 1000, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
}

func send(t *testing.T, h http.Handler, code string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/sandbox/run",
		strings.NewReader(`{"language":"nodejs","code":"`+code+`"}`))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRecordings(t *testing.T) {
	dialecttest.Replay(t, "testdata/*.txtar", func(t *testing.T) http.Handler { return serve(t, engine.Config{}) })
}

// The callers' maximum does not truncate an answer.
func TestWholeOutput(t *testing.T) {
	h := serve(t, engine.Config{
		Defaults: engine.Limits{Output: engine.OutputLimit{Bytes: 10}},
		Maxima:   engine.Limits{Output: engine.OutputLimit{Bytes: 10}},
	})
	if w := send(t, h, "repeat 500 x"); !strings.Contains(w.Body.String(), strings.Repeat("x", 500)) ||
		!strings.Contains(w.Body.String(), `"error":""`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Dify has a message for a full queue, but none for 429.
func TestFullQueue(t *testing.T) {
	h := serve(t, engine.Config{Concurrency: 1, Queue: 1, QueuePerOwner: 1, QueueTime: 50 * time.Millisecond})
	var wait sync.WaitGroup
	answers := make(chan string, 12)
	for range cap(answers) {
		wait.Go(func() { w := send(t, h, "wait"); answers <- http.StatusText(w.Code) + w.Body.String() })
	}
	full := http.StatusText(http.StatusServiceUnavailable) + `{"code":-503,"message":"Too many requests","data":null}`
	seen := false
	for range cap(answers) - 1 { // one runs until it is canceled
		got := <-answers
		seen = seen || got == full
		if got != full {
			t.Error(got)
		}
	}
	if !seen {
		t.Error("nobody was refused")
	}
	t.Cleanup(wait.Wait)
}

func TestFrontDoor(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusUnauthorized:          "401 ",
		http.StatusTooManyRequests:       `503 {"code":-503,"message":"slow down","data":null}`,
		http.StatusRequestEntityTooLarge: `413 {"code":-413,"message":"slow down","data":null}`,
	} {
		w := httptest.NewRecorder()
		refuseRequest(w, nil, status, "", "slow down")
		if got := strings.TrimSuffix(w.Result().Status[:4], " ") + " " + w.Body.String(); got != want {
			t.Errorf("%d: %q, want %q", status, got, want)
		}
	}
}
