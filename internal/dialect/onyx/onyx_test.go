package onyx

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the dialect over a real engine, whose programs are scripts.
type rig struct {
	t       *testing.T
	engine  *engine.Service
	sandbox *sandboxtest.Fake
	index   *enginetest.Index
	blobs   *enginetest.Blobs
	handler http.Handler
}

func newRig(t *testing.T, cfg engine.Config, o Options) *rig {
	t.Helper()
	r := &rig{t: t, sandbox: sandboxtest.NewFake(dialecttest.Script), index: enginetest.NewIndex(),
		blobs: enginetest.NewBlobs()}
	r.engine = enginetest.StartOn(t, cfg, r.sandbox, r.blobs, r.index)
	o.Caller = func(*http.Request) engine.Caller { return engine.Caller{Owner: "alice"} }
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	r.handler = New(r.engine, o)
	return r
}

// send makes a request; one with a body is JSON.
func (r *rig) send(method, path, body string) *httptest.ResponseRecorder {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

// put stores a file and returns its id as this dialect spells it.
func (r *rig) put(name, content string) string {
	r.t.Helper()
	f, err := r.engine.PutFile(r.t.Context(), engine.Caller{Owner: "alice"},
		engine.Upload{Name: name, Origin: engine.OriginOnyx, TTL: time.Hour}, strings.NewReader(content))
	if err != nil {
		r.t.Fatal(err)
	}
	return f.ID.UUID()
}

func TestRecordings(t *testing.T) {
	dialecttest.Replay(t, "testdata/*.txtar", func(t *testing.T) http.Handler {
		return newRig(t, engine.Config{}, Options{MaxFile: 1 << 20, MaxOutput: 100}).handler
	})
}
