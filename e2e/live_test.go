package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cell is a cell as the API shows it.
type cell struct {
	ID        string
	Count     int `json:"execution_count"`
	Status    string
	Outputs   []cellOutput
	Files     []file
	Restarted bool
	Message   string
}

type cellOutput struct {
	Type, Text, Name string
	Data             map[string]json.RawMessage
}

// text joins what a cell wrote, and the plain text of its values.
func (c cell) text() string {
	var b strings.Builder
	for _, o := range c.Outputs {
		b.WriteString(o.Text)
		var plain string
		if json.Unmarshal(o.Data["text/plain"], &plain) == nil {
			b.WriteString(plain + "\n")
		}
	}
	return b.String()
}

// liveOf is a session with an interpreter.
type liveOf struct {
	*service
	path string // of the session
	as   []string
}

// live makes a live session; header are those of every request to it.
func (s *service) live(request string, header ...string) *liveOf {
	s.t.Helper()
	got := s.do("POST", "/api/v1/sessions", request, header...)
	var session struct{ ID, Kind, Language string }
	if got.status != http.StatusCreated {
		s.t.Fatalf("%d: %s", got.status, got.body)
	}
	got.decode(s.t, &session)
	if session.Kind != "live" || session.Language == "" {
		s.t.Errorf("%s", got.body)
	}
	return &liveOf{s, "/api/v1/sessions/" + session.ID, header}
}

func (l *liveOf) ask(method, path, body string) answer {
	l.t.Helper()
	return l.do(method, l.path+path, body, l.as...)
}

func codeBody(code string) string {
	text, _ := json.Marshal(map[string]string{"code": code}) // it cannot fail
	return string(text)
}

// cell runs a piece of code to its end.
func (l *liveOf) cell(code string) cell {
	l.t.Helper()
	var c cell
	got := l.ask("POST", "/cells", codeBody(code))
	if got.status != http.StatusOK {
		l.t.Fatalf("%d: %s", got.status, got.body)
	}
	got.decode(l.t, &c)
	return c
}

// expect runs a piece of code and wants it to say something.
func (l *liveOf) expect(code, want string) cell {
	l.t.Helper()
	c := l.cell(code)
	if c.Status != "ok" || c.text() != want {
		l.t.Errorf("%q: %s %q, want %q: %+v", code, c.Status, c.text(), want, c)
	}
	return c
}

// Variables, functions and the folder stay from cell to cell, and sessions share
// nothing.
func TestLiveVariablesStay(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataFolder(t, who))
		for lang, cells := range map[string][][2]string{
			"python": {{"x = 41\ndef f(n): return n + 1", ""}, {"f(x)", "42\n"}, {"print(_)", "42\n"},
				{"import asyncio\nawait asyncio.sleep(0, 'late')", "'late'\n"}},
			"javascript": {{"const x = 41; function f(n) { return n + 1 }", ""}, {"f(x)", "42\n"},
				{"console.log(await Promise.resolve('late'))", "late\n"}},
			"bash": {{"x=41; f() { echo $(($1 + 1)); }; mkdir -p d; cd d", ""}, {"f $x; basename $PWD", "42\nd\n"}},
		} {
			t.Run(lang, func(t *testing.T) {
				l := s.live(`{"kind":"live","language":"` + lang + `"}`)
				for i, c := range cells {
					got := l.cell(c[0])
					if got.Status != "ok" || i > 0 && got.text() != c[1] || got.Count != i+1 || got.Restarted {
						t.Errorf("%q: %+v, want %q", c[0], got, c[1])
					}
				}
				if other := s.live(`{"kind":"live","language":"` + lang + `"}`).cell("f(x)"); other.Status != "error" &&
					!strings.Contains(other.text(), "not") {
					t.Errorf("another session has the variables: %+v", other)
				}
			})
		}
	})
}

// A figure is shown at the end of its cell, and files are stored.
func TestLivePlot(t *testing.T) {
	t.Parallel()
	needPackages(t)
	who := root(t)
	l := serve(t, who, dataWithPackages(t, who)).live(`{"kind":"live"}`)
	l.cell("import matplotlib.pyplot as plt")
	got := l.cell("plt.plot([1, 2, 3])\nopen('made.txt', 'w').write('made')\nNone")
	at := slices.IndexFunc(got.Outputs, func(o cellOutput) bool { return o.Type == "display" })
	if got.Status != "ok" || at < 0 || !strings.HasPrefix(string(got.Outputs[at].Data["image/png"]), `"iVBORw0KGgo`) {
		t.Errorf("%+v", got)
	}
	if len(got.Files) != 1 || got.Files[0].Path != "made.txt" {
		t.Fatalf("files %+v", got.Files)
	}
	if made := l.do("GET", "/api/v1/files/"+got.Files[0].ID+"/content", ""); string(made.body) != "made" {
		t.Errorf("%d %q", made.status, made.body)
	}
}

// An interrupt ends the cell and nothing else.
func TestLiveInterrupt(t *testing.T) {
	t.Parallel()
	who := root(t)
	l := serve(t, who, dataFolder(t, who)).live(`{"kind":"live"}`)
	l.cell("x = 1")
	events := l.stream("POST", l.path+"/cells", codeBody("print('up', flush=True)\nwhile True: pass"))
	events.until("stdout", "up")
	if got := l.ask("POST", "/interrupt", ""); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
	if done := events.until("done", ""); done.data["status"] != "interrupted" {
		t.Errorf("%v", done.data)
	}
	l.expect("x", "1\n")
}

// Whoever goes on after an interpreter was lost is told, once; the files are there.
func TestLiveRestartIsTold(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	data := dataFolder(t, who)
	s := serve(t, who, data)
	l := s.live(`{"kind":"live","limits":{"memory_bytes":134217728}}`)
	for name, end := range map[string]func(){
		"os._exit": func() { l.cell("import os; os._exit(3)") },
		"memory":   func() { l.cell("b'x' * (1 << 30)") },
		"restart":  func() { l.ask("POST", "/restart", "") },
	} {
		if name == "memory" && who.credential != nil {
			continue // without control groups it is a MemoryError, which the variables survive
		}
		l.cell("x = 1; open('kept.txt', 'w').write('kept'); None")
		end()
		got := l.cell("print(open('kept.txt').read(), 'x' in globals())")
		if got.Status != "ok" || got.text() != "kept False\n" || !got.Restarted || got.Message == "" {
			t.Errorf("after %s: %+v", name, got)
		}
		if again := l.cell("1"); again.Restarted {
			t.Errorf("after %s it is told twice: %+v", name, again)
		}
	}
}

// Two clients see the same events of a cell, and one that comes back goes on where
// it was.
func TestLiveTwoWatchers(t *testing.T) {
	t.Parallel()
	who := root(t)
	l := serve(t, who, dataFolder(t, who)).live(`{"kind":"live"}`)
	var started cell
	body, _ := json.Marshal(map[string]any{"code": "for i in range(3): print(i, flush=True)\ninput('more? ')",
		"input": true, "wait": false})
	got := l.ask("POST", "/cells", string(body))
	if got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got.decode(t, &started)
	path := l.path + "/cells/" + started.ID + "/events"
	one, other := l.stream("GET", path, ""), l.stream("GET", path, "")
	one.until("input", "more? ")
	if got := l.ask("POST", "/input", `{"text":"yes"}`); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	one.until("result", "yes")
	one.until("done", "ok")
	var all []event
	for e, ok := other.next(); ok; e, ok = other.next() {
		all = append(all, e)
	}
	names := []string{}
	for _, e := range all {
		if len(names) == 0 || names[len(names)-1] != e.name {
			names = append(names, e.name)
		}
	}
	if diff := cmp.Diff([]string{"started", "stdout", "input", "result", "done"},
		slices.DeleteFunc(names, func(n string) bool { return n == "stdout" && slices.Index(names, n) > 1 })); diff != "" {
		t.Error(diff)
	}
	again := l.stream("GET", path, "", "Last-Event-ID", all[len(all)-2].id)
	if last, ok := again.next(); !ok || last.name != "done" {
		t.Errorf("%v", last)
	}
	if _, more := again.next(); more {
		t.Error("events after the last")
	}
}

// briefly ends a service soon, although processes run in its sessions.
var briefly = []string{"--drain-time", "1s"}

// liveProcess is a process as the API shows it.
type liveProcess struct {
	ID       string
	Running  bool
	ExitCode *int `json:"exit_code"`
}

func (l *liveOf) start(request map[string]any) liveProcess {
	l.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		l.t.Fatal(err)
	}
	got := l.ask("POST", "/processes", string(body))
	if got.status != http.StatusCreated {
		l.t.Fatalf("%d %s", got.status, got.body)
	}
	var p liveProcess
	got.decode(l.t, &p)
	return p
}

// A process has a terminal, takes what is typed, and can be followed from anywhere.
func TestLiveProcess(t *testing.T) {
	t.Parallel()
	who := root(t)
	l := serve(t, who, dataFolder(t, who), briefly...).live(`{"kind":"live","language":"bash"}`)
	p := l.start(map[string]any{"shell": "stty size; read x; stty size; echo got-$x; exit 7",
		"pty": map[string]int{"cols": 100, "rows": 30}})
	path := "/processes/" + p.ID
	events := l.stream("GET", l.path+path+"/events", "")
	first := events.until("terminal", "30 100")
	if got := l.ask("POST", path+"/resize", `{"cols":60,"rows":20}`); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := l.ask("POST", path+"/input", "hi\n"); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
	if end := events.until("exit", ""); end.data["exit_code"] != 7.0 || end.data["running"] != false {
		t.Errorf("%v", end.data)
	}
	var rest strings.Builder
	again := l.stream("GET", l.path+path+"/events", "", "Last-Event-ID", first.id)
	for e, ok := again.next(); ok; e, ok = again.next() {
		text, _ := e.data["text"].(string)
		rest.WriteString(text)
	}
	if got := rest.String(); !strings.Contains(got, "20 60") || !strings.Contains(got, "got-hi") ||
		strings.Contains(got, "30 100") {
		t.Errorf("from %s on: %q", first.id, got)
	}

	sleeper := l.start(map[string]any{"argv": []string{"sleep", "1000"}})
	if got := l.ask("POST", "/processes/"+sleeper.ID+"/signal", `{"signal":"TERM"}`); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
	l.stream("GET", l.path+"/processes/"+sleeper.ID+"/events", "").until("exit", "SIGTERM")
}

// A server in a session is reached through its port, by its owner alone, and its
// pages are kept from ours.
func TestLivePort(t *testing.T) {
	t.Parallel()
	who := root(t)
	data := dataFolder(t, who)
	env := []string{"AIRLOCK_DATA=" + data}
	s := serve(t, who, data, briefly...)
	mine, theirs := newKey(t, who, env, "alice"), newKey(t, who, env, "bob")
	l := s.live(`{"kind":"live"}`, "X-API-Key", mine)
	l.cell("open('index.html', 'w').write('<script>hello</script>'); None")
	l.start(map[string]any{"argv": []string{"python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"}})
	var got answer
	eventually(t, waitTime, "the server answers", func() bool {
		got = l.ask("GET", "/ports/8000/index.html", "")
		return got.status == http.StatusOK
	})
	policy := got.header.Get("Content-Security-Policy")
	if string(got.body) != "<script>hello</script>" || !strings.HasPrefix(policy, "sandbox") ||
		strings.Contains(policy, "same-origin") {
		t.Errorf("%q %v", got.body, got.header)
	}
	if got := s.do("GET", l.path+"/ports/8000/index.html", "", "X-API-Key", theirs); got.status != http.StatusNotFound {
		t.Errorf("bob gets %d %s", got.status, got.body)
	}
	if got := s.do("GET", l.path+"/ports/8000/index.html", "", "X-API-Key", mine, "Origin",
		"https://evil.example"); got.status != http.StatusForbidden {
		t.Errorf("a page of another site gets %d", got.status)
	}
	listed := `{"ports":[{"port":8000,"path":"/api/v1` + strings.TrimPrefix(l.path, "/api/v1") + `/ports/8000/"}]}`
	if got := l.ask("GET", "/ports", ""); strings.TrimSpace(string(got.body)) != listed {
		t.Errorf("its ports: %d %s, want %s", got.status, got.body, listed)
	}
	if got := l.ask("GET", "/ports/8001/", ""); got.status != http.StatusConflict {
		t.Errorf("where nothing listens: %d %s", got.status, got.body)
	}
}

func newKey(t *testing.T, who person, env []string, owner string) string {
	t.Helper()
	made := who.run(t, env, "keys", "create", "--owner", owner, "--json")
	var key struct{ Token string }
	if err := json.Unmarshal([]byte(made.stdout), &key); err != nil || key.Token == "" {
		t.Fatalf("%+v %v", made, err)
	}
	return key.Token
}

// Files are read, written and watched while code runs.
func TestLiveFiles(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	l := serve(t, who, dataFolder(t, who)).live(`{"kind":"live"}`)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/fs/write?path=d/a.txt", "0123456789", 200, `"size":10`},
		{"GET", "/fs/stat?path=d/a.txt", "", 200, `"kind":"file"`},
		{"GET", "/fs/list?depth=2", "", 200, `"d/a.txt"`},
		{"GET", "/fs/read?path=d/a.txt", "", 200, "0123456789"},
		{"POST", "/fs/mkdir?path=e/f", "", 200, `"kind":"folder"`},
		{"POST", "/fs/move?from=d/a.txt&to=e/b.txt", "", 200, `"e/b.txt"`},
		{"POST", "/fs/remove?path=e", "", 409, "does not allow that: e\""},
		{"POST", "/fs/move?from=no%0a&to=x", "", 404, `no such object: \"no\\n\"`},
		{"POST", "/fs/move?from=e/b.txt&to=no/b", "", 404, "no such object: no/b\""},
		{"POST", "/fs/move?from=e/b.txt&to=e/b.txt", "", 409, "does not allow that: e/b.txt\""},
		{"GET", "/fs/read?path=../etc/passwd", "", 400, "path ../etc/passwd "},
		{"GET", "/fs/read?path=e", "", 400, "path e "},
		{"GET", "/fs/list?path=/etc/passwd", "", 400, "path /etc/passwd "},
		{"GET", "/fs/read?path=d/a.txt", "", 404, "no such object: d/a.txt\""},
		{"GET", "/fs/stat?path=/workspace/d/a.txt", "", 404, "no such object: /workspace/d/a.txt\""},
		{"GET", "/fs/list?path=/usr/none", "", 404, "no such object: /usr/none\""},
		{"GET", "/ports/8099/", "", 409, "does not allow that: port 8099 of session "},
	} {
		if got := l.ask(c.method, c.path, c.body); got.status != c.status || !strings.Contains(string(got.body), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
	changes := l.stream("GET", l.path+"/fs/watch?recursive=true", "")
	l.expect("print(open('e/b.txt').read())\nopen('e/c.txt', 'w').write('new')\nNone", "0123456789\n")
	changes.until("created", "e/c.txt")
	changes.body.Close()
	if got := l.ask("POST", "/fs/remove?path=e&recursive=true", ""); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Another owner's session is not there, on every verb that there is.
func TestLiveForeign(t *testing.T) {
	t.Parallel()
	who := root(t)
	data := dataFolder(t, who)
	s := serve(t, who, data, briefly...)
	env := []string{"AIRLOCK_DATA=" + data}
	alice, bob := newKey(t, who, env, "alice"), newKey(t, who, env, "bob")
	l := s.live(`{"kind":"live"}`, "X-API-Key", alice)
	c := l.cell("x = 1")
	p := l.start(map[string]any{"argv": []string{"sleep", "1000"}})
	const code = `{"code":"x"}`
	for _, call := range []string{
		"POST /cells " + code, "GET /cells", "GET /cells/CELL", "DELETE /cells/CELL", "GET /cells/CELL/events",
		"POST /interrupt", "POST /restart",
		`POST /input {"text":"x"}`, "POST /complete " + code, "POST /inspect " + code, "POST /is_complete " + code,
		"GET /variables",
		`POST /processes {"shell":"ls"}`, "GET /processes", "GET /processes/PROCESS", "DELETE /processes/PROCESS",
		"GET /processes/PROCESS/events",
		"POST /processes/PROCESS/input x", `POST /processes/PROCESS/signal {"signal":"KILL"}`,
		`POST /processes/PROCESS/resize {"cols":1,"rows":1}`,
		"GET /fs/stat", "GET /fs/list", "GET /fs/read?path=x", "GET /fs/watch", "POST /fs/write?path=x x",
		"POST /fs/mkdir?path=x", "POST /fs/move?from=x&to=y",
		"POST /fs/remove?path=x", "GET /ports/8000/", "POST /ports/8000/", "DELETE /ports/8000/", "GET ", "DELETE ",
	} {
		method, rest, _ := strings.Cut(strings.NewReplacer("CELL", c.ID, "PROCESS", p.ID).Replace(call), " ")
		path, body, _ := strings.Cut(rest, " ")
		if got := s.do(method, l.path+path, body, "X-API-Key", bob); got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", call, got.status, got.body)
		}
	}
	l.expect("x", "1\n")
	var still liveProcess
	l.ask("GET", "/processes/"+p.ID, "").decode(t, &still)
	if !still.Running {
		t.Error("bob ended a process of alice")
	}
}

// A cell that is not text, or much text, has an answer, and the next one works.
func TestLiveOddCells(t *testing.T) {
	t.Parallel()
	who := root(t)
	l := serve(t, who, dataFolder(t, who)).live(`{"kind":"live"}`)
	for name, c := range map[string]struct {
		body   string
		status []int
	}{
		"10 MB of a comment": {codeBody("#" + strings.Repeat("x", 10<<20)), []int{200, 413}},
		"NULs":               {codeBody("print(1)\x00\x00"), []int{200, 400}},
		"half a surrogate":   {`{"code":"'\ud800'"}`, []int{400}},
		"a number":           {`{"code":1}`, []int{400}},
		"an unknown field":   {`{"code":"1","more":1}`, []int{400}},
		"no code":            {`{}`, []int{400}},
		"nothing":            {`{"code":""}`, []int{200}},
	} {
		if got := l.ask("POST", "/cells", c.body); !slices.Contains(c.status, got.status) {
			t.Errorf("%s: %d %.300s", name, got.status, got.body)
		}
		l.expect("1 + 1", "2\n")
	}
}

// The counts of live sessions are in the status, in the metrics and on the page.
func TestLiveStatus(t *testing.T) {
	t.Parallel()
	who := root(t)
	s := serve(t, who, dataFolder(t, who))
	s.live(`{"kind":"live"}`).cell("1")
	for path, want := range map[string]string{
		"/api/v1/status": `"live":{"interpreters":1,`, "/metrics": "airlock_live_interpreters 1\n",
		"/ui/status": "<dt>Live sessions</dt><dd>1 ",
	} {
		if got := s.do("GET", path, ""); got.status != http.StatusOK || !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %d, without %q", path, got.status, want)
		}
	}
}
