package httpd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// upload is a request with a body of 32 MiB, more than the kernel keeps of what nobody reads.
func upload(path, header string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", path, 32<<20, header,
		strings.Repeat("x", 32<<20))
}

// TestRefusedUpload has clients that send all of a refused request before they read the answer.
func TestRefusedUpload(t *testing.T) {
	conflict := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusConflict, "conflict", "no")
	})
	_, address := start(t, Options{Mounts: []Mount{{Prefix: "/api/v1", Handler: dialect(), MaxBody: 100},
		{Prefix: "/open", Handler: conflict, Trusted: true}},
		TrustNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	chunked := "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nX-API-Key: " + aliceKey +
		"\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 32<<20, strings.Repeat("x", 32<<20))
	for _, c := range []struct {
		name, text string
		status     int
	}{
		{"wrong key", upload("/api/v1/x", "X-API-Key: wrong\r\n"), 401},
		{"too large", upload("/api/v1/x", "X-API-Key: "+aliceKey+"\r\n"), 413},
		{"too large, chunked", chunked, 413},
		{"not read", upload("/open/x", ""), 409},
	} {
		answer := speak(t, address, c.text, time.Minute)
		head, body, whole := strings.Cut(answer, "\r\n\r\n")
		if !strings.HasPrefix(head, fmt.Sprint("HTTP/1.1 ", c.status)) || !whole ||
			!strings.Contains(head, fmt.Sprint("\r\nContent-Length: ", len(body))) ||
			!strings.Contains(head, "\r\nConnection: close") {
			t.Errorf("%s: %q", c.name, answer)
		}
	}
}

// TestLingering checks how many connections linger, that the gate counts them, and that they do not outlive the server.
func TestLingering(t *testing.T) {
	s, address := start(t, Options{MaxConns: 8}) // one of which may linger
	lingers := func() (n, counted int) {
		s.gate.lingering.mu.Lock()
		defer s.gate.lingering.mu.Unlock()
		s.gate.mu.Lock()
		defer s.gate.mu.Unlock()
		return len(s.gate.lingering.open), len(s.gate.open)
	}
	first, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	head, _, _ := strings.Cut(upload("/api/v1/x", "X-API-Key: wrong\r\n"), "\r\n\r\n")
	io.WriteString(first, head+"\r\n\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() { // it lingers for as long as bytes come
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				_, _ = first.Write([]byte("x"))
			}
		}
	}()
	if answer, err := io.ReadAll(first); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
		t.Fatalf("%q %v", answer, err)
	}
	for n, counted := lingers(); n != 1; n, counted = lingers() {
		if counted != 1 {
			t.Fatalf("%d connections are counted", counted)
		}
		<-time.After(time.Millisecond)
	}
	second, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := io.WriteString(second, upload("/api/v1/x", "X-API-Key: wrong\r\n")); err == nil {
		t.Error("a second one lingers")
	}
	if n, counted := lingers(); n != 1 || counted < 1 {
		t.Errorf("%d linger, and %d are counted", n, counted)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if n, counted := lingers(); n != 0 || counted != 0 {
		t.Errorf("after the end %d linger, and %d are counted", n, counted)
	}
}

func TestDrain(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{
		time.Hour: lingerIdle, 4 * time.Second: lingerTime, 6 * time.Second: lingerIdle,
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for {
					select {
					case <-ctx.Done():
						return
					case <-time.After(pause):
						_, _ = ours.Write([]byte("x"))
					}
				}
			}()
			drain(theirs)
			if took := time.Since(began); took != want {
				t.Errorf("a byte each %v: %v", pause, took)
			}
			theirs.Close()
		})
	}
}
