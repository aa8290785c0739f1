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
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var hurry = Timeouts{Header: 100 * time.Millisecond, BodyIdle: 100 * time.Millisecond,
	WriteIdle: 100 * time.Millisecond, KeepAlive: 100 * time.Millisecond}

// TestSlowPeers checks that a client that stops in the middle is cut, at any point.
func TestSlowPeers(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}, Timeouts: hurry})
	for name, text := range map[string]string{
		"silence":        "",
		"half a header":  "GET /health HTTP/1.1\r\nHost: loc",
		"half a body":    "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nhalf",
		"half a chunk":   "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf",
		"half, refused":  "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nX-API-Key: wrong\r\nContent-Length: 50\r\n\r\nhalf",
		"half, no route": "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nhalf",
		"after a whole":  "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		answer := speak(t, address, text, 30*time.Second)
		if strings.Contains(answer, "still open") {
			t.Errorf("%s: %q", name, answer)
		}
	}
}

// TestSlowUpload checks that a body that takes much longer than the idle limit arrives, as
// long as it makes progress.
func TestSlowUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipes()
		start(t, Options{Engine: &fakeEngine{}, Listen: []net.Listener{pipes}})
		conn := pipes.dial()
		defer conn.Close()
		fmt.Fprint(conn, "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 20\r\n\r\n")
		for range 20 {
			time.Sleep(9 * time.Second)
			io.WriteString(conn, "x")
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), "body=20") {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

// TestLongRun checks that a handler may work for longer than every limit after its body was
// read.
func TestLongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
				io.WriteString(w, "cancelled")
			case <-time.After(time.Hour):
				io.WriteString(w, "done")
			}
		})
		pipes := newPipes()
		start(t, Options{Engine: &fakeEngine{}, Listen: []net.Listener{pipes},
			Mounts: []Mount{{Prefix: "/long", Handler: long}}})
		for _, body := range []string{"", "some"} {
			if _, answer := requestOver(t, pipes.transport(), "POST", "http://localhost/long", "", body); answer != "done" {
				t.Errorf("body %q: %q", body, answer)
			}
		}
	})
}

// TestReadPastTheEnd checks that reading past the end of a body sets no deadline on the
// read with which the server watches the client.
func TestReadPastTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipes()
		server := http.Server{Handler: progress(hurry, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			r.Body.Read(make([]byte, 1))
			select {
			case <-r.Context().Done():
				io.WriteString(w, "cancelled")
			case <-time.After(300 * time.Millisecond):
				io.WriteString(w, "done")
			}
		}))}
		defer server.Close()
		go server.Serve(pipes)
		if _, answer := requestOver(t, pipes.transport(), "POST", "http://localhost", "", "some"); answer != "done" {
			t.Errorf("answer %q", answer)
		}
	})
}

// TestSlowReader checks that an answer which the client does not read is cancelled, both
// where the handler writes and where the kernel sends a file. No other limit is short: the
// request itself may take its time on a busy machine.
func TestSlowReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	write := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})
	send := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			ended <- nil
			return
		}
		defer f.Close()
		_, err = io.CopyN(w, f, 64<<20)
		ended <- err
	})
	_, address := start(t, Options{Engine: &fakeEngine{}, Timeouts: Timeouts{WriteIdle: hurry.WriteIdle},
		Mounts: []Mount{{Prefix: "/write", Handler: write}, {Prefix: "/send", Handler: send}}})
	for _, path := range []string{"/write", "/send"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: written to nobody", path)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: still writing", path)
			go func() { <-ended }()
		}
		conn.Close()
	}
}

// TestFiles checks that files are sent completely in pieces.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := strings.Repeat("0123456789abcdef", 3*sendPiece/16) + "end"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })
	_, address := start(t, Options{Engine: &fakeEngine{}, Mounts: []Mount{{Prefix: "/file", Handler: file}}})
	if _, body := request(t, "GET", address+"/file", "", ""); body != content {
		t.Errorf("%d bytes of %d", len(body), len(content))
	}
	if _, body := request(t, "GET", address+"/file", "Range: bytes=5-786430", ""); body != content[5:786431] {
		t.Errorf("a range has %d bytes", len(body))
	}
	if resp, body := request(t, "HEAD", address+"/file", "", ""); body != "" || resp.ContentLength != int64(len(content)) {
		t.Errorf("HEAD: %d %q", resp.ContentLength, body)
	}
}

// TestSendfile checks that the response writer still uses sendfile.
func TestSendfile(t *testing.T) {
	inner := &readerFrom{ResponseRecorder: httptest.NewRecorder()}
	w := &response{ResponseWriter: inner, control: http.NewResponseController(inner)}
	n, err := io.CopyN(w, strings.NewReader(strings.Repeat("x", sendPiece+1)), sendPiece+1)
	if n != sendPiece+1 || err != nil || inner.calls != 2 {
		t.Errorf("%d bytes in %d calls, %v", n, inner.calls, err)
	}
}

type readerFrom struct {
	*httptest.ResponseRecorder
	calls int
}

func (r *readerFrom) ReadFrom(src io.Reader) (int64, error) {
	r.calls++
	return io.Copy(struct{ io.Writer }{r.ResponseRecorder}, src)
}

func TestRate(t *testing.T) {
	var log lockedBuffer
	s, address := start(t, Options{Engine: &fakeEngine{hasKeys: true}, Rate: 1,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	get := func(key string) *http.Response {
		resp, _ := request(t, "GET", address+"/api/v1/x", "X-API-Key: "+key, "")
		return resp
	}
	statuses := ""
	for range 4 {
		resp := get(aliceKey)
		statuses += fmt.Sprint(resp.StatusCode, " ")
		if resp.StatusCode == 429 && resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if statuses != "200 200 429 429 " {
		t.Errorf("statuses %s", statuses)
	}
	if resp := get(adminKey); resp.StatusCode != 200 {
		t.Errorf("another caller: %d", resp.StatusCode)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "msg=request ") != 3 || !strings.Contains(text, "requests were refused") {
		t.Errorf("requests beyond the rate have lines of their own in the log: %s", text)
	}
}

// TestConnections checks that idle connections make room for new ones, the
// oldest first, and that busy ones do not.
func TestConnections(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	entered := make(chan struct{}, 3)
	busy := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-hold })
	s, address := start(t, Options{Engine: &fakeEngine{}, MaxConns: 2, Mounts: []Mount{{Prefix: "/busy", Handler: busy}}})
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		return conn
	}
	ask := func(conn net.Conn) bool {
		fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		n, err := conn.Read(make([]byte, 4096))
		return err == nil && n > 0
	}
	first := dial()
	fits := ask(first)
	for !waits(s.gate) { // its answer arrives before the server considers it idle
		runtime.Gosched()
	}
	second := dial()
	if !fits || !ask(second) {
		t.Fatal("two connections do not fit")
	}
	third := dial()
	if !ask(third) {
		t.Error("an idle connection makes no room")
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest is still there")
	}
	for _, conn := range []net.Conn{second, third} {
		fmt.Fprint(conn, "GET /busy HTTP/1.1\r\nHost: localhost\r\n\r\n")
		select {
		case <-entered:
		case <-time.After(time.Minute):
			t.Fatal("a connection that was idle for less long is gone")
		}
	}
	if ask(dial()) {
		t.Error("a fourth got in while all were busy")
	}
}

// waits reports whether a connection of an unknown caller waits for a request.
func waits(g *gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, of := range g.addresses {
		if of.waiting.Len() > 0 {
			return true
		}
	}
	return false
}

// A caller gets an answer before the request is logged or counted.
func TestAnswerIsSentFirst(t *testing.T) {
	arrived := make(chan struct{})
	log := slog.New(waitingHandler{slog.DiscardHandler, arrived})
	_, url := start(t, Options{Log: log, Mounts: []Mount{{Prefix: "/x", Public: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "hello")
		})}}})
	client := &http.Client{Timeout: time.Minute, Transport: http.DefaultTransport.(*http.Transport).Clone()}
	defer client.CloseIdleConnections()
	response, err := client.Post(url+"/x", "text/plain", nil) //nolint:noctx // it has a timeout
	if err != nil {
		close(arrived)
		t.Fatal(err) // the answer waited for the log record, which waits for the test
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	close(arrived)
	if err != nil || string(body) != "hello" {
		t.Errorf("%q, %v", body, err)
	}
}

// waitingHandler delays a log record until an answer has arrived.
type waitingHandler struct {
	slog.Handler
	arrived chan struct{}
}

func (waitingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h waitingHandler) Handle(context.Context, slog.Record) error {
	<-h.arrived
	return nil
}
