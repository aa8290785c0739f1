package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image/png"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHello(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		got := s.do("POST", "/api/v1/runs", `{"language":"python","code":"print(1)"}`)
		var r run
		got.decode(t, &r)
		if got.status != 200 || r.Status != "ok" || r.Stdout != "1\n" || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Errorf("%d: %s", got.status, got.body)
		}
		failed := s.execute(python("import sys; print('bye', file=sys.stderr); sys.exit(3)"))
		if failed.Status != "error" || *failed.ExitCode != 3 || failed.Stderr != "bye\n" {
			t.Errorf("got %+v", failed)
		}
		if again := s.do("GET", "/api/v1/runs/"+r.ID, ""); again.status != 200 || !bytes.Contains(again.body, []byte(r.ID)) {
			t.Errorf("the run is not kept: %d %s", again.status, again.body)
		}
		for _, path := range []string{"/health", "/ready", "/metrics", "/api/v1/openapi.yaml", "/api/v1/languages",
			"/api/v1/limits"} {
			if got := s.do("GET", path, ""); got.status != 200 {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
	})
}

// upload sends a file as curl -F does.
func (s *service) upload(name, content string) file {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	got := s.do("POST", "/api/v1/files", body.String(), "Content-Type", form.FormDataContentType())
	if got.status != 200 && got.status != 201 {
		s.t.Fatalf("upload: %d %s", got.status, got.body)
	}
	var f file
	got.decode(s.t, &f)
	return f
}

func TestPlot(t *testing.T) {
	needPackages(t)
	sales, err := os.ReadFile("../testdata/sales.csv")
	if err != nil {
		t.Fatal(err)
	}
	plot, err := os.ReadFile("../examples/plot.py")
	if err != nil {
		t.Fatal(err)
	}
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithPackages(t, who))
		input := s.upload("sales.csv", string(sales))
		r := s.execute(map[string]any{"language": "python", "code": string(plot),
			"files": []map[string]string{{"id": input.ID}}})
		if r.Status != "ok" {
			t.Fatalf("%s: %s", r.Status, r.Stderr)
		}
		i := slices.IndexFunc(r.Files, func(f file) bool { return f.MIME == "image/png" })
		if i < 0 {
			t.Fatalf("no PNG among %+v", r.Files)
		}
		got := s.do("GET", "/api/v1/files/"+r.Files[i].ID+"/content", "")
		image, err := png.Decode(bytes.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		if size := image.Bounds().Size(); size.X < 200 || size.Y < 200 {
			t.Errorf("the image has %v", size)
		}
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	// It pauses in the middle: output is not held back. On a busy machine both lines
	// may still be read at once, and then the pause was too short.
	var events *stream
	var started event
	for pause := 400 * time.Millisecond; ; pause *= 6 {
		events = s.stream("POST", "/api/v1/runs", fmt.Sprintf(
			`{"language":"python","code":"import time\nprint('first', flush=True)\ntime.sleep(%v)\nprint('second')"}`,
			pause.Seconds()))
		started = events.until("started", "")
		began := time.Now()
		events.until("output", "first")
		events.until("output", "second")
		if time.Since(began) > pause*3/4 {
			break
		}
		if pause > 10*time.Second {
			t.Error("both lines came at once")
			break
		}
	}
	result := events.until("result", "")
	if e, more := events.next(); more {
		t.Errorf("after the result came %v", e)
	}
	id := find(result.data, "id")
	if id == "" || find(started.data, "id") != id {
		t.Fatalf("started %v, result %v", started.data, result.data)
	}
	replay := s.stream("GET", "/api/v1/runs/"+id+"/events", "")
	replay.until("output", "first")
	replay.until("result", id)
	rest := s.stream("GET", "/api/v1/runs/"+id+"/events", "", "Last-Event-ID", started.id)
	if e, ok := rest.next(); !ok || e.name != "output" {
		t.Errorf("after the first event came %v", e)
	}
}

// find returns the text of that name, at the top or one level down.
func find(data map[string]any, name string) string {
	if text, ok := data[name].(string); ok {
		return text
	}
	for _, v := range data {
		if inner, ok := v.(map[string]any); ok {
			if text, ok := inner[name].(string); ok {
				return text
			}
		}
	}
	return ""
}

func TestFiles(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	content := strings.Repeat("0123456789", 1000)
	f := s.upload("data.txt", content)
	sum := sha256.Sum256([]byte(content))
	if f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(content)) {
		t.Errorf("got %+v", f)
	}
	path := "/api/v1/files/" + f.ID + "/content"
	whole := s.do("GET", path, "")
	if whole.status != 200 || string(whole.body) != content {
		t.Fatalf("%d, %d bytes", whole.status, len(whole.body))
	}
	part := s.do("GET", path, "", "Range", "bytes=15-24")
	if part.status != http.StatusPartialContent || string(part.body) != "5678901234" {
		t.Errorf("range: %d %q", part.status, part.body)
	}
	etag := whole.header.Get("ETag")
	if same := s.do("GET", path, "", "If-None-Match", etag); etag == "" || same.status != http.StatusNotModified ||
		len(same.body) != 0 {
		t.Errorf("ETag %q: %d", etag, same.status)
	}
	raw := s.do("POST", "/api/v1/files?name=raw.bin", "\x00\x01", "Content-Type", "application/octet-stream")
	if raw.status/100 != 2 {
		t.Errorf("raw upload: %d %s", raw.status, raw.body)
	}
	// What a program changes is a new file; the input stays as it was.
	r := s.execute(map[string]any{"language": "bash",
		"code":  "cat data.txt | wc -c; echo more >> data.txt; echo new > made.txt",
		"files": []map[string]string{{"id": f.ID}}})
	if strings.TrimSpace(r.Stdout) != "10000" || len(r.Files) != 2 {
		t.Errorf("got %+v", r)
	}
	if got := s.do("GET", path, ""); string(got.body) != content {
		t.Error("the input was changed by the run")
	}
	if got := s.do("DELETE", "/api/v1/files/"+f.ID, ""); got.status/100 != 2 {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
	if got := s.do("GET", path, ""); got.status != 404 {
		t.Errorf("after delete: %d", got.status)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	for _, kind := range []string{"files", "held"} {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, who, dataWithoutPackages(t, who))
			made := s.do("POST", "/api/v1/sessions", `{"kind":"`+kind+`"}`)
			var session struct {
				ID string `json:"id"`
			}
			made.decode(t, &session)
			if made.status/100 != 2 || session.ID == "" {
				t.Fatalf("%d %s", made.status, made.body)
			}
			first := s.execute(map[string]any{"language": "bash", "code": "echo kept > state.txt", "session": session.ID})
			second := s.execute(map[string]any{"language": "bash", "code": "cat state.txt", "session": session.ID})
			if first.Status != "ok" || second.Stdout != "kept\n" {
				t.Errorf("first %+v, second %+v", first, second)
			}
			if other := s.execute(map[string]any{"language": "bash", "code": "cat state.txt"}); other.Status != "error" {
				t.Errorf("another session sees it: %+v", other)
			}
			if got := s.do("DELETE", "/api/v1/sessions/"+session.ID, ""); got.status/100 != 2 {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := s.do("GET", "/api/v1/sessions/"+session.ID, ""); got.status != 404 {
				t.Errorf("after delete: %d", got.status)
			}
		})
	}
}

// Whatever is wrong with a request, the answer says so, and the next request
// works.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who), "--max-upload", "1KiB")
	const unknown = "AAAAAAAAAAAAAAAAAAAAA"
	tests := []struct {
		method, path, body string
		status             []int
	}{
		{"GET", "/api/v1/runs/" + unknown, "", []int{404}},
		{"GET", "/api/v1/runs/nonsense", "", []int{404}},
		{"GET", "/api/v1/runs/" + unknown + "/events", "", []int{404}},
		{"GET", "/api/v1/files/" + unknown, "", []int{404}},
		{"GET", "/api/v1/files/" + unknown + "/content", "", []int{404}},
		{"GET", "/api/v1/sessions/" + unknown, "", []int{404}},
		{"GET", "/api/v1/nothing", "", []int{404}},
		{"PUT", "/api/v1/runs", "{}", []int{405}},
		{"POST", "/api/v1/runs", "{", []int{400}},
		{"POST", "/api/v1/runs", `{"language":"python"}`, []int{400, 422}},
		{"POST", "/api/v1/runs", `{"language":"klingon","code":"x"}`, []int{400, 422}},
		{"POST", "/api/v1/runs", `{"language":"python","code":1}`, []int{400, 422}},
		{"POST", "/api/v1/runs", `{"language":"python","code":"x","timeout_ms":-1}`, []int{400, 422}},
		{"POST", "/api/v1/runs", `{"language":"python","code":"x","timeout_ms":99999999}`, []int{400, 422}},
		{"POST", "/api/v1/runs", `{"language":"python","code":"x","files":[{"id":"` + unknown + `"}]}`, []int{404}},
		{"POST", "/api/v1/runs", `{"language":"python","code":"x","session":"` + unknown + `"}`, []int{404}},
		{"POST", "/api/v1/files?name=big", strings.Repeat("x", 4096), []int{413}},
	}
	for _, test := range tests {
		got := s.do(test.method, test.path, test.body)
		var said refusal
		if err := json.Unmarshal(got.body, &said); err != nil || !slices.Contains(test.status, got.status) ||
			said.Error.Code == "" || said.Error.Message == "" || said.Error.Request == "" {
			t.Errorf("%s %s %.60s: %d %s", test.method, test.path, test.body, got.status, got.body)
		}
	}
	f := s.upload("a.txt", "x")
	for _, path := range []string{"../a", "/etc/passwd", "a/../../b", "a\u0000b"} {
		body, _ := json.Marshal(map[string]any{"language": "bash", "code": "true",
			"files": []map[string]string{{"id": f.ID, "path": path}}})
		if got := s.do("POST", "/api/v1/runs", string(body)); got.status != 400 && got.status != 422 {
			t.Errorf("path %q: %d %s", path, got.status, got.body)
		}
	}
	if r := s.execute(python("print('still here')")); r.Stdout != "still here\n" {
		t.Errorf("got %+v", r)
	}
}

// The run of a client that leaves dies: `make numbers` says how soon.
func TestClientLeaves(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	for _, streaming := range []bool{true, false} {
		word := fmt.Sprintf("leaves-%s-%v-%d", who.name, streaming, os.Getpid())
		// Bash starts cold: its arguments are on its command line.
		body, _ := json.Marshal(map[string]any{"language": "bash", "code": "echo up\nsleep 120", "args": []string{word}})
		var leave func()
		if streaming {
			events := s.stream("POST", "/api/v1/runs", string(body))
			events.until("output", "up")
			leave = func() { events.body.Close() }
		} else {
			leave = s.begin(string(body))
		}
		eventually(t, waitTime, "the program runs", func() bool { return len(withWord(word)) > 0 })
		leave()
		eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(word)) == 0 })
		eventually(t, waitTime, "the run is recorded as cancelled", func() bool {
			return bytes.Contains(s.do("GET", "/api/v1/runs", "").body, []byte(`"cancelled"`))
		})
	}
	if r := s.execute(python("print(2)")); r.Stdout != "2\n" {
		t.Errorf("the next run: %+v", r)
	}
}

// begin sends a request that waits for its run, and returns what gives it up.
func (s *service) begin(body string) (leave func()) {
	ctx, leave := context.WithCancel(s.t.Context())
	req := s.request("POST", "/api/v1/runs", body).WithContext(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	s.t.Cleanup(func() { leave(); <-done })
	return leave
}
