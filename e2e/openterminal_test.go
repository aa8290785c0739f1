package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
)

// openWebUI asks as the backend of Open WebUI 0.12 does for one of its users, in one
// of their chats.
type openWebUI struct {
	*service
	key, user, chat string
}

func (o openWebUI) header() []string {
	h := []string{}
	for name, value := range map[string]string{"Authorization": "Bearer " + o.key, "X-User-Id": o.user,
		"X-Session-Id": o.chat} {
		if strings.TrimPrefix(value, "Bearer ") != "" {
			h = append(h, name, value)
		}
	}
	return h
}

// ask expects a status, and reads the answer if it is wanted.
func (o openWebUI) ask(method, path string, status int, body, to any) answer {
	o.t.Helper()
	text, header := "", o.header()
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			o.t.Fatal(err)
		}
		text, header = string(raw), append(header, "Content-Type", "application/json")
	}
	got := o.do(method, "/terminal"+path, text, header...)
	if got.status != status {
		o.t.Errorf("%s %s: %d, want %d: %.500s", method, path, got.status, status, got.body)
	} else if to != nil {
		got.decode(o.t, to)
	}
	return got
}

type terminalCommand struct {
	ID       string `json:"id"`
	Cwd      string `json:"cwd"`
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"`
	Output   []struct{ Type, Data string }
	Next     int64 `json:"next_offset"`

	Truncated bool
}

func (c terminalCommand) text() string {
	var b strings.Builder
	for _, o := range c.Output {
		b.WriteString(o.Data)
	}
	return b.String()
}

func (o openWebUI) run(command string) terminalCommand {
	o.t.Helper()
	var c terminalCommand
	o.ask("POST", "/execute?wait=30", 200, map[string]any{"command": command}, &c)
	return c
}

func (o openWebUI) expect(command, want string) {
	o.t.Helper()
	if c := o.run(command); c.text() != want || c.Status != "done" || c.ExitCode == nil || *c.ExitCode != 0 {
		o.t.Errorf("%s: %q, want %q (%+v)", command, c.text(), want, c)
	}
}

func TestOpenTerminalCommands(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	o := openWebUI{serve(t, who, dataFolder(t, who), "--drain-time", "1s"), "", "u1", "chat1"}
	o.expect("echo one; echo two >&2; stty size; pwd", "one\r\ntwo\r\n24 80\r\n/workspace\r\n")
	if c := o.run("exit 3"); c.ExitCode == nil || *c.ExitCode != 3 || c.Status != "done" || c.Cwd != "/workspace" {
		t.Errorf("%+v", c)
	}
	// It goes on when its answer came, and reads consume nothing.
	var c, again terminalCommand
	o.ask("POST", "/execute", 200, map[string]any{"command": "echo ready; read line; echo got $line; sleep 600"}, &c)
	if c.Status != "running" || c.ExitCode != nil {
		t.Errorf("%+v", c)
	}
	at := "/execute/" + c.ID
	o.ask("POST", at+"/input", 200, map[string]any{"input": `x y\n`}, nil)
	eventually(t, waitTime, "its answer", func() bool {
		o.ask("GET", at+"/status?offset=0", 200, nil, &again)
		return strings.HasSuffix(again.text(), "got x y\r\n")
	})
	var rest terminalCommand
	o.ask("GET", fmt.Sprintf("%s/status?offset=%d", at, again.Next), 200, nil, &rest)
	if rest.text() != "" || rest.Next != again.Next {
		t.Errorf("read twice: %+v", rest)
	}
	o.ask("GET", at+"/status?offset=null&tail=1", 200, nil, &rest)
	if rest.text() != "got x y\r\n" || !rest.Truncated {
		t.Errorf("tail: %+v", rest)
	}
	// Ctrl-C, which never arrives in the original.
	o.ask("POST", at+"/input", 200, map[string]any{"input": `\x03`}, nil)
	o.ask("GET", at+"/status?wait=30", 200, nil, &rest)
	if rest.ExitCode == nil || *rest.ExitCode != 130 && *rest.ExitCode != -2 {
		t.Errorf("interrupted: %+v", rest)
	}
	o.ask("POST", at+"/input", 400, map[string]any{"input": "x"}, nil)
	// Killed.
	o.ask("POST", "/execute", 200, map[string]any{"command": "sleep 600", "env": map[string]string{"A": "b"}}, &c)
	for range 2 {
		o.ask("DELETE", "/execute/"+c.ID, 200, nil, nil)
	}
	o.ask("GET", "/execute/"+c.ID+"/status?wait=30", 200, nil, &rest)
	if rest.Status != "killed" || rest.ExitCode == nil || *rest.ExitCode != -15 {
		t.Errorf("killed: %+v", rest)
	}
	var list []struct{ ID, Command, Status string }
	o.ask("GET", "/execute", 200, nil, &list)
	if len(list) != 4 || list[3].Command != "sleep 600" || list[3].Status != "killed" {
		t.Errorf("%+v", list)
	}
	// The working directory is one of the chat's.
	o.expect("mkdir -p /workspace/deep/er", "")
	o.ask("POST", "/files/cwd", 200, map[string]any{"path": "deep"}, nil)
	o.expect("pwd", "/workspace/deep\r\n")
	other := o
	other.chat = "chat2"
	other.expect("pwd", "/workspace\r\n")
	other.ask("GET", "/execute/"+c.ID+"/status", 404, nil, nil)
	o.ask("POST", "/files/cwd", 404, map[string]any{"path": "/nowhere"}, nil)
	o.ask("POST", "/execute", 400, map[string]any{"command": "pwd", "cwd": "/nowhere"}, nil)
	got := o.ask("POST", "/execute", 422, map[string]any{}, nil)
	if string(got.body) != `{"detail":[{"type":"missing","loc":["body","command"],"msg":"Field required","input":{}}]}` {
		t.Errorf("%s", got.body)
	}
	o.ask("GET", "/api/v1/policies", 404, nil, nil) // 2xx would make it an orchestrator
}

// The answers of the original, played against the service.
func TestOpenTerminalRecordings(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--drain-time", "1s")
	dialecttest.Replay(t, "testdata/openterminal/*.txtar", func(t *testing.T) http.Handler {
		target, err := url.Parse(s.url + "/terminal")
		if err != nil {
			t.Fatal(err)
		}
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("X-User-Id", t.Name())
		}}
	})
}

// Files are where commands see them, links and other folders included.
func TestOpenTerminalFiles(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	o := openWebUI{serve(t, who, dataFolder(t, who), "--drain-time", "1s"), "", "u1", "c"}
	read := func(query, want string) {
		t.Helper()
		var got struct{ Content string }
		if o.ask("GET", "/files/read?path="+query, 200, nil, &got); got.Content != want {
			t.Errorf("%s: %q, want %q", query, got.Content, want)
		}
	}
	o.expect("mkdir -p real/x; echo deep > real/x/f; ln -s real link; ln -s /tmp/t.txt out; echo tmp > /tmp/t.txt; "+
		"ln -s /etc etc", "")
	read("link/x/f", "deep\n")
	read("~/link/x/f", "deep\n")
	read("/tmp/t.txt", "tmp\n")
	read("out", "tmp\n")
	var list struct {
		Entries []struct {
			Name, Type string
			Writable   bool
		}
	}
	o.ask("GET", "/files/list", 200, nil, &list)
	if got := fmt.Sprint(
		list.Entries); got != "[{etc directory true} {link directory true} {out file true} {real directory true}]" {
		t.Errorf("%s", got)
	}
	o.ask("POST", "/files/write", 200, map[string]any{"path": "link/new.txt", "content": "n"}, nil)
	o.expect("cat real/new.txt", "n")
	o.ask("POST", "/files/write", 403, map[string]any{"path": "etc/alternatives/x", "content": "n"}, nil)
	o.ask("POST", "/files/write", 200, map[string]any{"path": "out", "content": "tmp2\n"}, nil)
	o.expect("cat /tmp/t.txt; readlink out", "tmp2\r\n/tmp/t.txt\r\n")
	// CR LF stays what it is.
	o.ask("POST", "/files/write", 200, map[string]any{"path": "w.txt", "content": "a\r\nb\r\n"}, nil)
	o.ask("POST", "/files/replace", 200, map[string]any{"path": "w.txt",
		"replacements": []any{map[string]any{"target": "a", "replacement": "c"}}}, nil)
	read("w.txt", "c\r\nb\r\n")
	// Pictures come as they are, other bytes not at all.
	o.expect(`printf '\x89PNG\r\n\x00' > p.png; printf '\x00\xff' > b.bin; head -c 11000000 /dev/zero | tr '\\0' x > /tmp/large`, "")
	if got := o.ask("GET", "/files/read?path=p.png", 200, nil, nil); got.header.Get("Content-Type") != "image/png" ||
		string(got.body) != "\x89PNG\r\n\x00" {
		t.Errorf("%v %q", got.header, got.body)
	}
	o.ask("GET", "/files/read?path=b.bin", 415, nil, nil)
	o.ask("GET", "/files/read?path=/tmp/large", 413, nil, nil)
	got := o.ask("POST", "/files/archive", 200, map[string]any{"paths": []string{"real", "w.txt", "/tmp/t.txt"}}, nil)
	z, err := zip.NewReader(bytes.NewReader(got.body), int64(len(got.body)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if fmt.Sprint(names) != "[real/new.txt real/x/f w.txt t.txt]" {
		t.Errorf("%v", names)
	}
	// Names begin at the path that was asked for, and dates are those of the files.
	got = o.ask("POST", "/files/archive", 200, map[string]any{"paths": []string{"real/x"}}, nil)
	z, err = zip.NewReader(bytes.NewReader(got.body), int64(len(got.body)))
	if err != nil || len(z.File) != 1 || z.File[0].Name != "x/f" || time.Since(z.File[0].Modified).Abs() > time.Hour ||
		!strings.Contains(got.header.Get("Content-Disposition"), `"x.zip"`) {
		t.Errorf("%v %v %+v", err, got.header, z.File[0])
	}
	// They outlive the processes, and the service.
	o.stop()
	o.service = serve(t, who, o.data, "--drain-time", "1s")
	read("w.txt", "c\r\nb\r\n")
}

// What one user has no other user finds, on any address.
func TestOpenTerminalUsers(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	data := dataFolder(t, who)
	env := []string{"AIRLOCK_DATA=" + data}
	s := serve(t, who, data, "--drain-time", "1s")
	mine, other := newKey(t, who, env, "webui"), newKey(t, who, env, "else")
	alice := openWebUI{s, mine, "../alice", "c"}
	var c terminalCommand
	alice.ask("POST", "/execute", 200, map[string]any{"command": "echo secret > secret.txt; python3 -m http.server 8123"},
		&c)
	var shell struct{ ID string }
	alice.ask("POST", "/api/terminals", 200, map[string]any{}, &shell)
	for name, o := range map[string]openWebUI{
		"another user": {s, mine, "bob", "c"}, "nobody": {s, mine, "", "c"},
		"the same name of another key": {s, other, "../alice", "c"},
	} {
		o.ask("GET", "/execute/"+c.ID+"/status", 404, nil, nil)
		o.ask("POST", "/execute/"+c.ID+"/input", 404, map[string]any{"input": "x"}, nil)
		o.ask("DELETE", "/execute/"+c.ID, 404, nil, nil)
		o.ask("GET", "/api/terminals/"+shell.ID, 404, nil, nil)
		o.ask("DELETE", "/api/terminals/"+shell.ID, 404, nil, nil)
		o.ask("GET", "/api/terminals/user/output", 404, nil, nil)
		o.ask("POST", "/api/terminals/user/input", 404, map[string]any{"input": "x"}, nil)
		o.ask("GET", "/proxy/8123/secret.txt", 404, nil, nil)
		for _, path := range []string{"/files/search?query=secret", "/files/matches?query=secret", "/files/grep?query=secret",
			"/files/glob?pattern=*", "/files/list", "/ports"} {
			if got := o.ask("GET", path, 200, nil, nil); strings.Contains(string(got.body), "secret.txt") ||
				strings.Contains(string(got.body), "8123") {
				t.Errorf("%s sees %s", name, got.body)
			}
		}
		for _, path := range []string{"secret.txt", "/workspace/secret.txt", "/home/user/secret.txt",
			"/proc/self/cwd/secret.txt"} {
			o.ask("GET", "/files/read?path="+path, 404, nil, nil)
		}
		for _, path := range []string{"/execute", "/api/terminals"} {
			if got := o.ask("GET", path, 200, nil, nil); string(got.body) != "[]" {
				t.Errorf("%s sees %s", name, got.body)
			}
		}
		if code := closeCode(o.dial(shell.ID, `{"type":"auth","token":"`+o.key+`"}`)); code != 4004 {
			t.Errorf("%s at the terminal: %d", name, code)
		}
		if got := o.run("ls; ps aux | grep -c [h]ttp.server"); got.text() != "0\r\n" {
			t.Errorf("%s: %q", name, got.text())
		}
	}
	for _, key := range []string{"", "wrong", mine + "x"} {
		got := openWebUI{s, key, "../alice", "c"}.ask("GET", "/files/list", 401, nil, nil)
		if string(got.body) != `{"detail":"Invalid API key"}` {
			t.Errorf("%s", got.body)
		}
	}
	if code := closeCode(openWebUI{s, "", "../alice", "c"}.dial(shell.ID, `{"type":"auth","token":"wrong"}`)); code != 4001 {
		t.Errorf("a wrong token: %d", code)
	}
	alice.ask("GET", "/execute/"+c.ID+"/status", 200, nil, &c)
	if c.Status != "running" {
		t.Errorf("%+v", c)
	}
	var ports struct{ Ports []struct{ Port int } }
	eventually(t, waitTime, "its port", func() bool {
		alice.ask("GET", "/ports", 200, nil, &ports)
		return len(ports.Ports) == 1 && ports.Ports[0].Port == 8123
	})
	got := alice.ask("GET", "/proxy/8123/secret.txt?a=b", 200, nil, nil)
	if string(got.body) != "secret\n" || got.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%q %v", got.body, got.header)
	}
	alice.ask("POST", "/proxy/8123/", 501, map[string]any{}, nil) // of the server
	alice.ask("GET", "/proxy/8124/", 404, nil, nil)
	alice.ask("GET", "/proxy/99999/", 422, nil, nil)
	var results struct{ Results []struct{ Name string } }
	for _, path := range []string{"/files/search?query=SECRET", "/files/matches?query=secret"} {
		if alice.ask("GET", path, 200, nil, &results); len(results.Results) != 1 || results.Results[0].Name != "secret.txt" {
			t.Errorf("%s: %+v", path, results)
		}
	}
	// A page of another site shows a key, or is refused.
	foreign := []string{"Origin", "https://chat.example", "Content-Type", "application/json"}
	pre := s.do("OPTIONS", "/terminal/execute", "",
		append(foreign, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")...)
	if pre.status != 204 || pre.header.Get("Access-Control-Allow-Origin") != "*" ||
		!strings.Contains(pre.header.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("%d %v", pre.status, pre.header)
	}
	if got := s.do("POST", "/terminal/execute?wait=30", `{"command":"id -u"}`, append(foreign, "Authorization", "Bearer "+mine)...); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// On loopback no key is needed, but for a page of another site.
func TestOpenTerminalForeignPage(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--drain-time", "1s")
	for _, key := range []string{"", "wrong"} {
		got := s.do("POST", "/terminal/execute?wait=30", `{"command":"id"}`, "Origin", "https://evil.example", "Authorization", "Bearer "+key, "Content-Type", "text/plain")
		if got.status != http.StatusForbidden && got.status != http.StatusUnauthorized {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	o := openWebUI{s, "", "", ""}
	var shell struct{ ID string }
	o.ask("POST", "/api/terminals", 200, map[string]any{}, &shell)
	if code := closeCode(o.dial(shell.ID, `{"type":"auth","token":""}`, "Origin", "https://evil.example")); code != 4001 {
		t.Errorf("%d", code)
	}
}

// dial opens the WebSocket of a terminal and sends a first message.
func (o openWebUI) dial(id, first string, more ...string) *websocket.Conn {
	o.t.Helper()
	h := http.Header{}
	header := append(o.header(), more...)
	for i := 0; i < len(header); i += 2 {
		if header[i] != "Authorization" { // browsers cannot
			h.Set(header[i], header[i+1])
		}
	}
	conn, _, err := websocket.Dial(o.t.Context(), strings.Replace(o.url, "http", "ws", 1)+"/terminal/api/terminals/"+id,
		&websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	if err := conn.Write(o.t.Context(), websocket.MessageText, []byte(first)); err != nil {
		o.t.Fatal(err)
	}
	return conn
}

// closeCode reads to the end of a connection.
func closeCode(conn *websocket.Conn) websocket.StatusCode {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func TestOpenTerminalShell(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	o := openWebUI{serve(t, who, dataFolder(t, who), "--drain-time", "1s"), "", "u", ""}
	terminals := func() (list []struct{ ID string }) {
		o.ask("GET", "/api/terminals", 200, nil, &list)
		return list
	}
	open := func() (string, *websocket.Conn) {
		t.Helper()
		var shell struct{ ID string }
		o.ask("POST", "/api/terminals", 200, map[string]any{}, &shell)
		return shell.ID, o.dial(shell.ID, `{"type":"auth","token":"","chat_id":"c"}`)
	}
	until := func(conn *websocket.Conn, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), waitTime)
		defer cancel()
		for seen := ""; !strings.Contains(seen, want); {
			kind, data, err := conn.Read(ctx)
			if err != nil || kind != websocket.MessageBinary {
				t.Fatalf("%v %v after %q", kind, err, seen)
			}
			seen += string(data)
		}
	}
	send := func(conn *websocket.Conn, kind websocket.MessageType, text string) {
		t.Helper()
		if err := conn.Write(t.Context(), kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	id, conn := open()
	until(conn, "$ ")
	if code := closeCode(o.dial(id, `{"type":"auth","token":""}`)); code != 4009 {
		t.Errorf("a second page: %d", code)
	}
	for _, nonsense := range []string{"{", `{"type":"resize","cols":-1,"rows":99999999}`, `{"type":"resize"}`, `[]`, `{"type":"future","v":9}`} {
		send(conn, websocket.MessageText, nonsense)
	}
	send(conn, websocket.MessageText, `{"type":"resize","cols":101,"rows":33}`)
	send(conn, websocket.MessageBinary, "stty size; echo $((6*7)) > n\n")
	until(conn, "33 101")
	o.expect("cat n", "42\r\n") // the same files as those of commands
	// A model reads the shell of its chat, and types at it.
	inChat := o
	inChat.chat = "c"
	var shown struct{ Output string }
	if inChat.ask("GET", "/api/terminals/user/output", 200, nil, &shown); !strings.Contains(shown.Output, "33 101") {
		t.Errorf("%+v", shown)
	}
	inChat.ask("POST", "/api/terminals/user/input", 200, map[string]any{"input": "echo from the $((40+2)) model\n"}, nil)
	until(conn, "from the 42 model")
	o.ask("GET", "/api/terminals/user/output", 404, nil, nil)
	send(conn, websocket.MessageBinary, "exit\n")
	if code := closeCode(conn); code != websocket.StatusNormalClosure {
		t.Errorf("exit: %d", code)
	}
	// A page that leaves, and one that does not read while its shell writes.
	_, conn = open()
	until(conn, "$ ")
	conn.CloseNow()
	eventually(t, waitTime, "the shell's end", func() bool { return len(terminals()) == 0 })
	_, conn = open()
	until(conn, "$ ")
	send(conn, websocket.MessageBinary, "yes\n")
	o.expect("echo others go on", "others go on\r\n")
	conn.CloseNow()
	eventually(t, waitTime, "the shell's end", func() bool { return len(terminals()) == 0 })
	// First messages that are none.
	for _, first := range []string{"", "{", `{"type":"resize"}`, `[1]`, strings.Repeat("x", 1<<19)} {
		var shell struct{ ID string }
		o.ask("POST", "/api/terminals", 200, map[string]any{}, &shell)
		if code := closeCode(o.dial(shell.ID, first)); code != 4001 {
			t.Errorf("%.20q: %d", first, code)
		}
		o.ask("DELETE", "/api/terminals/"+shell.ID, 200, nil, nil)
	}
	if code := closeCode(o.dial("nope", `{"type":"auth","token":""}`)); code != 4004 {
		t.Errorf("nothing: %d", code)
	}
	// Too many.
	for range 4 {
		o.ask("POST", "/api/terminals", 200, map[string]any{}, nil)
	}
	o.ask("POST", "/api/terminals", 429, map[string]any{}, nil)
	for range 16 {
		o.ask("POST", "/execute", 200, map[string]any{"command": "sleep 600"}, nil)
	}
	o.ask("POST", "/execute", 429, map[string]any{"command": "sleep 600"}, nil)
	// More than is kept: the newest stays, and the answer says so.
	other := o
	other.user = "loud"
	c := other.run("seq 400000")
	if !strings.HasSuffix(c.text(), "400000\r\n") || len(c.text()) > 3<<20 {
		t.Errorf("%d bytes, %+v", len(c.text()), c.Status)
	}
}
