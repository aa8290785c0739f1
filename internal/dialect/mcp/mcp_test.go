package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server over a real engine with fake interpreters.
type rig struct {
	t       *testing.T
	engine  *engine.Service
	live    *fakeLive
	server  *Server
	handler *Handler
	http    *httptest.Server
	url     string
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t}
	r.engine = enginetest.Start(t, engine.Config{}, sandboxtest.NewFake(func(_ context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte(spec.Language.Name+": "+spec.Code+strings.Join(spec.Args, " ")+string(spec.Stdin)+"\n"))
		return sandboxtest.Exit(0), nil
	}))
	r.live = newFakeLive(t, r.engine)
	o := Options{
		Engine: r.engine, Live: r.live, HTTP: true, Images: 2, Version: "1.2.3",
		Caller: func(req *http.Request) engine.Caller {
			return engine.Caller{Owner: engine.Owner(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))}
		},
		Local:     engine.Caller{Owner: "ada"},
		Languages: func(context.Context) []string { return []string{"python", "bash", "c"} },
		Log:       slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, f := range change {
		f(&o)
	}
	r.server = New(o)
	r.handler = NewHandler(r.server, "/mcp")
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.StripPrefix("/mcp", rooted(r.handler)))
	mux.Handle("/mcp/", http.StripPrefix("/mcp", r.handler))
	mux.Handle("/mcp/upload/", http.StripPrefix("/mcp/upload", r.server.Uploads(1<<20)))
	r.http = httptest.NewServer(mux)
	r.url = r.http.URL + "/mcp"
	t.Cleanup(func() {
		r.handler.Close()
		r.http.CloseClientConnections()
		r.http.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// rooted sets the path to "/", like httpd for an address without a trailing slash.
func rooted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/"
		h.ServeHTTP(w, r)
	})
}

type asOwner struct{ owner string }

func (a asOwner) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.owner)
	return http.DefaultTransport.RoundTrip(r)
}

// client connects a client of the SDK.
func (r *rig) client(owner string, o *sdk.ClientOptions) *sdk.ClientSession {
	r.t.Helper()
	return r.connect(&sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: asOwner{owner}}, DisableStandaloneSSE: true}, o)
}

func (r *rig) connect(t sdk.Transport, o *sdk.ClientOptions) *sdk.ClientSession {
	r.t.Helper()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(r.t.Context(), t, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// local connects a client in memory that uses a version with sessions.
func (r *rig) local(o *sdk.ClientOptions) *sdk.ClientSession {
	r.t.Helper()
	here, there := sdk.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.server.Run(ctx, there) }()
	r.t.Cleanup(func() { cancel(); <-done })
	return r.connect(here, o)
}

func call1(t *testing.T, c *sdk.ClientSession, name string, args map[string]any) *sdk.CallToolResult {
	t.Helper()
	result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result
}

func textOf(r *sdk.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	text, _ := r.Content[0].(*sdk.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}

var handles = regexp.MustCompile(`\b([sr])_[A-Za-z0-9_-]{21,42}`)

func sessionOf(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	found := regexp.MustCompile(`s_[A-Za-z0-9_-]{21}`).FindString(textOf(r))
	if found == "" {
		t.Fatalf("no session in %q", textOf(r))
	}
	return found
}

// golden compares text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (go test -update writes it): %v\n%s", path, err, got)
	}
}

// The tool descriptions are part of the interface, and must fit into the models' context.
func TestToolList(t *testing.T) {
	c := newRig(t).client("ada", nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent(list.Tools, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tools.json", string(raw)+"\n")
	if short, _ := json.Marshal(list); len(short) > 16<<10 {
		t.Errorf("the list has %d bytes", len(short))
	}
	for _, forbidden := range []string{"$ref", "anyOf", "oneOf", "x-mcp-header", "outputSchema"} {
		if bytes.Contains(raw, []byte(forbidden)) {
			t.Errorf("%s is in the list", forbidden)
		}
	}
	is := c.InitializeResult()
	golden(t, "instructions.txt", is.Instructions)
	if len(is.Instructions) > 2000 {
		t.Errorf("the instructions have %d bytes", len(is.Instructions))
	}
	caps, _ := json.Marshal(is.Capabilities)
	if string(caps) != `{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}},`+
		`"prompts":{},"resources":{},"tools":{}}` {
		t.Errorf("capabilities %s", caps)
	}
}

func TestRunCode(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	cases := []struct {
		name string
		args map[string]any
		want string
	}{
		{"prints", map[string]any{"code": "print hello", "stdin": nil, "session": nil},
			"OK, exit 0, 0.00 s. session S keeps its files and variables: pass it to go on.\n\nhello\n"},
		{"fails", map[string]any{"code": "print a\nerror bad"},
			"Failed, exit 1, 0.00 s. session S keeps its files and variables: pass it to go on.\n\na\n--- stderr ---\nTraceback\nValueError: bad\n"},
		{"time limit", map[string]any{"code": "print a\nwait", "timeout_seconds": 1},
			"Timed out, 0.00 s. session S keeps its files and variables: pass it to go on.\n\na\n"},
		{"files", map[string]any{"code": "make a/b.txt"},
			"OK, exit 0, 0.00 s. session S keeps its files and variables: pass it to go on.\nFiles made: a/b.txt (text/plain, 9 B)"},
		{"another language", map[string]any{"code": "x", "language": "c"},
			"OK, exit 0, 0.00 s. session S keeps its files and variables: pass it to go on.\n\nc: x\n"},
		{"with input", map[string]any{"code": "x", "stdin": "in", "args": []string{"1"}},
			"OK, exit 0, 0.00 s. session S keeps its files and variables: pass it to go on.\n\npython: x1in\n"},
	}
	session := sessionOf(t, call1(t, c, "run_code", map[string]any{"code": "print x", "language": "bash"}))
	if _, err := c.ListTools(t.Context(), nil); err != nil { // which names the languages
		t.Fatal(err)
	}
	for _, spelled := range []string{"Py", "Bash"} {
		cases = append(cases, cases[0])
		last := &cases[len(cases)-1]
		last.name, last.args = spelled, map[string]any{"code": "print hello", "language": spelled}
	}
	for _, language := range []string{"c", "python"} {
		cases = append(cases, cases[0])
		last := &cases[len(cases)-1]
		last.name, last.args = language+" in a session of bash", map[string]any{"code": "x", "language": language, "session": session}
		last.want = strings.Replace(last.want, "hello", language+": x", 1)
	}
	seconds := regexp.MustCompile(`\d+\.\d\d s\.`)
	for _, tc := range cases {
		result := call1(t, c, "run_code", tc.args)
		got := seconds.ReplaceAllString(handles.ReplaceAllString(textOf(result), "S"), "0.00 s.")
		if got != tc.want || result.IsError || result.StructuredContent != nil {
			t.Errorf("%s: %q, want %q; %v %v", tc.name, got, tc.want, result.IsError, result.StructuredContent)
		}
		about, _ := result.Meta[metaRun].(map[string]any)
		if about["status"] == "" || about["run"] == "" || about["session"] == "" {
			t.Errorf("%s: _meta %v", tc.name, result.Meta)
		}
	}
}

// Refusals are readable for a model, name the fault, and have no side effect.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	session := sessionOf(t, call1(t, c, "run_code", map[string]any{"code": "print x"}))
	if _, err := c.ListTools(t.Context(), nil); err != nil { // which names the languages
		t.Fatal(err)
	}
	theirs := sessionOf(t, call1(t, r.client("mallory", nil), "run_code", map[string]any{"code": "print x"}))
	gone := func(handle string) string {
		return `there is no session "` + handle + `" (it expired, or never was): leave session out to begin a new one`
	}
	unknown := sessionPrefix + engine.NewID().String()
	cases := []struct {
		tool string
		args map[string]any
		want string
	}{
		{"run_code", map[string]any{"code": 1}, "code: a string is needed, got a number"},
		{"run_code", map[string]any{}, "code: it is required"},
		{"run_code", map[string]any{"code": ""}, "code: it must not be empty"},
		{"run_code", map[string]any{"code": "x", "Code": "y"}, "Code: there is no such argument"},
		{"run_code", map[string]any{"code": "x", "wait_seconds": 281}, "wait_seconds: a number from 1 to 280 is needed, got 281"},
		{"run_code", map[string]any{"code": "x", "wait_seconds": 1.5}, "wait_seconds: an integer is needed"},
		{"run_code", map[string]any{"code": "x", "files": "a"}, "files: a list of strings is needed, got a string"},
		{"run_code", map[string]any{"code": "x", "files": slices.Repeat([]string{"a"}, 26)}, "files: at most 25 are allowed, got 26"},
		{"run_code", map[string]any{"code": "x", "files": []string{"no-such"}}, `files: there is no file "no-such"`},
		{"run_code", map[string]any{"code": "x", "language": "cobol"}, "cobol is not installed here. Installed: python, bash, c."},
		{"run_code", map[string]any{"code": "x", "session": unknown}, gone(unknown)},
		{"run_code", map[string]any{"code": "x", "session": theirs}, gone(theirs)},
		{"run_code", map[string]any{"code": "x", "session": "../../x"}, gone("../../x")},
		{"wait_run", map[string]any{"run": "r_x"}, `there is no run "r_x"`},
		{"read_file", map[string]any{"session": session, "path": "../x"}, `path "../x": give a relative path without '..'`},
		{"read_file", map[string]any{"session": session, "path": "/etc/passwd"}, "give a relative path"},
		{"read_file", map[string]any{"session": session, "path": "none.txt"}, `there is no file "none.txt"`},
		{"read_file", map[string]any{"session": theirs, "path": "x"}, gone(theirs)},
		{"list_files", map[string]any{"session": theirs}, gone(theirs)},
		{"delete_file", map[string]any{"session": theirs, "path": "x"}, gone(theirs)},
		{"write_file", map[string]any{"session": theirs, "path": "x", "content": "x"}, gone(theirs)},
		{"write_file", map[string]any{"path": "x", "content": "!", "encoding": "base64"}, "content: it is not base64"},
		{"write_file", map[string]any{"path": "x", "content": "!", "encoding": "rot13"}, `encoding: "rot13" is not one of utf8, base64`},
	}
	for _, tc := range cases {
		result := call1(t, c, tc.tool, tc.args)
		if got := textOf(result); !result.IsError || !strings.Contains(got, tc.want) || len(got) > maxRefusal {
			t.Errorf("%s %v: %v %q, want %q", tc.tool, tc.args, result.IsError, got, tc.want)
		}
	}
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "no_such_tool"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("an unknown tool: %v", err)
	}
	if got := textOf(call1(t, c, "run_code", map[string]any{"code": "print ok", "session": session})); !strings.Contains(got, "ok") {
		t.Errorf("the next call: %q", got)
	}
}

// A call waits for an interpreter and its program within one time limit.
func TestBusy(t *testing.T) {
	r := newRig(t)
	r.live.busy = 3
	c := r.client("ada", nil)
	if got := textOf(call1(t, c, "run_code", map[string]any{"code": "print x"})); !strings.HasSuffix(got, "\nx\n") {
		t.Errorf("%q", got)
	}
	r.live.busy = -1
	got := call1(t, c, "run_code", map[string]any{"code": "print x", "wait_seconds": 1})
	if textOf(got) != "busy: too many interpreters. Try again in 5 s." || !got.IsError {
		t.Errorf("%q", textOf(got))
	}
}

func TestFiles(t *testing.T) {
	c := newRig(t).local(nil)
	session := sessionOf(t, call1(t, c, "write_file", map[string]any{"path": "a/b.txt", "content": "grüße"}))
	with := func(args map[string]any) map[string]any { args["session"] = session; return args }
	for _, step := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"read_file", map[string]any{"path": "a/b.txt"}, "a/b.txt, bytes 0 to 7 of 7.\n\ngrüße"},
		{"read_file", map[string]any{"path": "a/b.txt", "limit": 3}, "a/b.txt, bytes 0 to 2 of 7. Go on with offset=2.\n\ngr"},
		{"read_file", map[string]any{"path": "a/b.txt", "limit": 2, "encoding": "base64"}, "a/b.txt, bytes 0 to 2 of 7. Go on with offset=2.\n\nZ3I="},
		{"write_file", map[string]any{"path": "raw", "content": "/w==", "encoding": "base64"}, "Written: raw (1 B). session " + session + " has it: pass it to go on."},
		{"read_file", map[string]any{"path": "raw"}, "raw is not text: read it with encoding base64, or have a program look at it"},
		{"list_files", map[string]any{}, "a/b.txt (7 B)\nraw (1 B)"},
		{"list_files", map[string]any{"limit": 1}, "a/b.txt (7 B)\n1 more: go on with after=\"a/b.txt\""},
		{"list_files", map[string]any{"after": "a/b.txt"}, "raw (1 B)"},
		{"delete_file", map[string]any{"path": "raw"}, "Deleted: raw"},
		{"delete_file", map[string]any{"path": "raw"}, "Deleted: raw"},
		{"list_files", map[string]any{"prefix": "r"}, "There are no files."},
	} {
		if got := textOf(call1(t, c, step.tool, with(step.args))); got != step.want {
			t.Errorf("%s %v: %q, want %q", step.tool, step.args, got, step.want)
		}
	}
}

// A program that outlasts its caller's wait continues. wait_run returns the whole answer,
// repeatedly.
func TestHandOff(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	first := call1(t, c, "run_code", map[string]any{"code": "print before\nwait\nprint after", "wait_seconds": 1,
		"timeout_seconds": 2})
	handed := textOf(first)
	if !strings.HasPrefix(handed, "Still running after 1 s. Call wait_run with run=") || !strings.Contains(handed, "before") {
		t.Fatalf("handed off: %q", handed)
	}
	run := regexp.MustCompile(`r_[A-Za-z0-9_-]+`).FindString(handed)
	if meta, _ := first.Meta[metaRun].(map[string]any); meta["run"] != run || meta["status"] != "running" ||
		meta["session"] == "" || meta["exit_code"] != nil {
		t.Errorf("of a running program: %v", first.Meta)
	}
	for range 2 {
		if got := textOf(call1(t, c, "wait_run", map[string]any{"run": run})); !strings.HasPrefix(got, "Timed out") || !strings.Contains(got, "after") {
			t.Errorf("waited: %q", got)
		}
	}
	if got := textOf(call1(t, r.client("mallory", nil), "wait_run", map[string]any{"run": run})); !strings.Contains(got, "there is no run") {
		t.Errorf("another owner: %q", got)
	}
}

// A client that times out learns that its program still runs.
func TestProgress(t *testing.T) {
	heard := make(chan *sdk.ProgressNotificationParams, 10)
	r := newRig(t)
	for name, c := range map[string]*sdk.ClientSession{
		"HTTP":   r.client("ada", &sdk.ClientOptions{ProgressNotificationHandler: tell(heard)}),
		"memory": r.local(&sdk.ClientOptions{ProgressNotificationHandler: tell(heard)}),
	} {
		params := &sdk.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": "print line\nwait", "timeout_seconds": 2}, Meta: sdk.Meta{}}
		params.SetProgressToken("tok")
		if _, err := c.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		var last *sdk.ProgressNotificationParams
		for last == nil || last.Message != "line" { // the first may come before the line, or contain it
			select {
			case p := <-heard:
				if p.ProgressToken != "tok" || last != nil && p.Progress <= last.Progress || p.Total != 0 {
					t.Errorf("%s: %+v after %+v", name, p, last)
				}
				last = p
			case <-time.After(time.Minute):
				t.Fatalf("%s: nothing is heard of the line: %+v", name, last)
			}
		}
		for len(heard) > 0 {
			<-heard
		}
	}
}

func tell(heard chan<- *sdk.ProgressNotificationParams) func(context.Context, *sdk.ProgressNotificationClientRequest) {
	return func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { heard <- r.Params }
}

// Cancelling a call ends the program; the session stays.
func TestCancel(t *testing.T) {
	r := newRig(t)
	for i, c := range []*sdk.ClientSession{r.client("ada", nil), r.local(nil)} {
		session := sessionOf(t, call1(t, c, "run_code", map[string]any{"code": "print x"}))
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": "wait", "session": session}})
			heard <- err
		}()
		r.live.awaitCells(2 + 3*i)
		cancel()
		if err := <-heard; err == nil {
			t.Error("the call was answered")
		}
		r.live.awaitCancels(1 + i)
		if got := textOf(call1(t, c, "run_code", map[string]any{"code": "print again", "session": session})); !strings.Contains(got, "again") {
			t.Errorf("the next call: %q", got)
		}
	}
}

func TestShorten(t *testing.T) {
	text := strings.Repeat("0123456789\n", 1000)
	got := shorten(text, 1100)
	head, tail, ok := strings.Cut(got, "[")
	if !ok || len(head) != 660+66 && len(head)%11 != 0 || !strings.Contains(tail, " characters omitted: print less") || !strings.HasSuffix(tail, "0123456789\n") {
		t.Errorf("shortened: %q", got)
	}
	if shorten("short", 1000) != "short" {
		t.Error("a short text was changed")
	}
}

func FuzzShorten(f *testing.F) {
	f.Add("abc\ndef", 4)
	f.Fuzz(func(t *testing.T, text string, chars int) {
		if chars < 3 || chars > 1000 {
			t.Skip()
		}
		if got := shorten(text, chars); len([]rune(got)) > chars+120 {
			t.Errorf("%d characters", len([]rune(got)))
		}
	})
}

// send makes a request without the SDK.
func (r *rig) send(method, address, owner, header, body string) (int, string, http.Header) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if owner != "" {
		req.Header.Set("Authorization", "Bearer "+owner)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		req.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(got), response.Header
}

// What was left out of the output, here or by the session, is said to programs too.
func TestTruncated(t *testing.T) {
	c := newRig(t).client("ada", nil)
	for code, want := range map[string]bool{"print " + strings.Repeat("x", 3000): true, "print short": false, "cut\nprint short": true} {
		result := call1(t, c, "run_code", map[string]any{"code": code, "max_chars": 1000})
		about, _ := result.Meta[metaRun].(map[string]any)
		if about["truncated"] != want {
			t.Errorf("%.20s: truncated is %v, not %v", code, about["truncated"], want)
		}
	}
}
