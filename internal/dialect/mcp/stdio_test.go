package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// host is a client that exchanges lines with a Stdio.
type host struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan map[string]any
	done  chan error
}

// stdio starts a Stdio in front of the rig's service.
func (r *rig) stdio(o Stdio) *host {
	r.t.Helper()
	if o.Connect == nil {
		o.Connect = func(context.Context) (*Endpoint, error) {
			return &Endpoint{URL: r.url, Client: &http.Client{Transport: asOwner{"ada"}}}, nil
		}
	}
	in, to := io.Pipe()
	from, out := io.Pipe()
	h := &host{t: r.t, in: to, lines: make(chan map[string]any, 100), done: make(chan error, 1)}
	go func() { h.done <- o.Serve(r.t.Context(), in, out); out.Close() }()
	go func() {
		defer close(h.lines)
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var got map[string]any
			if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
				r.t.Errorf("%q: %v", lines.Text(), err)
			}
			h.lines <- got
		}
	}()
	r.t.Cleanup(func() {
		to.Close()
		for range h.lines {
		}
	})
	return h
}

func (h *host) say(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// hears returns the next message.
func (h *host) hears() map[string]any {
	h.t.Helper()
	select {
	case got := <-h.lines:
		return got
	case <-time.After(time.Minute):
		h.t.Fatal("no answer")
		return nil
	}
}

func (h *host) ask(line string) map[string]any {
	h.t.Helper()
	h.say(line)
	return h.hears()
}

// begin opens a session of the protocol.
func (h *host) begin(version, capabilities string) {
	h.t.Helper()
	if got := h.ask(initialize(version, capabilities)); got["result"] == nil {
		h.t.Fatalf("initialize: %v", got)
	}
	h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func said(got map[string]any) string {
	text, _ := json.Marshal(got)
	return string(text)
}

// An invalid line gets an answer, and so does the next line. An HTTP error of the service
// becomes a JSON-RPC error.
func TestStdio(t *testing.T) {
	r := newRig(t)
	h := r.stdio(Stdio{Changes: &folder{}})
	for _, bad := range []string{"hello", `{"jsonrpc":`, strings.Repeat("x", maxLine+10)} {
		if got := h.ask(bad); got["error"] == nil {
			t.Errorf("%.20s: %v", bad, got)
		}
	}
	if got := h.ask(initialize(stateless, `{"elicitation":{}}`)); !strings.Contains(said(got), `"protocolVersion":"`+lastSession+`"`) {
		t.Errorf("initialize: %v", got)
	}
	h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, tc := range []struct{ line, want string }{
		{message(2, "tools/call", runPrint, ""), "hello"},
		{message(3, "no/such", `{}`, ""), `"code":-32601`},
		{`{"jsonrpc":"2.0","id":3,"method":"prompts/get"}`, `"code":-32600`},
		{message(4, "tools/call", `{"name":"rm"}`, ""), `"code":-32602`},
		{message(5, "tools/call", `[1]`, ""), `"error"`},
		{message(6, "tools/call", `{"name":"write_file","arguments":{"path":"x","content":"`+strings.Repeat("x", maxBody)+`"}}`, ""), "larger than 8 MiB"},
		{`{"jsonrpc":"2.0","id":"seven","method":"ping"}`, `"id":"seven"`},
	} {
		if got := h.ask(tc.line); !strings.Contains(said(got), tc.want) {
			t.Errorf("%.60s: %v, want %s", tc.line, got, tc.want)
		}
	}
	// The tools of this machine are in the service's list. They ask with the protocol
	// version that the client began with.
	list := said(h.ask(message(8, "tools/list", `{}`, "")))
	if !strings.Contains(list, `"apply_changes"`) || strings.Count(list, `"run_code"`) != 1 {
		t.Errorf("the list: %s", list)
	}
	question := h.ask(message(9, "tools/call", `{"name":"apply_changes","arguments":{"plan_id":"p1"}}`, ""))
	if question["method"] != "elicitation/create" {
		t.Fatalf("the question: %v", question)
	}
	if got := said(h.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{}}}`,
		question["id"]))); !strings.Contains(got, "applied") || !strings.Contains(got, `"id":9`) {
		t.Errorf("the answer: %s", got)
	}
	h.in.Close()
	if err := <-h.done; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// Stdio relays for clients of every version: questions, progress, cancelling, and tasks,
// which the SDK's clients do not support.
func TestStdioThrough(t *testing.T) {
	f := &folder{}
	r := newRig(t, func(o *Options) { o.Changes = f })
	h := r.stdio(Stdio{})
	modern := func(id int, method, params string) string {
		return declared(message(id, method, params, stateless), tasksExtension)
	}
	task := h.ask(modern(1, "tools/call", `{"name":"run_code","arguments":{"code":"wait","wait_seconds":1}}`))
	result, _ := task["result"].(map[string]any)
	if result["resultType"] != "task" {
		t.Fatalf("the task: %v", task)
	}
	params := fmt.Sprintf(`{"taskId":%q}`, result["taskId"])
	if got := said(h.ask(modern(2, "tasks/get", params))); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("the task: %s", got)
	}
	h.ask(modern(3, "tasks/cancel", params))
	r.live.awaitCancels(1)

	// Without a session, a call is cancelled by disconnecting.
	h.say(modern(4, "tools/call", `{"name":"run_code","arguments":{"code":"wait"}}`))
	r.live.awaitCells(2)
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	r.live.awaitCancels(2)

	h.begin(lastSession, `{"elicitation":{}}`)
	question := h.ask(message(4, "tools/call", `{"name":"apply_changes","arguments":{"plan_id":"p1"}}`, ""))
	if question["method"] != "elicitation/create" {
		t.Fatalf("the service's question: %v", question)
	}
	id, _ := json.Marshal(question["id"])
	if got := said(h.ask(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"action":"accept","content":{}}}`)); !strings.Contains(
		got, `"id":4`) || f.done() != "p1" {
		t.Errorf("the answer to it: %s", got)
	}
	h.say(message(5, "tools/call", `{"name":"run_code","arguments":{"code":"print up\nwait"},"_meta":{"progressToken":"p"}}`, ""))
	if got := h.hears(); got["method"] != "notifications/progress" {
		t.Errorf("the progress: %v", got)
	}
	r.live.awaitCells(3)
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	r.live.awaitCancels(3)
	for got := h.hears(); got["id"] != 5.0; got = h.hears() { // the service may answer a cancelled call
		if got["method"] != "notifications/progress" {
			t.Errorf("after the cancel: %v", got)
		}
	}

	// The end of the input ends running programs.
	h.say(message(6, "tools/call", `{"name":"run_code","arguments":{"code":"wait"}}`, ""))
	r.live.awaitCells(4)
	h.in.Close()
	r.live.awaitCancels(4)
	if err := <-h.done; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// A cancel that overtakes its call is repeated.
func TestStdioCancelOvertakes(t *testing.T) {
	r := newRig(t)
	held := make(chan struct{})
	way := &slowWay{asOwner{"ada"}, held, func(body string) bool { return strings.Contains(body, `"tools/call"`) }}
	h := r.stdio(Stdio{Connect: func(context.Context) (*Endpoint, error) {
		return &Endpoint{URL: r.url, Client: &http.Client{Transport: way}}, nil
	}})
	h.begin(lastSession, "{}")
	h.say(message(2, "tools/call", `{"name":"run_code","arguments":{"code":"wait"}}`, ""))
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	h.ask(message(3, "ping", `{}`, "")) // the cancel has arrived
	close(held)
	if got := h.hears(); got["id"] != 2.0 { // otherwise a program that waits for a minute still runs
		t.Errorf("the call: %v", got)
	}
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	if n := len(r.live.cells); n != r.live.canceled {
		t.Errorf("%d programs, %d cancelled", n, r.live.canceled)
	}
}

// slowWay delays some requests.
type slowWay struct {
	asOwner
	until <-chan struct{}
	which func(body string) bool
}

func (w *slowWay) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.GetBody != nil {
		body, _ := r.GetBody()
		if text, _ := io.ReadAll(body); w.which(string(text)) {
			<-w.until
		}
	}
	return w.asOwner.RoundTrip(r)
}

// After a restart of the service, Stdio opens the host's session again. It waits for a
// service that is briefly down.
func TestStdioRestart(t *testing.T) {
	first, second := newRig(t), newRig(t)
	var mu sync.Mutex
	to, down := first.http.Listener.Addr().String(), false
	// A connection that the service closes while a call is on its way to it is told to the caller, who may not know
	// what became of the call: that is not what this test is about.
	transport := &http.Transport{DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			down = false
			return nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", to)
	}
	h := first.stdio(Stdio{Connect: func(context.Context) (*Endpoint, error) {
		return &Endpoint{URL: "http://airlock/mcp", Client: &http.Client{Transport: bearer{transport}}}, nil
	}})
	h.begin(lastSession, "{}")
	if got := said(h.ask(message(2, "tools/call", runPrint, ""))); !strings.Contains(got, "hello") {
		t.Fatalf("the first call: %s", got)
	}
	h.say(message(3, "tools/call", `{"name":"run_code","arguments":{"code":"wait"}}`, ""))
	first.live.awaitCells(2)
	mu.Lock()
	to, down = second.http.Listener.Addr().String(), true
	mu.Unlock()
	first.handler.Close()
	first.http.CloseClientConnections()
	if got := said(h.hears()); !strings.Contains(got, `"id":3`) || !strings.Contains(got, "isError") {
		t.Errorf("what was under way: %s", got)
	}
	for id := range 5 {
		if got := said(h.ask(message(10+id, "tools/call", runPrint, ""))); !strings.Contains(got, "hello") {
			t.Errorf("the next call: %s", got)
		}
	}
	if n := len(openIn(second)); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer ada")
	return b.RoundTripper.RoundTrip(r)
}

func openIn(r *rig) (open []*sdk.ServerSession) {
	for s := range r.server.sdk.Sessions() {
		open = append(open, s)
	}
	return open
}

// Stdio replaces names of files by ids in requests, and saves files from answers.
func TestStdioFiles(t *testing.T) {
	r := newRig(t)
	var sent []string
	h := r.stdio(Stdio{
		Send: func(_ context.Context, names []string, _ func(context.Context) []string) ([]string, error) {
			sent = append(sent, names...)
			return nil, fmt.Errorf("there is no file %q", names[0])
		},
		Save: func(_ context.Context, files []MadeFile) (string, error) {
			return fmt.Sprintf("Saved %s of %d bytes.", files[0].Path, files[0].Size), nil
		},
	})
	h.begin(lastSession, "{}")
	if got := said(h.ask(message(2, "tools/call", `{"name":"run_code","arguments":{"code":"print x","files":["a.csv"]}}`, ""))); !strings.Contains(
		got, `there is no file \"a.csv\"`) || len(sent) != 1 {
		t.Errorf("a file that is not there: %s", got)
	}
	if got := said(h.ask(message(3, "tools/call", runPrint, ""))); !strings.Contains(got, `"text":"Saved x.txt of 9 bytes.\nOK, exit 0`) {
		t.Errorf("a file that was made: %s", got)
	}
	if len(sent) != 1 {
		t.Errorf("sent %v", sent)
	}
}

// A host that says that it has roots is asked for them, and its answer stays here; one that does not answer, or has
// none, is not waited for.
func TestStdioRoots(t *testing.T) {
	for name, c := range map[string]struct{ capabilities, answer, want string }{
		"with roots": {`{"roots":{"listChanged":true}}`,
			`"result":{"roots":[{"uri":"file:///a%20b","name":"x"},{"uri":"https://x/c"},{"uri":"file://other/d"}]}`, "[/a b]"},
		"refused": {`{"roots":{}}`, `"error":{"code":-32601,"message":"no"}`, "[]"},
		"without": {"{}", "", "[]"},
	} {
		r := newRig(t)
		got := make(chan string, 1)
		h := r.stdio(Stdio{
			Send: func(ctx context.Context, _ []string, roots func(context.Context) []string) ([]string, error) {
				got <- fmt.Sprint(roots(ctx))
				return nil, errors.New("it is enough")
			},
		})
		h.begin(lastSession, c.capabilities)
		call := message(2, "tools/call", `{"name":"run_code","arguments":{"code":"print x","files":["a.csv"]}}`, "")
		answer := said(h.ask(call))
		if c.answer != "" {
			if !strings.Contains(answer, `"method":"roots/list"`) {
				t.Fatalf("%s: %s", name, answer)
			}
			answer = said(h.ask(`{"jsonrpc":"2.0","id":` + rootsID + `,` + c.answer + `}`))
		}
		if !strings.Contains(answer, "it is enough") {
			t.Errorf("%s: %s", name, answer)
		}
		if is := <-got; is != c.want {
			t.Errorf("%s: %s", name, is)
		}
	}
}

// A host gets the reason if the service does not answer.
func TestStdioAlone(t *testing.T) {
	r := newRig(t)
	h := r.stdio(Stdio{Connect: func(context.Context) (*Endpoint, error) { return nil, fmt.Errorf("nobody is there") }})
	for _, line := range []string{initialize(lastSession, "{}"), message(2, "tools/call", runPrint, "")} {
		if got := said(h.ask(line)); !strings.Contains(got, "nobody is there") {
			t.Errorf("%.60s: %s", line, got)
		}
	}
}
