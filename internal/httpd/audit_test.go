package httpd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// The line of a request names the run that it has begun, and what was sent counts for its caller.
func TestRequestLineHasRun(t *testing.T) {
	var log strings.Builder
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run, e := engine.NewID(), &fakeEngine{hasKeys: true}
	s, err := New(Options{
		Listen: []net.Listener{l}, Engine: e, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Mounts: []Mount{{Prefix: "/api/v1", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/runs" {
				engine.NoteRun(r.Context(), run)
			}
			_, _ = io.WriteString(w, "nine byte")
		})}},
	})
	l.Close()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/api/v1/runs": true, "/api/v1/other": false} {
		log.Reset()
		ctx := context.WithValue(t.Context(), originKey{}, connOrigin{unix: true, peerUID: -1})
		req := httptest.NewRequestWithContext(ctx, "POST", path, nil)
		req.Header.Set("X-Api-Key", aliceKey)
		s.Handler().ServeHTTP(httptest.NewRecorder(), req)
		if strings.Contains(log.String(), "run="+run.String()) != want {
			t.Errorf("%s: %s", path, log.String())
		}
	}
	if sent := e.sent["alice"]; sent != 18 {
		t.Errorf("%d bytes were counted as sent", sent)
	}
}
