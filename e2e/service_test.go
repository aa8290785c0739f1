package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitTime is how long a test waits for what must come soon, on a machine
// that is busy with other tests.
const waitTime = 2 * time.Minute

// service is a running `airlock serve`.
type service struct {
	t    *testing.T
	who  person
	url  string
	data string
	cmd  *exec.Cmd
	log  *lines
	dead chan struct{} // closed when it has ended
}

// lines collects output that is written while it is read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var address = regexp.MustCompile(`http://(127\.0\.0\.1|10\.213\.7\.1):[0-9]+`)

// serve starts a service on a free port, and waits until it says where.
func serve(t *testing.T, who person, data string, args ...string) *service {
	t.Helper()
	return serveWith(t, who, data, nil, args...)
}

// serveWith is serve with settings in the environment.
func serveWith(t *testing.T, who person, data string, env []string, args ...string) *service {
	t.Helper()
	return launch(t, who, data, who.command(t, env, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"},
		args...)...))
}

// launch starts a service that is prepared.
func launch(t *testing.T, who person, data string, cmd *exec.Cmd) *service {
	t.Helper()
	s := &service{t: t, who: who, data: data, log: &lines{}, dead: make(chan struct{}), cmd: cmd}
	s.cmd.Stderr = s.log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		defer close(s.dead)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			s.log.Write(append(scanner.Bytes(), '\n'))
			if url := address.FindString(scanner.Text()); url != "" && len(found) == 0 {
				found <- url
			}
		}
		_ = s.cmd.Wait() // ProcessState says how
	}()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("the service said:\n%s", s.log)
		}
	})
	select {
	case s.url = <-found:
	case <-s.dead:
		t.Fatalf("the service ended at once with %d:\n%s", s.cmd.ProcessState.ExitCode(), s.log)
	case <-time.After(waitTime):
		t.Fatalf("the service does not say where it listens:\n%s", s.log)
	}
	return s
}

func (s *service) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
}

// wait returns the exit code.
func (s *service) wait() int {
	s.t.Helper()
	select {
	case <-s.dead:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(waitTime):
		s.t.Fatalf("the service does not end:\n%s", s.log)
		return -1
	}
}

// stop ends the service as an operator who is in a hurry would.
func (s *service) stop() {
	select {
	case <-s.dead:
		return
	default:
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.dead:
	case <-time.After(waitTime):
		s.t.Error("the service had to be killed")
		_ = s.cmd.Process.Kill()
		<-s.dead
	}
}

// answer is an HTTP answer, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) decode(t *testing.T, to any) {
	t.Helper()
	if err := json.Unmarshal(a.body, to); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
}

// do sends a request like curl would. Headers come in pairs.
func (s *service) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	resp, err := http.DefaultClient.Do(s.request(method, path, body, headers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, content}
}

func (s *service) request(method, path, body string, headers ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// run is a run as the API shows it.
type run struct {
	ID       string `json:"id"`
	Session  string `json:"session"`
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Files    []file `json:"files"`
}

type file struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	MIME   string `json:"mime"`
	SHA256 string `json:"sha256"`
}

// execute runs a program and expects a finished run.
func (s *service) execute(request map[string]any) run {
	s.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	got := s.do("POST", "/api/v1/runs", string(body))
	if got.status != http.StatusOK && got.status != http.StatusCreated {
		s.t.Fatalf("%d: %s", got.status, got.body)
	}
	var r run
	got.decode(s.t, &r)
	return r
}

func python(code string, args ...string) map[string]any {
	return map[string]any{"language": "python", "code": code, "args": args}
}

// refusal is the body of an error.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
		Request string `json:"request_id"`
	} `json:"error"`
}

// event is one of a run's, as it came over the wire.
type event struct {
	id, name string
	data     map[string]any
}

// stream is an open run.
type stream struct {
	t       *testing.T
	body    io.ReadCloser
	scanner *bufio.Scanner
}

// stream starts a run, or watches one, event by event.
func (s *service) stream(method, path, body string, headers ...string) *stream {
	s.t.Helper()
	events, refused := s.tryStream(method, path, body, headers...)
	if events == nil {
		s.t.Fatal(refused)
	}
	return events
}

// tryStream is stream where a service may refuse: then it returns what that says.
func (s *service) tryStream(method, path, body string, headers ...string) (events *stream, refused string) {
	s.t.Helper()
	resp, err := http.DefaultClient.Do(s.request(method, path, body, append(headers, "Accept", "text/event-stream")...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK ||
		!strings.HasPrefix(kind, "text/event-stream") {
		content, _ := io.ReadAll(resp.Body)
		return nil, fmt.Sprintf("%d %s: %s", resp.StatusCode, kind, content)
	}
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, 8<<20)
	return &stream{s.t, resp.Body, scanner}, ""
}

// next returns the next event, or false at the end.
func (s *stream) next() (event, bool) {
	s.t.Helper()
	var e event
	var data strings.Builder
	for s.scanner.Scan() {
		line := s.scanner.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && e.name != "":
			if err := json.Unmarshal([]byte(data.String()), &e.data); err != nil {
				s.t.Fatalf("%v in %q", err, data.String())
			}
			return e, true
		case field == "event":
			e.name = value
		case field == "id":
			e.id = value
		case field == "data":
			data.WriteString(value)
		}
	}
	return event{}, false
}

// until reads events up to one of that name whose data holds a text.
func (s *stream) until(name, text string) event {
	s.t.Helper()
	for e, ok := s.next(); ok; e, ok = s.next() {
		if e.name != name {
			continue
		}
		if raw, _ := json.Marshal(e.data); text == "" || strings.Contains(string(raw), text) {
			return e
		}
	}
	s.t.Fatalf("the stream ended without %s %q: %v", name, text, s.scanner.Err())
	return event{}
}

// eventually asks until the answer is yes, and says what was awaited if it
// never is.
func eventually(t *testing.T, within time.Duration, what string, yes func() bool) {
	t.Helper()
	deadline := time.After(within)
	for wait := 5 * time.Millisecond; !yes(); wait = min(wait*5/4, 200*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-deadline:
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
