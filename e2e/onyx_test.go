package e2e

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// execution is the answer of the Onyx dialect.
type execution struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode *int   `json:"exit_code"`
	TimedOut bool   `json:"timed_out"`
	Files    []struct {
		Path   string `json:"path"`
		Kind   string `json:"kind"`
		FileID string `json:"file_id"`
	} `json:"files"`
}

func (x execution) paths() string {
	var list []string
	for _, f := range x.Files {
		list = append(list, f.Path)
	}
	return strings.Join(list, " ")
}

// onyx sends JSON to the Onyx dialect and expects that answer.
func (s *service) onyx(method, path string, status int, body any, to any) answer {
	s.t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		text = string(raw)
	}
	got := s.do(method, "/onyx"+path, text)
	if got.status != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, got.status, status, got.body)
	}
	if to != nil {
		got.decode(s.t, to)
	}
	return got
}

func (s *service) onyxRun(code string, more map[string]any) execution {
	s.t.Helper()
	body := map[string]any{"code": code, "timeout_ms": 20_000}
	for name, value := range more {
		body[name] = value
	}
	var x execution
	s.onyx("POST", "/v1/execute", 200, body, &x)
	return x
}

func (s *service) onyxUpload(name, content string) string {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {
		`form-data; name="file"; filename="` + name + `"`}})
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	got := s.do("POST", "/onyx/v1/files", body.String(), "Content-Type", form.FormDataContentType())
	if got.status != http.StatusCreated {
		s.t.Fatalf("upload: %d %s", got.status, got.body)
	}
	var f struct {
		ID string `json:"file_id"`
	}
	got.decode(s.t, &f)
	return f.ID
}

func TestOnyxPrograms(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		health := s.onyx("GET", "/health", 200, nil, nil)
		if string(health.body) != `{"status":"ok","message":null,"version":"0.4.7","executor_backend":"linux","network_isolation":"network_namespace"}` {
			t.Errorf("health: %s", health.body)
		}
		for name, test := range map[string]struct{ code, stdout, stderr string }{
			"last expression":      {"1 + 1\n2 + 2", "4\n", ""},
			"prints and last":      {"print('a')\n'b'", "a\n'b'\n", ""},
			"none":                 {"None", "", ""},
			"assignment":           {"x = 5", "", ""},
			"error before the end": {"print('kept')\n1/0\n2", "kept\n", "ZeroDivisionError"},
			"names of our own": {"tree = 1\nast = 2\nexec = compile = isinstance = None\nnode = code_obj = 3\ntree", "1\n",
				""},
			"clean globals": {"sorted(k for k in globals() if not k.startswith('__'))", "[]\n", ""},
			"who am I":      {"(__name__, __file__)", "('__main__', '/workspace/__main__.py')\n", ""},
			"source line": {"x = 1\n\ndef f():\n    return [][x]\nf()", "",
				"File \"/workspace/__main__.py\", line 4, in f\n    return [][x]"},
			"syntax error": {"x = 1\nif x\n    pass", "", "File \"/workspace/__main__.py\", line 2"},
			"future carries on": {"from __future__ import annotations\ndef f(x: nowhere): pass\nf.__annotations__",
				"{'x': 'nowhere'}\n", ""},
			"multi-line string":     {"x = '''a\n  b\n\nc'''\nx", "'a\\n  b\\n\\nc'\n", ""},
			"a trailing semicolon":  {"1; 2;", "2\n", ""},
			"stdin ends at once":    {"import sys\nsys.stdin.read()", "''\n", ""},
			"exit with a text":      {"import sys\nsys.exit('bye')", "", "bye\n"},
			"its home, and its cwd": {"import os\nos.environ['HOME'], os.getcwd()", "('/', '/workspace')\n", ""},
		} {
			x := s.onyxRun(test.code, nil)
			if x.Stdout != test.stdout || !strings.Contains(x.Stderr, test.stderr) || test.stderr == "" && x.Stderr != "" ||
				x.TimedOut || len(x.Files) > 0 {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if x := s.onyxRun("2 + 2", map[string]any{"last_line_interactive": false, "stdin": "x"}); x.Stdout != "" {
			t.Errorf("not interactive: %+v", x)
		}
	})
}

func TestOnyxFilesOfPrograms(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	id := s.onyxUpload("日本 Übersicht.csv", "1,2")
	x := s.onyxRun(`
import os, pathlib
def write(name, text='x', mode=None):
    pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(name).write_text(text)
    if mode is not None: os.chmod(name, mode)
write('.hidden'); write('.cfg/y'); write('private', mode=0o600); write('none', mode=0)
write('dir/inner'); os.chmod('dir', 0o700)
write('linked'); os.link('linked', 'twin'); os.symlink('linked', 'link'); os.mkfifo('pipe'); os.mkdir('empty')
write('sub/__main__.py'); write('日本.csv', 'héllo')
open(b'bad\xff.txt', 'w').close()
open('in/changed.csv').read()
None
`, map[string]any{"files": []map[string]string{{"path": "./in//same.csv", "file_id": id}, {"path": "in/changed.csv", "file_id": id}}})
	if x.ExitCode == nil || *x.ExitCode != 0 {
		t.Fatalf("%+v", x)
	}
	want := ".cfg/y .hidden bad%FF.txt dir/inner linked none private sub/__main__.py twin 日本.csv"
	if x.paths() != want {
		t.Errorf("got %s\nwant %s\n%s", x.paths(), want, x.Stderr)
	}
	if x.Stderr != "" { // links and pipes are not expected back
		t.Errorf("stderr: %q", x.Stderr)
	}
	last := x.Files[len(x.Files)-1]
	got := s.onyx("GET", "/v1/files/"+last.FileID, 200, nil, nil)
	if d := got.header.Get("Content-Disposition"); string(got.body) != "héllo" ||
		!strings.Contains(d, "filename*=UTF-8''%E6%97%A5%E6%9C%AC.csv") {
		t.Errorf("%q %q", d, got.body)
	}
	if got := s.onyx("GET", "/v1/files/"+id, 200, nil, nil); string(got.body) != "1,2" {
		t.Errorf("the input: %q", got.body)
	}
	s.onyx("GET", "/v1/files", 200, nil, nil)

	// A limit ends a program with a word about it, and what it had is kept.
	x = s.onyxRun("open('part', 'w').write('1')\nprint('begun', flush=True)\nimport time\ntime.sleep(60)",
		map[string]any{"timeout_ms": 1000})
	if !x.TimedOut || x.ExitCode != nil || x.Stdout != "begun\n" || x.paths() != "part" ||
		!strings.Contains(x.Stderr, "longer than 1 s") {
		t.Errorf("timeout: %+v", x)
	}
}

func TestOnyxLimits(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	// Under the names that Onyx's operators know.
	s := serveWith(t, who, dataWithoutPackages(t, who), []string{
		"CPU_TIME_LIMIT_SEC=1", "MEMORY_LIMIT_MB=128", "MAX_EXEC_TIMEOUT_MS=20000", "MAX_FILE_SIZE_MB=1"})
	x := s.onyxRun("while True: pass", nil)
	if x.TimedOut || x.ExitCode == nil || *x.ExitCode != 137 || !strings.Contains(x.Stderr, "processor time") {
		t.Errorf("processor time: %+v", x)
	}
	x = s.onyxRun("x = bytearray(600 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1", nil)
	if x.TimedOut || x.ExitCode == nil || *x.ExitCode == 0 ||
		!strings.Contains(x.Stderr, "memory") && !strings.Contains(x.Stderr, "MemoryError") {
		t.Errorf("memory: %+v", x)
	}
	s.onyx("POST", "/v1/execute", 422, map[string]any{"code": "", "timeout_ms": 20_001}, nil)
	got := s.do("POST", "/onyx/v1/files", "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n"+
		strings.Repeat("x", 3<<20)+"\r\n--B--\r\n", "Content-Type", "multipart/form-data; boundary=B")
	if got.status != 413 || string(got.body) != `{"detail":"File size exceeds maximum of 1 MB"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	if x := s.onyxRun("print('still here')", nil); x.Stdout != "still here\n" {
		t.Errorf("%+v", x)
	}
}

func TestOnyxSessions(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	data := dataWithoutPackages(t, who)
	s := serve(t, who, data)
	id := s.onyxUpload("a.txt", "hello")
	var made struct {
		ID      string  `json:"session_id"`
		Expires float64 `json:"expires_at"`
	}
	s.onyx("POST", "/v1/sessions", 201, map[string]any{"files": []map[string]string{{"path": "d/a.txt", "file_id": id}}},
		&made)
	if left := time.Until(time.Unix(int64(made.Expires), 0)); left < 10*time.Minute || left > 16*time.Minute {
		t.Errorf("expires in %v", left)
	}
	path := "/v1/sessions/" + made.ID
	bash := func(cmd string, timeout int) execution {
		t.Helper()
		var x execution
		s.onyx("POST", path+"/bash", 200, map[string]any{"cmd": cmd, "timeout_ms": timeout}, &x)
		return x
	}
	x := bash("cat d/a.txt; pwd; cat; cd /tmp; export A=1; echo kept > f 2>&1; echo kept > /workspace/f; exit 3", 20_000)
	if x.Stdout != "hello/workspace\n" || x.ExitCode == nil || *x.ExitCode != 3 {
		t.Errorf("%+v", x)
	}
	if x := bash("pwd; echo $A; cat f; touch /workspace/late", 20_000); x.Stdout != "/workspace\n\nkept\n" {
		t.Errorf("%+v", x)
	}
	// On a timeout the whole tree goes, what left its group and session included.
	x = bash("setsid sleep 86413 & (trap '' TERM; sleep 86413) & sleep 86413", 1000)
	if !x.TimedOut || x.ExitCode != nil || !strings.Contains(x.Stderr, "longer than 1 s") {
		t.Errorf("%+v", x)
	}
	eventually(t, waitTime, "the tree is gone", func() bool { return len(withWord("86413")) == 0 })
	if x := bash("tar --version | head -1; command -v gzip grep find sed", 20_000); *x.ExitCode != 0 {
		t.Errorf("%+v", x)
	}
	if got := s.onyx("GET", "/v1/files", 200, nil, nil); strings.Count(string(got.body), "file_id") != 1 {
		t.Errorf("files of a session are kept: %s", got.body)
	}

	// Its files outlive a restart, also many of them, and what was removed stays so; its programs
	// do not, and it says so once.
	bash("mkdir deep; for i in $(seq 3500); do echo $i > deep/$i; done; rm d/a.txt; sleep 86412 >/dev/null 2>&1 &", 60_000)
	s.stop()
	s = serve(t, who, data)
	x = bash("cat f; ls deep | wc -l; cat deep/3500; ls d", 60_000)
	if !strings.HasPrefix(x.Stdout, "kept\n3500\n3500\n") || strings.Contains(x.Stdout, "a.txt") ||
		!strings.Contains(x.Stderr, "in a restart of the service") {
		t.Errorf("after a restart: %+v", x)
	}
	if x := bash("cat f", 20_000); x.Stdout != "kept\n" || x.Stderr != "" {
		t.Errorf("%+v", x)
	}
	s.onyx("DELETE", path, 204, nil, nil)
	s.onyx("DELETE", path, 404, nil, nil)
	s.onyx("POST", "/v1/sessions", 201, map[string]any{"ttl_seconds": 1}, &made)
	path = "/v1/sessions/" + made.ID
	s.onyx("POST", path+"/bash", 200, map[string]any{"cmd": "true"}, nil)
	eventually(t, waitTime, "its time is over", func() bool {
		return s.do("DELETE", "/onyx"+path, "").status == 404 ||
			s.do("POST", "/onyx/v1/sessions/"+made.ID+"/bash", `{"cmd":"true"}`).status == 404
	})
}
