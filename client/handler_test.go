package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// script answers as a service does: at once, in events, without an end, or with a panic.
var script = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/runs/a":
		io.WriteString(w, `{"id":"a"}`)
	case "POST /api/v1/files":
		n, _ := io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInsufficientStorage)
		io.WriteString(w, `{"error":{"code":"full","message":"`+strings.Repeat("x", int(n))+`"}}`)
	case "GET /api/v1/sessions/s/archive":
		io.WriteString(w, strings.Repeat("y", 3*answerBuffer))
		io.WriteString(w, "end")
	case "GET /api/v1/runs/events/events":
		io.WriteString(w, "id: 1\nevent: output\ndata: {\"data\":\"1\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "GET /api/v1/runs/silent":
		<-r.Context().Done()
	default:
		panic(http.ErrAbortHandler)
	}
})

func TestWithHandler(t *testing.T) {
	c := WithHandler(script, Options{Key: "k"})
	defer c.Close()
	if run, err := c.GetRun(t.Context(), "a"); err != nil || run.ID != "a" {
		t.Errorf("%+v, %v", run, err)
	}
	_, err := c.Upload(t.Context(), "f", strings.NewReader("12345"), 0)
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrFull) || e.Message != "xxxxx" {
		t.Errorf("upload: %v", err)
	}
	var long strings.Builder
	if err := c.Archive(t.Context(), "s", &long); err != nil || long.Len() != 3*answerBuffer+len("end") {
		t.Errorf("archive: %d bytes, %v", long.Len(), err)
	}
	for e, err := range c.Events(t.Context(), "events", 0) {
		if err != nil || e.Data != "1" {
			t.Errorf("%+v, %v", e, err)
		}
		break // ends the handler, as Close notices
	}
	if _, err := c.GetRun(t.Context(), "panics"); err == nil {
		t.Error("a handler that panics answered")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GetRun(ctx, "silent"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Close ends calls, and there are none after it.
func TestWithHandlerClose(t *testing.T) {
	begun := make(chan struct{})
	c := WithHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	}), Options{})
	ended := make(chan error)
	go func() { _, err := c.GetRun(context.Background(), "a"); ended <- err }()
	<-begun
	c.Close()
	if err := <-ended; err == nil {
		t.Error("a call outlived Close")
	}
	if _, err := c.GetRun(t.Context(), "a"); err == nil {
		t.Error("a call was made after Close")
	}
}

func BenchmarkRequest(b *testing.B) {
	server := httptest.NewServer(script)
	defer server.Close()
	over, err := New(Options{Server: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer over.Close()
	within := WithHandler(script, Options{})
	defer within.Close()
	for name, c := range map[string]*Client{"handler": within, "socket": over} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.GetRun(b.Context(), "a"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
