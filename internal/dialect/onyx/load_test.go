package onyx

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func contains(t *testing.T, w *httptest.ResponseRecorder, status int, words ...string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for _, word := range words {
		if !strings.Contains(w.Body.String(), word) {
			t.Errorf("%q is not in %s", word, w.Body)
		}
	}
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never: " + what)
		}
	}
}

// Under load a client is told when to come back, before any stream begins,
// and the next request works.
func TestSaturated(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1, Queue: 1, QueuePerOwner: 1}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{}, 2)
	for waiting := range 2 { // the second has to find the first running, or there is no room for it
		go func() {
			req := httptest.NewRequestWithContext(ctx, "POST", "/v1/execute", strings.NewReader(`{"code":"wait"}`))
			req.Header.Set("Content-Type", "application/json")
			r.handler.ServeHTTP(httptest.NewRecorder(), req)
			left <- struct{}{}
		}()
		eventually(t, "one runs and the other waits", func() bool {
			s := r.engine.Stats()
			return s.Running == 1 && s.Queued == waiting
		})
	}
	for _, path := range []string{"/v1/execute", "/v1/execute/stream"} {
		w := r.send("POST", path, `{"code":"exit 0"}`)
		contains(t, w, http.StatusTooManyRequests,
			`{"detail":"Execution capacity on this replica is saturated. Retry after the Retry-After delay."}`)
		seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		if seconds < 2 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	cancel()
	<-left
	<-left
	contains(t, r.send("POST", "/v1/execute", `{"code":"print again"}`), 200, "again")

	metrics := r.send("GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`code_interpreter_executions_active{operation="execute"} 0`,
		`code_interpreter_executions_limit 1`,
		`code_interpreter_executions_rejected_total{operation="execute",reason="concurrency_limit",status="429"} 1`,
		`code_interpreter_executions_rejected_total{operation="execute_stream",reason="concurrency_limit",status="429"} 1`,
		`code_interpreter_executions_completed_total{operation="execute",outcome="ok"} 1`,
		`code_interpreter_executions_completed_total{operation="execute",outcome="error"} 2`,
		`code_interpreter_execution_duration_seconds_bucket{operation="execute",le="0.05"} `,
		`code_interpreter_admission_wait_seconds_count{operation="execute"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("not among the metrics: %s\n%s", line, metrics)
		}
	}
}

func TestNotReady(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	r.sandbox.Fail(&engine.Error{Op: "run", Kind: engine.ErrUnavailable, Hint: "The executor does not start."})
	const body = `{"status":"error","message":"The executor does not start.","version":"0.4.7","executor_backend":null,"network_isolation":null}`
	contains(t, r.send("GET", "/health", ""), 200, body)
	contains(t, r.send("GET", "/ready", ""), 503, body)
	w := r.send("POST", "/v1/execute", `{"code":""}`)
	contains(t, w, 503, `"Executor capacity unavailable (unschedulable): The executor does not start."`)
	if w.Header().Get("Retry-After") != "10" {
		t.Errorf("Retry-After: %q", w.Header().Get("Retry-After"))
	}
	r.sandbox.Fail(&engine.Error{Op: "hold", Kind: engine.ErrFull, Hint: "Delete sessions."})
	contains(t, r.send("POST", "/v1/sessions", `{}`), 503,
		`"Executor capacity unavailable (quota_exceeded): Delete sessions."`)
	r.sandbox.Fail(nil)
	contains(t, r.send("GET", "/ready", ""), 200, `"ok"`)
	contains(t, r.send("POST", "/v1/execute", `{"code":"print 1"}`), 200)
}

// An internal error is JSON like any other, and the connection stays open.
func TestFaultsKeepTheConnection(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	server := httptest.NewServer(r.handler)
	defer server.Close()
	id := r.put("a.csv", "1,2")
	get := func(conn net.Conn, reader *bufio.Reader, path string) (*http.Response, string) {
		t.Helper()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	r.index.Fail(func(method string) error {
		if method == "File" || method == "Files" {
			return errors.New("a secret of the disk")
		}
		return nil
	})
	for _, path := range []string{"/v1/files/" + id, "/v1/files"} {
		resp, body := get(conn, reader, path)
		if resp.StatusCode != 500 || resp.Close || body != `{"detail":"Internal Server Error"}` {
			t.Errorf("%s: %d %v %s", path, resp.StatusCode, resp.Header, body)
		}
	}
	r.index.Fail(nil)
	if resp, body := get(conn, reader, "/v1/files/"+id); resp.StatusCode != 200 || body != "1,2" {
		t.Errorf("on the same connection: %d %s", resp.StatusCode, body)
	}
}

// A client that leaves ends its run, whatever it was waiting for.
func TestClientsWhoLeave(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	server := httptest.NewServer(r.handler)
	defer server.Close()
	for _, path := range []string{"/v1/execute", "/v1/execute/stream"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+path,
			strings.NewReader(`{"code":"print begun\nwait","timeout_ms":60000}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := server.Client().Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		eventually(t, "it runs", func() bool { return r.engine.Stats().Running == 1 })
		cancel()
		<-done
		eventually(t, "it was ended", func() bool { return r.engine.Stats().Running == 0 })
	}
	if got := r.engine.Stats().Runs[engine.StatusCancelled]; got != 2 {
		t.Errorf("%d runs are cancelled", got)
	}
}

// A reader that never reads blocks no other client, and its stream ends when it disconnects.
func TestReaderWhoNeverReads(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	server := httptest.NewServer(r.handler)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"code":"repeat 900000 x\nwait","timeout_ms":60000}`
	fmt.Fprintf(conn,
		"POST /v1/execute/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	eventually(t, "it runs", func() bool { return r.engine.Stats().Running == 1 })
	contains(t, r.send("POST", "/v1/execute", `{"code":"print meanwhile"}`), 200, "meanwhile")
	conn.Close()
	eventually(t, "it was ended", func() bool { return r.engine.Stats().Running == 0 })
}

// form is an upload as a client sends it.
func form(t *testing.T, name string, content io.Reader) (contentType string, body *bytes.Buffer) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	part, err := w.CreateFormFile("file", name)
	if err == nil {
		_, err = io.Copy(part, content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), body
}

func (r *rig) upload(name string, content io.Reader) *httptest.ResponseRecorder {
	r.t.Helper()
	contentType, body := form(r.t, name, content)
	req := httptest.NewRequestWithContext(r.t.Context(), "POST", "/v1/files", body)
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestSizes(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{MaxFile: 2 << 20})
	contains(t, r.upload("exact", zeros(2<<20)), 201, `"size_bytes":2097152`)
	contains(t, r.upload("more", zeros(2<<20+1)), 413, `{"detail":"File size exceeds maximum of 2 MB"}`)
	contains(t, r.send("GET", "/v1/files", ""), 200, `"exact"`)
	if strings.Contains(r.send("GET", "/v1/files", "").Body.String(), "more") {
		t.Error("what was refused is there")
	}

	long := `{"code":"` + strings.Repeat("#", maxJSON) + `"}`
	for name, length := range map[string]int64{"announced": int64(len(long)), "not announced": -1} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/execute", strings.NewReader(long))
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = length
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		if w.Code != 413 || w.Body.String() != `{"detail":"Request body exceeds maximum of 50 MB"}` {
			t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
		}
	}
	contains(t, r.send("POST", "/v1/execute", `{"code":"`+strings.Repeat("#", 16<<20+1)+`"}`), 413,
		"code has 16777217 bytes, at most 16777216 are allowed")
	contains(t, r.send("POST", "/v1/execute", `{"code":"print 1"}`), 200)
}

// A list is all that there is, however much that may be.
func TestLongList(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	const many = listPage + 5
	for i := range many {
		r.put(fmt.Sprint(i), "")
	}
	var list struct{ Files []struct{ Filename string } }
	if err := json.Unmarshal(r.send("GET", "/v1/files", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range list.Files {
		names[f.Filename] = true
	}
	if len(list.Files) != many || len(names) != many {
		t.Errorf("%d files, %d names", len(list.Files), len(names))
	}
}

// A download under way survives the deletion of its file.
func TestDeleteDuringDownload(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	server := httptest.NewServer(r.handler)
	defer server.Close()
	const size = 8 << 20
	var stored struct {
		FileID string `json:"file_id"`
	}
	if err := json.Unmarshal(r.upload("big", zeros(size)).Body.Bytes(), &stored); err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Get(server.URL + "/v1/files/" + stored.FileID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	contains(t, r.send("DELETE", "/v1/files/"+stored.FileID, ""), 204)
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size-1000 {
		t.Errorf("%d bytes, %v", n, err)
	}
	contains(t, r.send("GET", "/v1/files/"+stored.FileID, ""), 404)
}
