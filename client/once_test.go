package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A second loop over the events of a program does not run it again.
func TestStreamRunsOnce(t *testing.T) {
	var runs atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		runs.Add(1)
		io.WriteString(w, startedText+resultText)
	})
	events := c.Stream(t.Context(), RunRequest{})
	for _, err := range events {
		if err != nil {
			t.Fatal(err)
		}
	}
	var second error
	for _, err := range events {
		second = err
	}
	if second == nil || runs.Load() != 1 {
		t.Errorf("the second loop ended with %v, and the program ran %d times", second, runs.Load())
	}
}

func TestUploadArguments(t *testing.T) {
	var seconds string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seconds = r.URL.Query().Get("ttl_seconds")
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"size":1,"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}`)
	})
	if _, err := c.Upload(t.Context(), "x", nil, 0); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("without a reader: %v", err)
	}
	if _, err := c.Upload(t.Context(), "x", strings.NewReader("x"), -time.Second); err == nil ||
		!strings.Contains(err.Error(), "negative") {
		t.Errorf("a negative lifetime: %v", err)
	}
	for ttl, want := range map[time.Duration]string{0: "", 1: "1", time.Second: "1", 1500 * time.Millisecond: "2"} {
		if _, err := c.Upload(t.Context(), "x", strings.NewReader("x"), ttl); err != nil || seconds != want {
			t.Errorf("%v: sent as %q, want %q: %v", ttl, seconds, want, err)
		}
	}
}

func TestServerWithoutScheme(t *testing.T) {
	for _, server := range []string{"127.0.0.1:8000", "localhost:8000", "host"} {
		if _, err := New(Options{Server: server}); err == nil || !strings.Contains(err.Error(), "must begin with http://") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// What a caller has left out is an error, not a panic or an empty file.
func TestZeroValues(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) })
	ctx := t.Context()
	_, downloaded := c.Download(ctx, "a", nil)
	_, written := c.WriteLiveFile(ctx, "a", "x", nil)
	for name, err := range map[string]error{"download": downloaded, "write": written, "archive": c.Archive(ctx, "a", nil),
		"archive held": c.ArchiveHeld(ctx, "a", nil), "read": c.ReadLiveFile(ctx, "a", "x", nil)} {
		if err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := new(Client).Health(ctx); err == nil || !strings.Contains(err.Error(), "client.New") {
		t.Errorf("a Client without New: %v", err)
	}
	new(Client).Close()
}

// Close ends all goroutines of a client.
func TestCloseEndsGoroutines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"status":"ok"}`)
	}))
	defer server.Close()
	opened := goleak.IgnoreCurrent()
	for range 50 {
		c, err := New(Options{Server: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if err := goleak.Find(opened); err != nil {
		t.Error(err)
	}
}
