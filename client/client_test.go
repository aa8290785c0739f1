package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers with one handler, and returns a client of it. Requests that
// come one after the other may share variables, even over two connections.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	var order sync.Mutex
	inOrder := func() { order.Lock(); order.Unlock() } //nolint:staticcheck // an empty section orders what is around it
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inOrder()
		defer inOrder()
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := New(Options{Server: server.URL, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestRequests checks what each method sends.
func TestRequests(t *testing.T) {
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"), body)
		for _, name := range []string{"Content-Type", "Idempotency-Key"} {
			if v := r.Header.Get(name); v != "" {
				got += " " + v
			}
		}
		answer := "{}"
		if strings.HasSuffix(r.URL.Path, "/languages") {
			answer = "[]"
		}
		io.WriteString(w, answer)
	})
	ctx := t.Context()
	cases := []struct {
		call func() error
		want string
	}{
		{func() error {
			_, err := c.Run(ctx, RunRequest{
				Language: "python", Code: "x", Args: []string{"a"}, Stdin: "in",
				Files:   []FileRef{{ID: "f", Path: "p", ReadOnly: true}},
				Session: "s", Timeout: 5 * time.Millisecond, Limits: &Limits{MemoryBytes: 7}, IdempotencyKey: "k",
			})
			return err
		}, `POST /api/v1/runs Bearer secret {"language":"python","code":"x","args":["a"],"stdin":"in","files":[{"id":"f","path":"p","read_only":true}],"session":"s","limits":{"memory_bytes":7},"timeout_ms":5} application/json k`},
		{func() error { _, err := c.Start(ctx, RunRequest{Language: "l", Code: "c"}); return err },
			`POST /api/v1/runs Bearer secret {"language":"l","code":"c","wait":false} application/json`},
		{func() error { _, err := c.GetRun(ctx, "id"); return err }, `GET /api/v1/runs/id Bearer secret `},
		{func() error { _, err := c.GetRun(ctx, "../keys?x#y"); return err },
			`GET /api/v1/runs/..%2Fkeys%3Fx%23y Bearer secret `},
		{func() error { _, err := c.GetRun(ctx, ""); return err }, `GET /api/v1/runs/- Bearer secret `},
		{func() error { _, err := c.GetRun(ctx, ".."); return err }, `GET /api/v1/runs/- Bearer secret `},
		{func() error { _, _, err := c.ListRuns(ctx, "s", Page{Limit: 5, After: "a"}); return err },
			`GET /api/v1/runs?after=a&limit=5&session=s Bearer secret `},
		{func() error { return c.Cancel(ctx, "id") }, `DELETE /api/v1/runs/id Bearer secret `},
		{func() error { _, err := c.GetFile(ctx, "id"); return err }, `GET /api/v1/files/id Bearer secret `},
		{func() error { _, _, err := c.ListFiles(ctx, Page{}); return err }, `GET /api/v1/files Bearer secret `},
		{func() error { return c.DeleteFile(ctx, "id") }, `DELETE /api/v1/files/id Bearer secret `},
		{func() error {
			_, err := c.CreateSession(ctx, SessionRequest{Kind: "held", TTL: 9 * time.Second})
			return err
		},
			`POST /api/v1/sessions Bearer secret {"kind":"held","ttl_seconds":9} application/json`},
		{func() error { _, err := c.GetSession(ctx, "id"); return err }, `GET /api/v1/sessions/id Bearer secret `},
		{func() error { _, _, err := c.ListSessions(ctx, Page{Limit: 1}); return err },
			`GET /api/v1/sessions?limit=1 Bearer secret `},
		{func() error { return c.DeleteSession(ctx, "id") }, `DELETE /api/v1/sessions/id Bearer secret `},
		{func() error { _, err := c.SessionFiles(ctx, "id"); return err }, `GET /api/v1/sessions/id/files Bearer secret `},
		{func() error { return c.Archive(ctx, "id", io.Discard) }, `GET /api/v1/sessions/id/archive Bearer secret `},
		{func() error { _, err := c.CreateKey(ctx, NewKey{Owner: "alice", Admin: true}); return err },
			`POST /api/v1/keys Bearer secret {"owner":"alice","admin":true} application/json`},
		{func() error { _, err := c.ListKeys(ctx); return err }, `GET /api/v1/keys Bearer secret `},
		{func() error { return c.RevokeKey(ctx, "id") }, `DELETE /api/v1/keys/id Bearer secret `},
		{func() error { _, err := c.Languages(ctx); return err }, `GET /api/v1/languages Bearer secret `},
		{func() error { _, err := c.ListImages(ctx); return err }, `GET /api/v1/images Bearer secret `},
		{func() error { _, err := c.Limits(ctx); return err }, `GET /api/v1/limits Bearer secret `},
		{func() error { _, err := c.Health(ctx); return err }, `GET /api/v1/health Bearer secret `},
	}
	for _, tc := range cases {
		got = ""
		if err := tc.call(); err != nil {
			t.Errorf("%s: %v", tc.want, err)
		}
		if got != tc.want {
			t.Errorf("sent %s\nwant %s", got, tc.want)
		}
	}
}

func TestErrors(t *testing.T) {
	answer := func(status int, header, body string) *Client {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "from-header")
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
	}
	cases := []struct {
		status       int
		header, body string
		want         Error
	}{
		{429, "7", `{"error":{"code":"busy","message":"wait","hint":"do","request_id":"r"}}`,
			Error{429, "busy", "wait", "do", "r", 7 * time.Second}},
		{502, "", `<html>`, Error{502, "", "the server answered 502 Bad Gateway", "", "from-header", 0}},
		{503, "Wed, 21 Oct 2015 07:28:00 GMT", `{}`, Error{503, "", "the server answered 503 Service Unavailable", "",
			"from-header", 0}},
		{404, "-1", `{"error":{"code":"not_found","message":"no"}}`, Error{404, "not_found", "no", "", "from-header", 0}},
		{301, "", ``, Error{301, "", "the server answered 301 Moved Permanently", "", "from-header", 0}},
	}
	for _, c := range cases {
		_, err := answer(c.status, c.header, c.body).Languages(t.Context())
		got, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%d: %v", c.status, err)
		}
		if diff := cmp.Diff(c.want, *got); diff != "" {
			t.Error(diff)
		}
		if errors.Is(err, ErrNotFound) != (c.status == 404) {
			t.Errorf("errors.Is(%v, ErrNotFound)", err)
		}
	}
	if _, err := answer(200, "", "<html>").Limits(t.Context()); err == nil {
		t.Error("a page is taken for an answer")
	}
}

func TestServers(t *testing.T) {
	for server, want := range map[string]string{
		"http://127.0.0.1:8000": "http://127.0.0.1:8000/api/v1", "https://host/": "https://host/api/v1",
		"http://host/airlock/":     "http://host/airlock/api/v1",
		"unix:///run/airlock.sock": "http://localhost/api/v1",
		"":                         "", "127.0.0.1:8000": "", "localhost:8000": "", "ftp://host": "", "http://": "",
		"unix://host/path": "", "unix://": "", "http://user:pass@host": "", "http://host?x=y": "", "http://[": "",
	} {
		c, err := New(Options{Server: server})
		if want == "" {
			if err == nil || strings.Contains(err.Error(), "pass@") {
				t.Errorf("%q: %v", server, err)
			}
			continue
		}
		if err != nil || c.base != want {
			t.Errorf("%q: %v, %v", server, c, err)
		}
	}
}

func TestConnections(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"status":%q}`, r.Host)
		})}}
	server.Start()
	defer server.Close()
	for name, o := range map[string]Options{
		"unix":          {Server: "unix://" + socket},
		"unix and HTTP": {Server: "unix://" + socket, HTTP: &http.Client{Timeout: time.Minute}},
		"dial": {Server: "http://in.memory", Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	} {
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		health, err := c.Health(t.Context())
		if err != nil || (health.Status != "localhost" && health.Status != "in.memory") {
			t.Errorf("%s: %v, %v", name, health, err)
		}
		c.Close()
	}
}

func TestTransfers(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	var stored bytes.Buffer
	var lie func(*File)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "POST":
			if r.URL.RawQuery != "name=dir%2F%E6%97%A5&ttl_seconds=60" {
				t.Errorf("query %s", r.URL.RawQuery)
			}
			stored.Reset()
			if _, err := stored.ReadFrom(r.Body); err != nil {
				t.Error(err)
			}
		case strings.HasSuffix(r.URL.Path, "/content"):
			w.Write(stored.Bytes())
			return
		}
		sum := &counter{hash: sha256.New()}
		sum.Write(stored.Bytes())
		file := File{ID: "id", Name: "日", Size: sum.size, SHA256: sum.sum()}
		lie(&file)
		json.NewEncoder(w).Encode(file)
	})
	for name, tc := range map[string]struct {
		lie func(*File)
		ok  bool
	}{
		"truth":      {func(*File) {}, true},
		"other size": {func(f *File) { f.Size++ }, false},
		"other hash": {func(f *File) { f.SHA256 = strings.Repeat("0", 64) }, false},
	} {
		lie = tc.lie
		for _, reader := range []io.Reader{strings.NewReader(content), io.MultiReader(strings.NewReader(content))} {
			if _, err := c.Upload(t.Context(), "dir/日", reader, time.Minute); (err == nil) != tc.ok {
				t.Errorf("upload, %s: %v", name, err)
			}
		}
		var got strings.Builder
		if _, err := c.Download(t.Context(), "id", &got); (err == nil) != tc.ok {
			t.Errorf("download, %s: %v", name, err)
		}
		if tc.ok && got.String() != content {
			t.Errorf("%d bytes came", got.Len())
		}
	}
}

func TestUploadFails(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	broken := errors.New("the disk broke")
	if _, err := c.Upload(t.Context(), "x", io.MultiReader(strings.NewReader("half"), failing{broken}), 0); !errors.Is(
		err, broken) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A redirect to another server gets it neither the key nor what was to be sent.
func TestRedirectsStayWithTheServer(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("the other server got %q with %q", body, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	// "localhost" is another name of the same machine: net/http itself removes the key, not the body.
	for _, to := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
		away := httptest.NewServer(http.RedirectHandler(to, http.StatusTemporaryRedirect))
		defer away.Close()
		for name, own := range map[string]*http.Client{"none": nil, "the caller's": {}} {
			c, err := New(Options{Server: away.URL, Key: "secret", HTTP: own})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Run(t.Context(), RunRequest{Language: "python", Code: "1"}); err == nil ||
				!strings.Contains(err.Error(), "redirects to "+to) {
				t.Errorf("with client %s: %v", name, err)
			}
			c.Close()
			if own != nil {
				own.CloseIdleConnections()
			}
		}
	}
}
