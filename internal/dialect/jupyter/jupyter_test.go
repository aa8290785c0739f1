package jupyter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
	"github.com/airlock-run/airlock/internal/engine"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// summary returns one line for each message.
func summary(all []heard) (lines []string) {
	for _, h := range all {
		switch h.kind {
		case "status":
			lines = append(lines, fmt.Sprint(h.parent, " ", h.content["execution_state"]))
		case "stream":
			lines = append(lines, fmt.Sprintf("%s %s %q", h.parent, h.content["name"], h.content["text"]))
		default:
			lines = append(lines, fmt.Sprint(h.parent, " ", h.channel, " ", h.kind, " ", h.text))
		}
	}
	return lines
}

// Clients of either framing get these messages in this order.
func TestMessages(t *testing.T) {
	for _, protocols := range [][]string{nil, {"v9.kernel.websocket.jupyter.org"}, {"v9.kernel.websocket.jupyter.org", subprotocol}} {
		r := newRig(t, Options{})
		p := r.dial(r.kernel(), "?session_id=a", nil, protocols...)
		if want := len(protocols) > 1; p.v1 != want {
			t.Fatalf("offered %v: v1 is %v", protocols, p.v1)
		}
		for _, c := range []struct {
			channel, kind, content string
			want                   []string
		}{
			{shell, "execute_request", `{"code":"print x\nresult <42>"}`, []string{
				"# busy", `# iopub execute_input {"code":"print x\nresult <42>","execution_count":1}`, `# stdout "x\n"`,
				`# iopub execute_result {"data":{"text/plain":"<42>"},"metadata":{},"execution_count":1}`,
				`# shell execute_reply {"execution_count":1,"payload":[],"status":"ok","user_expressions":{}}`, "# idle",
			}},
			{shell, "execute_request", `{"code":"print y","silent":true}`, []string{
				"# busy", `# stdout "y\n"`, `# shell execute_reply {"execution_count":1,"payload":[],"status":"ok","user_expressions":{}}`, "# idle",
			}},
			{shell, "execute_request", `{"code":"display {\"text/html\":\"<b>\"}"}`, []string{
				"# busy", `# iopub execute_input {"code":"display {\"text/html\":\"<b>\"}","execution_count":2}`,
				`# iopub display_data {"data":{"text/html":"<b>"},"metadata":{},"transient":{"display_id":"d"}}`,
				`# shell execute_reply {"execution_count":2,"payload":[],"status":"ok","user_expressions":{}}`, "# idle",
			}},
			{shell, "execute_request", `{"code":"error no"}`, []string{
				"# busy", `# iopub execute_input {"code":"error no","execution_count":3}`,
				`# iopub error {"ename":"ValueError","evalue":"no","traceback":["Traceback","ValueError: no"]}`,
				`# shell execute_reply {"status":"error","ename":"ValueError","evalue":"no","traceback":["Traceback","ValueError: no"],"execution_count":3}`, "# idle",
			}},
			{shell, "execute_request", `{"code":"ask who?","store_history":false}`, []string{
				"# busy", `# iopub execute_input {"code":"ask who?","execution_count":4}`,
				`# iopub error {"ename":"StdinNotImplementedError","evalue":"this cell has no input: why","traceback":["Traceback","StdinNotImplementedError: this cell has no input: why"]}`,
				`# shell execute_reply {"status":"error","ename":"StdinNotImplementedError","evalue":"this cell has no input: why","traceback":["Traceback","StdinNotImplementedError: this cell has no input: why"],"execution_count":4}`, "# idle",
			}},
			{shell, "execute_request", "{\"code\":\"misuse foo\",\"store_history\":false}", []string{
				"# busy", `# iopub execute_input {"code":"misuse foo","execution_count":5}`,
				"# stderr \"UsageError: Cell magic `%%foo` not found.\\n\"",
				"# shell execute_reply {\"status\":\"error\",\"ename\":\"UsageError\",\"evalue\":\"Cell magic `%%foo` not found.\"," +
					"\"traceback\":[\"UsageError: Cell magic `%%foo` not found.\"],\"execution_count\":5}",
				"# idle",
			}},
			{shell, "execute_request", `[]`, []string{
				"# busy", `# stderr "The request cannot be read: json: cannot unmarshal array into Go value of type jupyter.execution\n"`,
				`# shell execute_reply {"status":"error","ename":"ValueError","evalue":"the request cannot be read","traceback":["ValueError: the request cannot be read"],"execution_count":0}`, "# idle",
			}},
			{shell, "complete_request", `{"code":"x","cursor_pos":1}`, []string{
				"# busy", `# shell complete_reply {"cursor_end":1,"cursor_start":0,"matches":["x!"],"metadata":{},"status":"ok"}`, "# idle",
			}},
			{shell, "complete_request", `{"code":"x","cursor_pos":9}`, []string{
				"# busy", `# shell complete_reply {"status":"error","ename":"CompletionError","evalue":"cursor is not in the code","traceback":["CompletionError: cursor is not in the code"],"execution_count":0}`, "# idle",
			}},
			{shell, "inspect_request", `{}`, []string{"# busy", `# shell inspect_reply {"data":{},"found":false,"metadata":{},"status":"ok"}`, "# idle"}},
			{shell, "is_complete_request", `{"code":"if x:"}`, []string{"# busy", `# shell is_complete_reply {"indent":"    ","status":"incomplete"}`, "# idle"}},
			{shell, "history_request", `{"n":1}`, []string{"# busy", `# shell history_reply {"history":[[0,3,"error no"]],"status":"ok"}`, "# idle"}},
			{shell, "comm_info_request", `{}`, []string{"# busy", `# shell comm_info_reply {"comms":{},"status":"ok"}`, "# idle"}},
			{shell, "comm_open", `{"comm_id":"c","target_name":"x"}`, []string{"# busy", `# iopub comm_close {"comm_id":"c","data":{}}`, "# idle"}},
			{shell, "of_the_future_request", `{}`, []string{"# busy", "# idle"}},
			{control, "interrupt_request", `{}`, []string{"# busy", `# control interrupt_reply {"status":"ok"}`, "# idle"}},
		} {
			p.send(c.channel, c.kind, "#", json.RawMessage(c.content))
			if diff := cmp.Diff(c.want, summary(p.until("#"))); diff != "" {
				t.Errorf("%s %s: -want +got:\n%s", c.kind, c.content, diff)
			}
		}
		for _, channel := range []string{shell, control} {
			p.send(channel, "kernel_info_request", "k", none)
			if got := p.until("k"); len(got) != 3 || got[1].content["protocol_version"] != "5.3" || got[1].channel != channel {
				t.Errorf("kernel info: %v", summary(got))
			}
		}
		p.send(shell, "execute_request", "u", map[string]any{"code": "", "user_expressions": map[string]string{"a": "1+1"}})
		if got := p.until("u"); !strings.Contains(got[2].text, `"user_expressions":{"a":{"status":"error","ename":"NotSupported"`) {
			t.Errorf("%v", summary(got))
		}
	}
}

// An error aborts the queued cells, unless the request disables that.
func TestAbort(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial(r.kernel(), "", nil)
	p.run("1", "wait")
	p.run("2", "print 2")
	p.send(shell, "kernel_info_request", "3", none)
	p.run("4", "print 4")
	for { // the first one runs
		if h, err := p.hear(); err != nil {
			t.Fatal(err)
		} else if h.kind == "execute_input" {
			break
		}
	}
	p.send(control, "interrupt_request", "i", none)
	var replies []string
	for len(replies) < 5 {
		h, err := p.hear()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.kind, "_reply") {
			replies = append(replies, fmt.Sprint(h.parent, h.content["status"], h.content["ename"]))
		}
	}
	joined := strings.Join(replies, " ")
	for _, want := range []string{"1errorKeyboardInterrupt", "2aborted", "4aborted", "3ok", "iok"} {
		if !strings.Contains(joined, want) {
			t.Errorf("%s, want %s", joined, want)
		}
	}
	p.send(shell, "execute_request", "5", map[string]any{"code": "error x", "stop_on_error": false})
	p.run("6", "print 6")
	if got := summary(p.until("6")); got[len(got)-3] != `6 stdout "6\n"` {
		t.Errorf("%q", got)
	}
}

// input() goes to the requesting client, and only that client can answer.
func TestInput(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	p, other := r.dial(id, "?session_id=a", nil), r.dial(id, "?session_id=b", nil)
	p.run("1", "ask who?")
	for {
		h, err := p.hear()
		if err != nil {
			t.Fatal(err)
		}
		if h.kind == "input_request" {
			if h.channel != stdin || h.parent != "1" || h.content["prompt"] != "who?" {
				t.Errorf("%v", h)
			}
			break
		}
	}
	other.send(stdin, "input_reply", "x", map[string]string{"value": "mallory"})
	other.send(control, "kernel_info_request", "sync", none)
	other.until("sync")
	p.send(stdin, "input_reply", "2", map[string]string{"value": "me"})
	got := strings.Join(summary(p.until("1")), "\n")
	if !strings.Contains(got, `1 stdout "me"`) || strings.Contains(got, "mallory") {
		t.Error(got)
	}
	if got := strings.Join(summary(other.until("1")), "\n"); !strings.Contains(got, `1 stdout "me"`) || strings.Contains(got, "_reply") || strings.Contains(got, "input_request") {
		t.Errorf("the other one: %s", got)
	}
}

// Messages for a disconnected client go to its next connection. A second connection
// replaces the first.
func TestReconnect(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	p := r.dial(id, "?session_id=a", nil)
	p.run("1", "wait\nprint later")
	for {
		if h, err := p.hear(); err != nil || h.kind == "execute_input" {
			break
		}
	}
	_ = p.socket.CloseNow()
	for {
		var m kernelModel
		if r.ask("ann", "GET", "/api/kernels/"+id, "", &struct{ Connections *int }{&m.Connections}); m.Connections == 0 {
			break
		}
	}
	if status := r.ask("ann", "POST", "/api/kernels/"+id+"/interrupt", "", nil); status != http.StatusNoContent {
		t.Errorf("interrupt: %d", status)
	}
	again := r.dial(id, "?session_id=a", nil)
	if got := strings.Join(summary(again.until("1")), "\n"); !strings.Contains(got, `"later\n"`) || !strings.Contains(got, "execute_reply") {
		t.Errorf("after the reconnect: %s", got)
	}
	second := r.dial(id, "?session_id=a", nil)
	if _, err := again.hear(); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the first of two connections: %v", err)
	}
	second.run("2", "print 2")
	second.until("2")
	_ = second.socket.CloseNow()
	stranger := r.dial(id, "?session_id=c", nil)
	stranger.send(control, "kernel_info_request", "k", none)
	if got := summary(stranger.until("k")); len(got) != 3 {
		t.Errorf("a stranger was told %q", got)
	}
}

// restarted returns a summary of the messages up to the end of a restart by the REST API, whose
// request is *, and of a cell that ran.
func restarted(p *peer, cell string) []string {
	p.t.Helper()
	var all []heard
	for request, open := "", map[string]bool{"*": true, cell: cell != ""}; ; {
		h, err := p.hear()
		if err != nil {
			p.t.Fatalf("after %d messages: %v", len(all), err)
		}
		all = append(all, h)
		if h.kind == "shutdown_reply" {
			request = h.parent
		}
		if h.kind == "status" && h.content["execution_state"] == "idle" {
			open["*"] = open["*"] && h.parent != request
			open[cell] = open[cell] && h.parent != cell
		}
		if open["*"] || open[cell] {
			continue
		}
		for i := range all {
			if all[i].parent == request {
				all[i].parent = "*"
			}
		}
		return summary(all)
	}
}

// Clients see a kernel restart, die in a cell, and end.
func TestLife(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	p := r.dial(id, "", nil)
	p.run("1", "die")
	got := strings.Join(summary(p.until("1")), "\n")
	for _, want := range []string{`iopub error {"ename":"DeadKernelError"`, "\n restarting\n starting\n", "1 shell execute_reply", "1 idle"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	var m struct {
		State string `json:"execution_state"`
	}
	if status := r.ask("ann", "POST", "/api/kernels/"+id+"/restart", "", &m); status != http.StatusOK || m.State != "idle" {
		t.Errorf("restart: %d %v", status, m)
	}
	// JupyterLab takes "restarting" for the death of the kernel.
	want := []string{"* busy", `* iopub shutdown_reply {"restart":true,"status":"ok"}`, " starting", " idle", "* idle"}
	if diff := cmp.Diff(want, restarted(p, "")); diff != "" {
		t.Error(diff)
	}
	p.run("r", "wait") // a restart while a cell runs
	for h, err := p.hear(); h.kind != "execute_input"; h, err = p.hear() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if status := r.ask("ann", "POST", "/api/kernels/"+id+"/restart", "", nil); status != http.StatusOK {
		t.Errorf("restart: %d", status)
	}
	if got := strings.Join(restarted(p, "r"), "\n"); strings.Contains(got, "restarting") || !strings.Contains(got, "DeadKernelError") {
		t.Errorf("restart of a busy kernel:\n%s", got)
	}
	p.send(control, "shutdown_request", "c", map[string]bool{"restart": true})
	if got := strings.Join(summary(p.until("c")), "\n"); strings.Contains(got, "restarting") ||
		!strings.Contains(got, `c control shutdown_reply {"restart":true,"status":"ok"}`) {
		t.Errorf("restart by a message:\n%s", got)
	}
	p.run("2", "wait")
	p.send(control, "shutdown_request", "3", map[string]bool{"restart": false})
	said := strings.Join(summary(p.until("3")), "\n")
	if !strings.Contains(said, `3 control shutdown_reply {"restart":false,"status":"ok"}`) {
		t.Error(said)
	}
	for {
		if _, err := p.hear(); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("the connection ended with %v", err)
			}
			break
		}
	}
	if status := r.ask("ann", "GET", "/api/kernels/"+id, "", nil); status != http.StatusNotFound {
		t.Errorf("the kernel is there: %d", status)
	}
	idle := newRig(t, Options{Idle: time.Millisecond})
	forgotten := idle.kernel()
	for deadline := time.Now().Add(waitTime); idle.ask("ann", "GET", "/api/kernels/"+forgotten, "", nil) != http.StatusNotFound; {
		if time.Now().After(deadline) {
			t.Fatal("an idle kernel stays")
		}
	}
}

var nativeTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// Lists include the kernels of other nodes.
func TestListsOfNodes(t *testing.T) {
	r := newRig(t, Options{Gather: func(_ http.ResponseWriter, r *http.Request) [][]byte {
		return [][]byte{[]byte(`[{"id":"theirs at ` + r.URL.Path + `"}]`)}
	}})
	if status := r.ask("ann", "POST", "/api/kernels", "", nil); status != http.StatusCreated {
		t.Fatal(status)
	}
	for path, want := range map[string]int{"/api/kernels": 2, "/api/sessions": 1} {
		var list []struct{ ID string }
		if r.ask("ann", "GET", path, "", &list); len(list) != want || list[want-1].ID != "theirs at "+path {
			t.Errorf("%s: %v", path, list)
		}
	}
}

// More notebooks than an owner may have take the places of that owner's oldest, and of no other's.
func TestManyNotebooks(t *testing.T) {
	r := newRig(t, Options{})
	id := func(owner string) string {
		var made struct{ Kernel struct{ ID string } }
		if status := r.ask(owner, "POST", "/api/sessions", `{"path":"first"}`, &made); status != http.StatusCreated {
			t.Fatal(status)
		}
		return made.Kernel.ID
	}
	id("bob")
	kernel := id("ann")
	for i := range maxNotebooks + 100 {
		body := fmt.Sprintf(`{"path":"%d","kernel":{"id":%q}}`, i, kernel)
		if status := r.ask("ann", "POST", "/api/sessions", body, nil); status != http.StatusCreated {
			t.Fatalf("number %d: %d", i, status)
		}
	}
	var list []struct{ Path string }
	r.ask("ann", "GET", "/api/sessions", "", &list)
	if len(list) != maxNotebooks || list[len(list)-1].Path != strconv.Itoa(maxNotebooks+99) {
		t.Errorf("%d notebooks, want %d with the last", len(list), maxNotebooks)
	}
	id(string(engine.Caller{Owner: "ann"}.User("z").Owner))
	if r.ask("ann", "GET", "/api/sessions", "", &list); len(list) != maxNotebooks-1 {
		t.Errorf("with one of a user of the same key there are %d notebooks, want %d", len(list), maxNotebooks-1)
	}
	if r.ask("bob", "GET", "/api/sessions", "", &list); len(list) != 1 {
		t.Errorf("another owner has %d notebooks, want 1", len(list))
	}
}

// The REST API: models, lists, notebooks, errors.
func TestREST(t *testing.T) {
	r := newRig(t, Options{})
	var version struct{ Version string }
	for _, path := range []string{"/api", "/api/"} {
		if status := r.ask("", "GET", path, "", &version); status != 200 || version.Version != Version {
			t.Errorf("%s: %d %v", path, status, version)
		}
	}
	var m map[string]any
	for _, body := range []string{"", "{}", `{"name":"python3","path":null}`, `{"env":{"A":"b"}}`} {
		if status := r.ask("ann", "POST", "/api/kernels", body, &m); status != 201 || m["name"] != "python3" || m["execution_state"] != "idle" || !nativeTime.MatchString(fmt.Sprint(m["last_activity"])) {
			t.Errorf("%s: %d %v", body, status, m)
		}
	}
	var list []map[string]any
	if r.ask("ann", "GET", "/api/kernels", "", &list); len(list) != 4 {
		t.Errorf("%v", list)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		message            string
	}{
		{"POST", "/api/kernels", "{", 400, "Invalid JSON in body of request"},
		{"POST", "/api/kernels", `{"name":"fortran"}`, 404, "No such kernel: fortran"},
		{"GET", "/api/kernels/x", "", 404, "Kernel does not exist: x"},
		{"GET", "/api/kernelspecs/nope", "", 404, "Kernel spec nope not found"},
		{"POST", "/api/sessions", "{}", 400, "Missing field in JSON data: path"},
		{"GET", "/api/sessions/x", "", 404, "Session not found: session_id=x"},
		{"GET", "/api/terminals", "", 404, "Nothing lives at this address: kernels, kernelspecs, sessions, contents, status and me are below /api"},
	} {
		var body errorBody
		if status := r.ask("ann", c.method, c.path, c.body, &body); status != c.status || body.Message != c.message {
			t.Errorf("%s %s: %d %v", c.method, c.path, status, body)
		}
	}
	var made, same, changed struct {
		ID     string
		Path   string
		Kernel struct{ ID, Name string }
	}
	r.ask("ann", "POST", "/api/sessions", `{"path":"a.ipynb","name":"","type":"notebook","kernel":{"name":"python3"}}`, &made)
	r.ask("ann", "POST", "/api/sessions", `{"path":"a.ipynb","type":"notebook","kernel":{"name":"python3"}}`, &same)
	if made != same || made.Path != "a.ipynb" {
		t.Errorf("%v, then %v", made, same)
	}
	if status := r.ask("ann", "PATCH", "/api/sessions/"+made.ID, `{"path":"b.ipynb","kernel":{"name":"bash"}}`, &changed); status != 200 || changed.Path != "b.ipynb" || changed.Kernel.Name != "bash" || changed.ID != made.ID {
		t.Errorf("%d %v", status, changed)
	}
	if status := r.ask("ann", "GET", "/api/kernels/"+made.Kernel.ID, "", nil); status != 404 {
		t.Errorf("the kernel of before is there: %d", status)
	}
	if status := r.ask("ann", "DELETE", "/api/sessions/"+made.ID, "", nil); status != 204 {
		t.Errorf("%d", status)
	}
	for _, path := range []string{"/api/sessions/" + made.ID, "/api/kernels/" + changed.Kernel.ID} {
		if status := r.ask("ann", "GET", path, "", nil); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	var status struct{ Kernels, Connections int }
	if r.ask("ann", "GET", "/api/status", "", &status); status.Kernels != 4 {
		t.Errorf("%v", status)
	}
	if r.ask("bob", "GET", "/api/status", "", &status); status.Kernels != 0 {
		t.Errorf("another's: %v", status)
	}
}

// Files of a kernel through the contents API.
func TestContents(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	at := "/api/contents/" + id
	ask := func(want int, method, path, body string) (m map[string]any) {
		t.Helper()
		if status := r.ask("ann", method, path, body, &m); status != want {
			t.Errorf("%s %s: %d %v", method, path, status, m)
		}
		return m
	}
	ask(201, "PUT", at+"/a.txt", `{"type":"file","format":"text","content":"é\n"}`)
	ask(200, "PUT", at+"/a.txt", `{"type":"file","format":"text","content":"è\n"}`)
	if m := ask(200, "GET", at+"/a.txt", ""); m["content"] != "è\n" || m["format"] != "text" || m["path"] != id+"/a.txt" || m["name"] != "a.txt" || m["size"] != 3.0 || m["writable"] != true {
		t.Errorf("%v", m)
	}
	ask(201, "PUT", at+"/b.bin", `{"type":"file","format":"base64","content":"/wA="}`)
	if m := ask(200, "GET", at+"/b.bin", ""); m["content"] != "/wA=" || m["format"] != "base64" {
		t.Errorf("%v", m)
	}
	ask(400, "GET", at+"/b.bin?format=text", "")
	ask(201, "PUT", at+"/n.ipynb", `{"type":"notebook","format":"json","content":{"cells":[],"nbformat":4}}`)
	if m := ask(200, "GET", at+"/n.ipynb?content=1", ""); m["type"] != "notebook" || fmt.Sprint(m["content"]) != "map[cells:[] nbformat:4]" {
		t.Errorf("%v", m)
	}
	ask(201, "PUT", at+"/d", `{"type":"directory"}`)
	ask(201, "POST", at+"/d", `{"copy_from":"`+id+`/a.txt"}`)
	ask(201, "POST", at+"/d", `{"type":"notebook"}`)
	ask(200, "PATCH", at+"/a.txt", `{"path":"`+id+`/d/moved.txt"}`)
	if m := ask(200, "GET", at+"/d?type=directory", ""); len(m["content"].([]any)) != 3 {
		t.Errorf("%v", m)
	}
	if m := ask(200, "GET", "/api/contents?content=1", ""); len(m["content"].([]any)) != 1 {
		t.Errorf("%v", m)
	}
	r.ask("ann", "DELETE", at+"/d/moved.txt", "", nil)
	for _, c := range []struct {
		status             int
		method, path, body string
	}{
		{404, "GET", at + "/d/moved.txt", ""},
		{404, "GET", "/api/contents/nowhere/x", ""},
		{403, "PUT", at, `{"type":"file","format":"text","content":""}`},
		{403, "DELETE", "/api/contents/", ""},
		{400, "PUT", at + "/x", `{"type":"file","format":"text"}`},
		{400, "PUT", at + "/x", `{"type":"file","format":"base64","content":"%"}`},
		{400, "PUT", at + "/x", `{"type":"file","format":"text","content":"","chunk":1}`},
		{400, "PUT", at + "/x", `{`},
		{400, "GET", at + "/n.ipynb?type=directory", ""},
		{404, "POST", at + "/d", `{"copy_from":"` + id + `/none"}`},
	} {
		ask(c.status, c.method, c.path, c.body)
	}
}

// Recorded exchanges are replayed.
func TestRecordings(t *testing.T) {
	dialecttest.Replay(t, "testdata/*.txtar", func(t *testing.T) http.Handler { return newRig(t, Options{}).Server })
}
