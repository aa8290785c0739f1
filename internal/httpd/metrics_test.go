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
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

var fakePrograms = map[engine.Program]int64{
	{Origin: engine.OriginMCP, Language: "python", Set: "current", Start: engine.StartWarm}: 6}

func (f *fakeEngine) NeedsKey(context.Context) (bool, error) { return f.hasKeys, f.keysUnknown }

func (f *fakeEngine) Stats() engine.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return engine.Stats{
		Running: 2, Queued: 3, HasKeys: f.hasKeys, CPU: 1500 * time.Millisecond,
		Refused: map[engine.Refusal]int64{engine.RefusedQueue: 4}, Programs: fakePrograms,
		Takeovers: map[engine.SessionKind]int64{engine.SessionLive: 2}, Runs: map[engine.Status]int64{engine.StatusOK: 5},
		Wait: engine.Histogram{Bounds: []time.Duration{time.Second, 2 * time.Second}, Counts: []int64{1, 2, 4}, Count: 7,
			Sum: 20 * time.Second},
	}
}

// events is a stream.
func events(w http.ResponseWriter, _ *http.Request) {
	for range 2 {
		io.WriteString(w, "data: {}\n\n")
		http.NewResponseController(w).Flush()
	}
}

func TestMetrics(t *testing.T) {
	const token = "a-token-for-the-metrics-alone-0123"
	_, address := start(t, Options{Engine: &fakeEngine{hasKeys: true}, MetricsToken: token})
	key := "X-API-Key: " + aliceKey
	for range 3 {
		request(t, "GET", address+"/api/v1/who/me", key, "")
	}
	request(t, "POST", address+"/api/v1/events", key, "")
	request(t, "GET", address+"/nowhere/"+aliceKey[:10], key, "")
	request(t, "GET", address+"/api/v1/x", "", "")
	if resp, _ := request(t, "GET", address+"/metrics", "", ""); resp.StatusCode != 401 {
		t.Errorf("metrics without a key: %d", resp.StatusCode)
	}
	if resp, body := request(t, "GET", address+"/metrics", key, ""); resp.StatusCode != 403 ||
		strings.Contains(body, "airlock_runs") {
		t.Errorf("metrics with a tenant's key: %d %s", resp.StatusCode, body)
	}
	_, body := request(t, "GET", address+"/metrics", "X-API-Key: "+adminKey, "")
	for _, want := range []string{
		`airlock_http_requests_total{code="200",method="GET",protocol="native",route="/api/v1/who/{id}"} 3`,
		`airlock_http_requests_total{code="404",method="GET",protocol="other",route="other"} 1`,
		`airlock_http_requests_total{code="401",method="GET",protocol="other",route="other"} 2`,
		`airlock_runs_total{status="ok"} 5`, `airlock_runs_total{status="oom"} 0`,
		"airlock_runs_running 2", "airlock_runs_queued 3", `airlock_runs_rejected_total{reason="queue_full"} 4`,
		`airlock_runs_rejected_total{reason="draining"} 0`,
		`airlock_programs_total{language="python",protocol="mcp",set="current",start="warm"} 6`,
		`airlock_session_takeovers_total{kind="live"} 2`, "airlock_programs_cpu_seconds_total 1.5",
		`airlock_http_request_duration_seconds_count{code_class="2xx",method="GET",protocol="native"} 3`,
		`airlock_http_request_duration_seconds_count{code_class="4xx",method="GET",protocol="other"} 3`,
		`airlock_http_streams_total{protocol="native"} 1`,
		`airlock_http_refused_total{reason="unauthorized"} 2`, `airlock_http_refused_total{reason="not_found"} 1`,
		`airlock_run_queue_wait_seconds_bucket{le="1"} 1`, `airlock_run_queue_wait_seconds_bucket{le="2"} 3`,
		`airlock_run_queue_wait_seconds_bucket{le="+Inf"} 7`, "airlock_run_queue_wait_seconds_sum 20",
		"go_goroutines", "go_gc_heap_live_bytes ", "process_open_fds",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(body, `method="POST",protocol="native"}`) {
		t.Error("a stream is among the durations")
	}
	if strings.Contains(body, "alice") {
		t.Error("a caller's words are in the metrics")
	}
	bearer := "Authorization: Bearer " + token
	if resp, body := request(t, "GET", address+"/metrics", bearer, ""); resp.StatusCode != 200 ||
		!strings.Contains(body, "airlock_runs") {
		t.Errorf("metrics with their token: %d", resp.StatusCode)
	}
	for path, header := range map[string]string{"/api/v1/who/me": bearer, "/metrics": bearer + "."} {
		if resp, _ := request(t, "GET", address+path, header, ""); resp.StatusCode != 401 {
			t.Errorf("%s with %q: %d", path, header, resp.StatusCode)
		}
	}
}

// TestAudit checks that the log has caller and route, and no text from the caller.
func TestAudit(t *testing.T) {
	var log strings.Builder
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Listen: []net.Listener{l}, Engine: &fakeEngine{hasKeys: true}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Mounts: []Mount{{Prefix: "/api/v1", Handler: dialect()}},
	})
	l.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1/who/secret-name?name=secret-query", "/api/v1/panic"} {
		ctx := context.WithValue(t.Context(), originKey{}, connOrigin{unix: true, peerUID: -1})
		req := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader("secret-body"))
		req.Header.Set("X-API-Key", aliceKey)
		s.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}
	for _, want := range []string{"owner=alice key=alicealice22 method=POST route=/api/v1/who/{id} status=200",
		"msg=panic", "route=/api/v1/panic status=500"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in %s", want, log.String())
		}
	}
	for _, secret := range []string{"secret-", aliceKey, "the secret of the caller"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}
