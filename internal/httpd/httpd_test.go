package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine has two keys and no programs.
type fakeEngine struct {
	mu       sync.Mutex
	hasKeys  bool
	notReady error
	broken   error // what Authenticate fails with
	asked    []string
	sent     map[engine.Owner]int64

	keysUnknown error // what NeedsKey fails with
}

const aliceKey, adminKey = "ak_alicealice22_secret", "ak_adminadmin22_secret"

func (f *fakeEngine) Authenticate(_ context.Context, token string) (engine.Caller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, token)
	if f.broken != nil {
		return engine.Caller{}, f.broken
	}
	switch token {
	case aliceKey:
		return engine.Caller{Owner: "alice", Key: "alicealice22"}, nil
	case adminKey:
		return engine.Caller{Owner: "root", Key: "adminadmin22", Admin: true}, nil
	}
	return engine.Caller{}, engine.ErrUnauthorized
}

func (f *fakeEngine) Ready(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

func (f *fakeEngine) Isolation(context.Context) (engine.Isolation, error) {
	return engine.Isolation{Backend: "fake", Summary: "none",
		Layers: []engine.Layer{{Name: "memory limit", State: engine.LayerWeaker, Cure: "cgroups"}}}, nil
}

func (f *fakeEngine) Pools(context.Context) ([]engine.Pool, error) {
	return []engine.Pool{{Name: "bare", Ready: true}, {Name: "numpy", Cold: "ImportError: libopenblas"}}, nil
}

func (f *fakeEngine) Count(caller engine.Caller, used engine.Consumption) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent == nil {
		f.sent = map[engine.Owner]int64{}
	}
	f.sent[caller.Owner] += used.Sent
}

// whoami answers with the caller, and with the body as far as it arrived.
func whoami(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c := Caller(r)
	fmt.Fprintf(w, "owner=%s key=%s admin=%v path=%s body=%d", c.Owner, c.Key, c.Admin, r.URL.Path, len(body))
}

func dialect() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/who/{id}", whoami)
	mux.HandleFunc("/", whoami)
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("the secret of the caller") })
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half an answer")
		http.NewResponseController(w).Flush()
		panic("late")
	})
	return mux
}

// start serves options on a loopback port, and returns its address.
func start(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	if o.Listen == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Listen = []net.Listener{l}
	}
	if o.Engine == nil {
		o.Engine = &fakeEngine{hasKeys: true}
	}
	if o.Mounts == nil {
		o.Mounts = []Mount{{Prefix: "/api/v1", Handler: dialect(), MaxBody: 100},
			{Prefix: "/onyx", Handler: dialect(), Trusted: true}}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + o.Listen[0].Addr().String()
}

// pipes is a listener whose connections are in memory, so that a bubble's clock rules them.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6loopback} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- piped{theirs, p.Addr()}
	return ours
}

// piped is a connection of this machine.
type piped struct {
	net.Conn
	at net.Addr
}

func (p piped) LocalAddr() net.Addr  { return p.at }
func (p piped) RemoteAddr() net.Addr { return p.at }

func (p *pipes) transport() *http.Transport {
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}
}

// request sends a request on a new connection; header is "Name: value" lines.
func request(t *testing.T, method, url, header, body string) (*http.Response, string) {
	t.Helper()
	return requestOver(t, http.DefaultTransport.(*http.Transport).Clone(), method, url, header, body)
}

func requestOver(t *testing.T, transport *http.Transport, method, url, header, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header[http.CanonicalHeaderKey(name)] = append(req.Header[http.CanonicalHeaderKey(name)], value)
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// speak sends bytes unchanged and returns all bytes until the connection ends, or the time
// does.
func speak(t *testing.T, address, text string, limit time.Duration) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(limit))
	answer, err := io.ReadAll(conn)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return string(answer) + "(still open)"
	}
	return string(answer)
}

func TestRefuseToBeExposed(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := listen()
	_, err := New(Options{Listen: []net.Listener{l}, Engine: &fakeEngine{}})
	if exposed, ok := errors.AsType[*ExposedError](err); !ok || !strings.Contains(exposed.Error(), "--trust-network") {
		t.Fatalf("error %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error("the listener is left open")
	}
	for name, o := range map[string]Options{
		"keys":    {Engine: &fakeEngine{hasKeys: true}},
		"trusted": {Engine: &fakeEngine{}, TrustNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	} {
		o.Listen = []net.Listener{listen()}
		if _, err := New(o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		o.Listen[0].Close()
	}
}

func TestPaths(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}})
	for target, status := range map[string]int{
		"/api/v1/x": 200, "/api/v1": 200, "/api/v1/": 200, "/onyx/%C3%A9": 200, "/onyx/a%20b": 200, "/onyx/%27": 200,
		"/api/v1//x": 404, "//api/v1/x": 404, "/api/v1/./x": 404, "/api/v1/../onyx/x": 404, "/api/v1/%2e%2e/onyx/x": 404,
		"/api/v1/..%2fonyx": 404, "/api/v1/%2Fetc": 404, "/api/v1/a%5cb": 404, "/api/v1/%00": 404, "/api/v1/%0d%0aX:y": 404,
		"/api/v1x": 404, "/apixv1/": 404, "/": 404, "/api": 404, "/api/v1/" + strings.Repeat("x", 8<<10): 414,
		"/api/v1/x?api_key=1": 401, "/api/v1/x?a=" + "ak_" + strings.Repeat("a", 12) + "_" + strings.Repeat("b", 43): 401,
	} {
		answer := speak(t, address, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", time.Second)
		if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%.60s: %.100q, want %d", target, answer, status)
		}
	}
}

// TestSmuggling checks that a request that a proxy in front could read as two is refused,
// and that the connection ends there.
func TestSmuggling(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}})
	const second = "GET /api/v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, text := range map[string]string{
		"length and chunks": "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
		"two lengths": "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" +
			"Content-Length: 5\r\n\r\n" + second,
		"odd length": "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: +0\r\n\r\n" + second,
		"odd encoding": "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n" +
			second,
		"space before the colon":  "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\n" + second,
		"two hosts":               "GET /api/v1/x HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n" + second,
		"no host":                 "GET /api/v1/x HTTP/1.1\r\n\r\n" + second,
		"line ends that are odd":  "GET /api/v1/x HTTP/1.1\rHost: localhost\r\r" + second,
		"a header without a name": "GET /api/v1/x HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n" + second,
		"HTTP/0.9":                "GET /api/v1/x\r\n\r\n" + second,
		"big header": "GET /api/v1/x HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 80<<10) +
			"\r\n\r\n",
	} {
		answer := speak(t, address, text, time.Second)
		accepted := strings.Contains(answer, "200 OK") && name != "length and chunks"
		if strings.Count(answer, "HTTP/1.1 ") != 1 || accepted || strings.Contains(answer, "still open") {
			t.Errorf("%s: %.300q", name, answer)
		}
	}
	absolute := speak(t, address, "GET http://evil.test/api/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		time.Second)
	if !strings.HasPrefix(absolute, "HTTP/1.1 421 ") {
		t.Errorf("absolute form: %.100q", absolute)
	}
}

func TestRequestID(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}})
	for given, kept := range map[string]bool{
		"": false, "abc-123_x.Y": true, "short": false, strings.Repeat("x", 65): false, strings.Repeat("x", 10<<10): false,
		"has space": false, "<script>alert": false,
	} {
		resp, _ := request(t, "GET", address+"/health", "X-Request-Id: "+given, "")
		got := resp.Header.Get("X-Request-Id")
		if (got == given) != kept || len(got) < 8 || len(got) > 64 {
			t.Errorf("%.20q becomes %q", given, got)
		}
	}
}

// Log records of a request have its id, once.
func TestLogNamesRequest(t *testing.T) {
	var out strings.Builder
	log := slog.New(LogRequests(slog.NewTextHandler(&out, nil))).With("room", "engine")
	handler := requestID(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		log.ErrorContext(context.WithoutCancel(r.Context()), "a run has no outcome")
		log.ErrorContext(r.Context(), "request failed", "request_id", "its own")
	}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(requestIDHeader, "abc-12345")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	log.Error("no request")
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], " request_id=abc-12345") || strings.Contains(lines[1], "abc-12345") ||
		strings.Contains(lines[2], requestIDAttr) {
		t.Error(out.String())
	}
}

func TestPanic(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}})
	resp, body := request(t, "GET", address+"/api/v1/panic", "", "")
	if resp.StatusCode != 500 || strings.Contains(body, "secret") ||
		!strings.Contains(body, resp.Header.Get("X-Request-Id")) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	half := speak(t, address, "GET /api/v1/half HTTP/1.1\r\nHost: localhost\r\n\r\n", time.Second)
	if !strings.Contains(half, "half an answer") || strings.Contains(half, "\r\n0\r\n") ||
		strings.Contains(half, "still open") {
		t.Errorf("%q", half)
	}
	if resp, _ := request(t, "GET", address+"/api/v1/x", "", ""); resp.StatusCode != 200 {
		t.Errorf("afterwards %d", resp.StatusCode)
	}
}

func TestBodies(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}})
	for _, c := range []struct {
		name, header, body string
		status             int
	}{
		{"at the limit", "", strings.Repeat("x", 100), 200},
		{"over the limit", "", strings.Repeat("x", 101), 413},
		{"compressed", "Content-Encoding: gzip", "x", 415},
		{"not compressed", "Content-Encoding: identity", "x", 200},
	} {
		if resp, body := request(t, "POST", address+"/api/v1/x", c.header, c.body); resp.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, body)
		}
	}
	announced := "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n"
	if answer := speak(t, address, announced, time.Second); !strings.HasPrefix(answer, "HTTP/1.1 413 ") {
		t.Errorf("announced: %.100q", answer)
	}
	chunked := "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"65\r\n" + strings.Repeat("x", 101) + "\r\n0\r\n\r\n"
	if answer := speak(t, address, chunked, time.Second); !strings.HasPrefix(answer, "HTTP/1.1 413 ") {
		t.Errorf("chunked: %.100q", answer)
	}
}

func TestDraining(t *testing.T) {
	e := &fakeEngine{}
	s, address := start(t, Options{Engine: e, Version: "v1"})
	probe := func(path string, status int, contains string) {
		t.Helper()
		resp, body := request(t, "GET", address+path, "", "")
		if resp.StatusCode != status || !strings.Contains(body, contains) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		if status == 503 && resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s has no Retry-After", path)
		}
	}
	probe("/health", 200,
		`{"status":"ok","version":"v1","isolation":{"backend":"fake","strict":false,"summary":"none","layers":[{"name":"memory limit","state":"weaker","detail":"","cure":"cgroups"}]}}`)
	probe("/api/v1/health", 200, `"ok"`)
	probe("/ready", 200, `"ok"`)
	e.mu.Lock()
	e.notReady = errors.New("secret")
	e.mu.Unlock()
	probe("/health", 200, `"degraded"`)
	probe("/ready", 503, `"unavailable"`)
	e.mu.Lock()
	e.notReady = nil
	e.mu.Unlock()
	s.Drain()
	probe("/api/v1/ready", 503, `"unavailable"`)
	probe("/health", 200, `"draining"`)
	probe("/api/v1/x", 200, "owner=local")
}

// TestRootDialect checks that a dialect at the root serves all paths except the server's
// own.
func TestRootDialect(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}, Mounts: []Mount{
		{Prefix: "/", Handler: dialect(), Trusted: true}, {Prefix: "/ui", Handler: http.NotFoundHandler(), Public: true},
	}})
	for path, want := range map[string]string{
		"/health": "owner=local", "/ready": "owner=local", "/who/me": "path=/who/me", "/": "path=/ ",
		"/api/v1/health": `"isolation"`, "/ui/": "404 page", "/metrics": "airlock_runs_running 2",
	} {
		if _, body := request(t, "GET", address+path, "", ""); !strings.Contains(body, want) {
			t.Errorf("%s: %.200s", path, body)
		}
	}
}

// TestAtRoot checks that mounts share the root by the contents of a request, and that a
// mount at the root takes precedence.
func TestAtRoot(t *testing.T) {
	named := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name+" "+r.URL.Path) })
	}
	short := func(r *http.Request) bool { return len(r.PathValue("id")) < 4 }
	python := func(r *http.Request) bool { return r.Header.Get("X-Who") == "python" }
	never := func(*http.Request) bool { return false }
	mounts := []Mount{
		{Prefix: "/one", Handler: named("one"), Public: true, AtRoot: map[string]Claim{
			"/v1/run": nil, "/v1/files/{id}": short, "GET /health": python}},
		{
			Prefix: "/two", Handler: named("two"), AtRoot: map[string]Claim{
				"/exec": nil, "/v1/files/{id}": nil, "/v1/open": nil, "/v1/none": never}, Open: []string{"/v1/open"},
			Authenticate: func(context.Context, string) (engine.Caller, error) { return engine.Caller{Owner: "two"}, nil },
			Refuse: func(w http.ResponseWriter, _ *http.Request, status int, _, _ string) {
				http.Error(w, "two refuses", status)
			},
		},
	}
	_, address := start(t, Options{Engine: &fakeEngine{hasKeys: true}, Mounts: mounts})
	for _, c := range []struct{ path, header, want string }{
		{"/v1/run", "", "one /v1/run"}, {"/one/v1/run", "", "one /v1/run"}, {"/v1/files/abc", "", "one /v1/files/abc"},
		{"/exec", "", "two refuses"}, {"/exec", "X-API-Key: k", "two /exec"},
		{"/v1/files/abcd", "X-API-Key: k", "two /v1/files/abcd"},
		{"/v1/open", "", "two /v1/open"}, {"/v1/none", "X-API-Key: k", "not_found"}, {"/v1/runs", "", "not_found"},
		{"/run", "", "not_found"},
		{"/health", "X-Who: python", "one /health"}, {"/health", "", `"isolation"`},
	} {
		if _, body := request(t, "GET", address+c.path, c.header, ""); !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %s", c.path, c.header, body)
		}
	}
	_, address = start(t, Options{Engine: &fakeEngine{}, Mounts: append(
		mounts, Mount{Prefix: "/", Handler: named("root"), Public: true})})
	for _, path := range []string{"/v1/run", "/exec", "/health", "/v1/files/abc"} {
		if _, body := request(t, "GET", address+path, "X-Who: python", ""); body != "root "+path {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// TestEncodedPath checks that an ambiguous path is refused in the format of the mount that
// it seems to be for.
func TestEncodedPath(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}, Mounts: []Mount{{
		Prefix: "/onyx", Handler: dialect(),
		Refuse: func(w http.ResponseWriter, _ *http.Request, status int, _, _ string) {
			http.Error(w, `{"detail":"Not Found"}`, status)
		},
	}, {Prefix: "/two", Handler: dialect()}}})
	for path, want := range map[string]string{
		"/onyx/v1/files/a%2Fb": `{"detail"`, "/onyx/v1/files/%2e%2e": `{"detail"`, "/onyx//x": `{"detail"`,
		"/two/a%2fb": `{"error"`, "/a%2fb": `{"error"`, "/onyxx/a%2fb": `{"error"`,
	} {
		if resp, body := request(t, "GET", address+path, "", ""); resp.StatusCode != 404 || !strings.HasPrefix(body, want) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// TestShutdown checks that a request in progress gets its answer, and that a request that
// does not end is cut.
func TestShutdown(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-finish:
			io.WriteString(w, "whole")
		case <-r.Context().Done():
		}
	})
	for _, ends := range []bool{true, false} {
		s, address := start(t, Options{Engine: &fakeEngine{}, Mounts: []Mount{{Prefix: "/slow", Handler: slow}}})
		answer := make(chan string)
		go func() {
			answer <- speak(t, address, "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", time.Minute)
		}()
		<-entered
		limit := time.Minute
		if !ends {
			limit = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		down := make(chan error)
		go func() { down <- s.Shutdown(ctx) }()
		if ends {
			finish <- struct{}{}
		}
		if err := <-down; (err == nil) != ends {
			t.Errorf("shutdown: %v", err)
		}
		if got := <-answer; strings.HasSuffix(got, "whole") != ends || strings.Contains(got, "still open") {
			t.Errorf("answer %q", got)
		}
	}
}

// TestKeepAliveAfterRefusal checks that the unread body of a refused request is not taken
// for the next request.
func TestKeepAliveAfterRefusal(t *testing.T) {
	_, address := start(t, Options{})
	inner := "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	text := fmt.Sprintf("POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner)
	answer := speak(t, address, text, time.Second)
	if strings.Count(answer, "HTTP/1.1 ") != 1 || !strings.HasPrefix(answer, "HTTP/1.1 401 ") ||
		strings.Contains(answer, "still open") {
		t.Errorf("%q", answer)
	}
}
