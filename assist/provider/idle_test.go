package provider_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

// What makes no progress is abandoned, whichever part of a request it is; what moves
// may take longer than any of the limits.
func TestIdleTimeout(t *testing.T) {
	release := make(chan struct{})
	wait := func(r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /never", func(_ http.ResponseWriter, r *http.Request) { wait(r) })
	mux.HandleFunc("GET /half", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "12345")
		_ = http.NewResponseController(w).Flush()
		wait(r)
	})
	mux.HandleFunc("POST /stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 { // slower than a transfer may be, faster than a model
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			pause(r, 3500*time.Millisecond)
		}
		if r.URL.RawQuery == "dies" {
			wait(r)
		}
	})
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		for range 35 { // longer in all than a transfer may stall
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			pause(r, 100*time.Millisecond)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer server.CloseClientConnections()
	defer close(release)
	client := provider.HTTPClient(provider.HTTPOptions{Idle: 3 * time.Second, Silence: 10 * time.Second})
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for _, c := range []struct {
		method, where string
		silent        bool
	}{
		{"GET", "/never", true}, {"GET", "/half", true}, {"GET", "/slow", false},
		{"POST", "/stream", false}, {"POST", "/stream?dies", true},
	} {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.where, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			begun := time.Now()
			resp, err := client.Do(r)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if (err != nil) != c.silent || time.Since(begun) > time.Minute {
				t.Errorf("%s %s ended after %v with %v", c.method, c.where, time.Since(begun), err)
			}
			if !c.silent {
				return
			}
			if e := provider.Failed("p", "op", err); e.Kind != provider.Transient ||
				!strings.Contains(e.Error(), "stalled") {
				t.Errorf("%s %s: %v", c.method, c.where, e)
			}
		})
	}
	all.Wait()
}

// pause is the time between two pieces of an answer. The requests go over sockets, whose
// deadlines are real.
func pause(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// An upload that nobody takes is abandoned; one that is answered before its end is
// not.
func TestSilentUpload(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // it accepts, and reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	}))
	defer early.Close()
	client := provider.HTTPClient(provider.HTTPOptions{Idle: time.Second, Silence: 20 * time.Second})
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+silent.Addr().String(),
		io.LimitReader(zeros{}, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	resp, err := client.Do(r)
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || time.Since(begun) > 15*time.Second || !strings.Contains(
		provider.Failed("p", "op", err).Error(), "stalled") {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, early.URL, io.LimitReader(zeros{}, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	resp, err = client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); err != nil || string(said) != "too large" {
		t.Errorf("%q, %v", said, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
