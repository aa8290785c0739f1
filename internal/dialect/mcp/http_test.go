package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// eras are the versions with sessions, the oldest first.
var eras = []string{"2024-11-05", "2025-03-26", "2025-06-18", lastSession}

// message is a request of the protocol; with a version it stands for itself.
func message(id int, method, params, version string) string {
	if version != "" {
		params = strings.TrimSuffix(params, "}")
		if params != "{" {
			params += ","
		}
		params += `"_meta":{"` + sdk.MetaKeyProtocolVersion + `":"` + version + `",` +
			`"io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func initialize(version, capabilities string) string {
	return message(1, "initialize", `{"protocolVersion":"`+version+`","capabilities":`+capabilities+
		`,"clientInfo":{"name":"t","version":"1"}}`, "")
}

// begin opens a session of the protocol, and returns the header of its requests.
func (r *rig) begin(owner, version, capabilities string) (header, negotiated string) {
	r.t.Helper()
	status, body, h := r.send("POST", r.url, owner, "", initialize(version, capabilities))
	if status != 200 {
		r.t.Fatalf("initialize: %d %s", status, body)
	}
	_, rest, _ := strings.Cut(body, `"protocolVersion":"`)
	negotiated, _, _ = strings.Cut(rest, `"`)
	header = sessionHeader + ": " + h.Get(sessionHeader) + "\n" + versionHeader + ": " + negotiated
	r.send("POST", r.url, owner, header, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return header, negotiated
}

const runPrint = `{"name":"run_code","arguments":{"code":"print hello\nmake x.txt"}}`

// Every version is served at one address. Versions before links get none. An initialize of
// a version without sessions is answered with the newest version that has them.
func TestVersions(t *testing.T) {
	r := newRig(t)
	for _, version := range append(eras, stateless, "1999-01-01") {
		header, negotiated := r.begin("ada", version, "{}")
		want := version
		if version == stateless || version == "1999-01-01" {
			want = lastSession
		}
		_, body, _ := r.send("POST", r.url, "ada", header, message(2, "tools/call", runPrint, ""))
		if negotiated != want || !strings.Contains(body, "hello") {
			t.Errorf("%s: %s, %s", version, negotiated, body)
		}
		if links := strings.Contains(body, "resource_link"); links != (want >= linksSince) {
			t.Errorf("%s: links: %v", version, links)
		}
	}
	header := versionHeader + ": " + stateless + "\nMcp-Method: tools/call\nMcp-Name: run_code"
	if status, body, _ := r.send("POST", r.url, "ada", header,
		message(1, "tools/call", runPrint, stateless)); status != 200 || !strings.Contains(body, "hello") {
		t.Errorf("%s: %d %s", stateless, status, body)
	}
	if c := r.client("ada", nil); c.InitializeResult().ProtocolVersion != stateless {
		t.Errorf("the SDK's client speaks %s", c.InitializeResult().ProtocolVersion)
	}
}

// An invalid message gets an error of the protocol, and the next message is answered.
func TestBadMessages(t *testing.T) {
	r := newRig(t)
	header, _ := r.begin("ada", lastSession, "{}")
	modern := versionHeader + ": " + stateless
	for _, tc := range []struct {
		name, header, body string
		status             int
		contains           string
	}{
		{"no JSON", header, `{`, 400, ""},
		{"nothing", header, ``, 400, ""},
		{"unknown method", header, message(3, "no/such", `{}`, ""), 400, "no/such"},
		{"unknown method, newer", modern + "\nMcp-Method: no/such", message(3, "no/such", `{}`, stateless), 404, "-32601"},
		{"unknown tool", header, message(3, "tools/call", `{"name":"rm"}`, ""), 200, "-32602"},
		{"arguments of a wrong type", header, message(3, "tools/call", `{"name":"run_code","arguments":[1]}`, ""), 200,
			"arguments: an object is needed"},
		{"an unknown session", sessionHeader + ": nope", message(3, "tools/list", `{}`, ""), 404, "session not found"},
		{"an unknown version", versionHeader + ": 1999-01-01", message(3, "tools/list", `{}`, ""), 400,
			"Unsupported protocol version"},
		{"a version of the future", versionHeader + ": 2099-01-01\nMcp-Method: tools/list",
			message(3, "tools/list", `{}`, "2099-01-01"), 400, "-32022"},
		{"an unknown resource", header, message(3, "resources/read", `{"uri":"airlock://sessions/s_x/files/y"}`, ""), 200,
			"error"},
		{"a foreign resource", header, message(3, "resources/read", `{"uri":"file:///etc/passwd"}`, ""), 200, "error"},
		{"a batch where there are none", header, `[` + message(3, "tools/list", `{}`, "") + `]`, 400, ""},
		{"no JSON in a type of text", header + "\nContent-Type: text/plain", message(3, "tools/list", `{}`, ""), 415, ""},
	} {
		status, body, _ := r.send("POST", r.url, "ada", tc.header, tc.body)
		if status != tc.status || !strings.Contains(body, tc.contains) {
			t.Errorf("%s: %d %s, want %d %s", tc.name, status, body, tc.status, tc.contains)
		}
	}
	if _, body, _ := r.send("POST", r.url, "ada", header, message(4, "tools/call", runPrint, "")); !strings.Contains(
		body, "hello") {
		t.Errorf("the next call: %s", body)
	}
	old, _ := r.begin("ada", "2025-03-26", "{}")
	batch := `[` + message(5, "tools/call", runPrint, "") + `,` + message(6, "ping", `{}`, "") + `]`
	if _, body, _ := r.send("POST", r.url, "ada", old, batch); !strings.Contains(body, "hello") {
		t.Errorf("a batch of 2025-03-26: %s", body)
	}
}

// The relay knows the methods of the service, which refuses an unknown one by its name.
func TestMethods(t *testing.T) {
	r := newRig(t)
	header, _ := r.begin("ada", lastSession, "{}")
	for _, method := range methods {
		_, body, _ := r.send("POST", r.url, "ada", header, message(3, method, `{}`, ""))
		if strings.Contains(body, strconv.Quote(method)+" unsupported") {
			t.Errorf("%s: %s", method, body)
		}
	}
}

// Every resource of the list can be read by its owner, by name and by the links of a result.
func TestListedResources(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	made := call1(t, c, "run_code", map[string]any{"code": "make x.txt\nmake ü b.csv\nmake deep/er.bin"})
	list, err := c.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	uris := []string{}
	for _, resource := range list.Resources {
		uris = append(uris, resource.URI)
	}
	for _, content := range made.Content {
		if link, ok := content.(*sdk.ResourceLink); ok {
			uris = append(uris, link.URI)
		}
	}
	if len(uris) != 6 {
		t.Errorf("listed and linked: %v", uris)
	}
	mallory := r.client("mallory", nil)
	for _, uri := range uris {
		got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil || got.Contents[0].Text != "made here" {
			t.Errorf("%s: %v %v", uri, got, err)
		}
		if _, err := mallory.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("another owner reads %s", uri)
		}
	}
}

func TestOrigins(t *testing.T) {
	r := newRig(t)
	for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
		if status, _, _ := r.send(method, r.url, "ada", "Origin: https://evil.example",
			message(1, "ping", "{}", "")); status != 403 {
			t.Errorf("%s from another site: %d", method, status)
		}
	}
	if status, _, _ := r.send("POST", r.url, "ada", "Origin: "+r.http.URL, initialize(lastSession, "{}")); status != 200 {
		t.Errorf("from our own page: %d", status)
	}
	if status, _, _ := r.send("POST", r.url, "", "", initialize(lastSession, "{}")); status != 401 {
		t.Errorf("without an owner: %d", status)
	}
	// httpd checks a proxy's host name against the configured names.
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(initialize(lastSession, "{}")))
	req.Host = "mcp.example.com"
	for name, value := range map[string]string{"Authorization": "Bearer ada", "Content-Type": "application/json",
		"Accept": "*/*"} {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	if w.Code != 200 {
		t.Errorf("behind a proxy: %d %s", w.Code, w.Body)
	}
}

// Private data is not for shared caches.
func TestCacheScope(t *testing.T) {
	r := newRig(t)
	call1(t, r.client("ada", nil), "run_code", map[string]any{"code": "make x.txt"})
	for method, want := range map[string]string{"resources/list": "private", "tools/list": "public"} {
		_, body, _ := r.send("POST", r.url, "ada", versionHeader+": "+stateless+"\nMcp-Method: "+method,
			message(1, method, "{}", stateless))
		if !strings.Contains(body, `"cacheScope":"`+want+`"`) {
			t.Errorf("%s: %s", method, body)
		}
	}
	session := sessionOf(t, call1(t, r.client("ada", nil), "write_file", map[string]any{"path": "x", "content": "secret"}))
	uri := "airlock://sessions/" + session + "/files/x"
	_, body, _ := r.send("POST", r.url, "ada", versionHeader+": "+stateless+"\nMcp-Method: resources/read\nMcp-Name: "+uri,
		message(1, "resources/read", `{"uri":"`+uri+`"}`, stateless))
	if !strings.Contains(body, `"cacheScope":"private"`) || !strings.Contains(body, "secret") {
		t.Errorf("resources/read: %s", body)
	}
}

func TestLargeBodies(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	if got := call1(t, c, "write_file", map[string]any{"path": "big",
		"content": strings.Repeat("x", maxContent)}); got.IsError {
		t.Errorf("3 MB: %s", textOf(got))
	}
	if got := call1(t, c, "write_file", map[string]any{"path": "big",
		"content": strings.Repeat("x", maxContent+1)}); !got.IsError || !strings.Contains(textOf(got), "upload_link") {
		t.Errorf("more than 3 MB: %s", textOf(got))
	}
	params := `{"name":"run_code","arguments":{"code":"` + strings.Repeat("x", 20<<20) + `"}}`
	if status, _, _ := r.send("POST", r.url, "ada", "", message(1, "tools/call", params, "")); status != 413 {
		t.Errorf("20 MB: %d", status)
	}
}

// In the oldest transport, another owner cannot post, and the address for posts is below
// the mount.
func TestEventTransport(t *testing.T) {
	r := newRig(t)
	endpoint, _ := r.listen("/sse")
	if !strings.HasPrefix(endpoint, r.http.URL+"/mcp/sse?") {
		t.Errorf("endpoint %s", endpoint)
	}
	if status, _, _ := r.send("POST", endpoint, "mallory", "", initialize("2024-11-05", "{}")); status != 404 {
		t.Errorf("another owner's POST: %d", status)
	}
	if status, _, _ := r.send("POST", endpoint, "ada", "", initialize("2024-11-05", "{}")); status != 202 {
		t.Errorf("the owner's POST: %d", status)
	}
	if status, _, _ := r.send("PUT", r.url+"/sse", "ada", "", ""); status != 405 {
		t.Errorf("PUT: %d", status)
	}
}

// gpt-oss has one tool. Its connection is its interpreter.
func TestPython(t *testing.T) {
	r := newRig(t)
	c := r.connect(&sdk.SSEClientTransport{Endpoint: r.url + "/python/sse",
		HTTPClient: &http.Client{Transport: asOwner{"ada"}}}, nil)
	if is := c.InitializeResult(); is.ServerInfo.Name != "python" ||
		!strings.Contains(is.Instructions, "stateful environment") {
		t.Errorf("server %+v", is)
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "python" {
		t.Fatalf("tools %v, %v", list, err)
	}
	for _, tc := range [][2]string{{"print a", "a\n"}, {"error x", "Traceback\nValueError: x\n"},
		{"none", "[no output: use print to see a value]"}} {
		if got := textOf(call1(t, c, "python", map[string]any{"code": tc[0]})); got != tc[1] {
			t.Errorf("%s: %q", tc[0], got)
		}
	}
	r.live.mu.Lock()
	sessions := len(r.live.count)
	r.live.mu.Unlock()
	if sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
	// Disconnecting a client ends its program.
	endpoint, vanish := r.listen("/python/sse")
	r.send("POST", endpoint, "ada", "", initialize("2024-11-05", "{}"))
	r.send("POST", endpoint, "ada", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	r.send("POST", endpoint, "ada", "", message(2, "tools/call", `{"name":"python","arguments":{"code":"wait"}}`, ""))
	r.live.awaitCells(4)
	vanish()
	r.live.awaitCancels(1)
}

// listen opens a stream of the oldest transport, and returns the address for posts.
func (r *rig) listen(path string) (endpoint string, vanish func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer ada")
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); stream.Body.Close() })
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	return r.http.URL + strings.TrimPrefix(lines.Text(), "data: "), cancel
}

// An older client cancels with a message. A repeated cancel has no effect.
func TestCancelMessage(t *testing.T) {
	r := newRig(t)
	header, _ := r.begin("ada", lastSession, "{}")
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.send("POST", r.url, "ada", header, message(7, "tools/call",
			`{"name":"run_code","arguments":{"code":"wait","timeout_seconds":30}}`, ""))
	}()
	r.live.awaitCells(1)
	for range 2 {
		r.send("POST", r.url, "ada", header, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	}
	r.live.awaitCancels(1)
	<-done
	if _, body, _ := r.send("POST", r.url, "ada", header, message(8, "tools/call", runPrint, "")); !strings.Contains(
		body, "hello") {
		t.Errorf("the next call: %s", body)
	}
}

func TestParallelCalls(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			want := fmt.Sprint("number ", i)
			result, err := c.CallTool(t.Context(), &sdk.CallToolParams{
				Name: "run_code", Arguments: map[string]any{"code": "print " + want}})
			if err != nil || !strings.Contains(textOf(result), want+"\n") {
				t.Errorf("%s: %v, %v", want, result, err)
			}
		})
	}
	all.Wait()
}

// A long answer begins early and is kept alive, so that the client does not time out. A
// quick answer is unchanged.
func TestKeepAlive(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := keepAlive(w, time.Millisecond, time.Millisecond)
		if r.URL.Path == "/quick" {
			a.stop()
			a.WriteHeader(http.StatusTeapot)
			return
		}
		defer a.stop()
		for !a.begunAlready() {
			<-time.After(time.Millisecond)
		}
		a.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(a, "data: x\n\n")
	}))
	defer server.Close()
	for path, want := range map[string]int{"/quick": http.StatusTeapot, "/slow": http.StatusOK} {
		response, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want || path == "/slow" && !strings.HasPrefix(string(body), ": ok\n\n") {
			t.Errorf("%s: %d %q, %v", path, response.StatusCode, body, err)
		}
	}
}

func (a *aliveWriter) begunAlready() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// upload_link's address accepts one file from any caller with the link.
func TestUploadLink(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	said := textOf(call1(t, c, "upload_link", map[string]any{"path": "data/big.csv"}))
	_, rest, _ := strings.Cut(said, "-T FILE ")
	address, _, _ := strings.Cut(rest, "\n")
	for i, want := range []int{201, 404} {
		if status, body, _ := r.send("PUT", address, "", "", "a,b\n"); status != want {
			t.Errorf("%d: %d %s", i, status, body)
		}
	}
	session := sessionOf(t, &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}})
	if got := textOf(call1(t, c, "read_file", map[string]any{
		"session": session, "path": "data/big.csv"})); !strings.HasSuffix(got, "a,b\n") {
		t.Errorf("stored: %q", got)
	}
}

// Addresses of files are ASCII, since header fields repeat them and the SDK does not
// compare encoded addresses. Clients reach each file by its link.
func TestLinksOfAnyName(t *testing.T) {
	r := newRig(t)
	for _, c := range []*sdk.ClientSession{r.client("ada", nil), r.local(nil)} {
		for _, name := range []string{"größe.txt", "a b/日本.txt", "100%.txt", "q?x#y.txt", "=?base64?eA==?="} {
			made := call1(t, c, "run_code", map[string]any{"code": "make " + name})
			link, _ := made.Content[len(made.Content)-1].(*sdk.ResourceLink)
			if link == nil || strings.ContainsFunc(link.URI, func(r rune) bool { return r > '~' || r <= ' ' }) {
				t.Fatalf("%s: %v", name, made.Content)
			}
			read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI})
			if err != nil || read.Contents[0].Text != "made here" {
				t.Errorf("%s at %s: %v, %v", name, link.URI, read, err)
			}
		}
	}
}

// A client that does not answer pings stays connected: many hosts do not.
func TestSilentClient(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		here, there := sdk.NewInMemoryTransports()
		session, err := r.server.newSDK("airlock", "").Connect(t.Context(), there, nil)
		if err != nil {
			t.Fatal(err)
		}
		client, err := here.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan jsonrpc.Message, 100)
		go func() {
			defer close(heard)
			for {
				m, err := client.Read(context.WithoutCancel(t.Context()))
				if err != nil {
					return
				}
				heard <- m
			}
		}()
		for _, text := range []string{initialize(lastSession, "{}"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
			m, err := jsonrpc.DecodeMessage([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(24 * time.Hour)
		if n := len(heard); n != 1 {
			t.Errorf("heard %d messages, want the answer to initialize", n)
		}
		ping, err := jsonrpc.DecodeMessage([]byte(message(2, "ping", `{}`, "")))
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Write(t.Context(), ping); err != nil {
			t.Errorf("a day later: %v", err)
		}
		_ = client.Close()
		_ = session.Wait()
		for range heard {
		}
	})
}

// onWrite calls a function after the first write.
type onWrite struct {
	http.ResponseWriter
	do func(written []byte)
}

func (w *onWrite) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if w.do != nil {
		w.do(p)
		w.do = nil
	}
	return n, err
}

func (w *onWrite) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A message that arrives before the server has connected its session waits until it has, because
// the SDK would answer a session with all versions until then.
func TestPostBeforeConnected(t *testing.T) {
	r := newRig(t)
	accepted := make(chan int, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.handler.ServeHTTP(&onWrite{w, func(event []byte) {
			_, path, _ := strings.Cut(string(event), "data: /mcp")
			go func() {
				status, _, _ := r.send("POST", r.url+strings.TrimSpace(path), "ada", "", initialize(eras[0], "{}"))
				accepted <- status
			}()
			select {
			case status := <-accepted:
				t.Error("the message was accepted early")
				accepted <- status
			case <-time.After(50 * time.Millisecond):
			}
		}}, req)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer ada")
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if status := <-accepted; status != http.StatusAccepted {
		t.Errorf("the message was answered with %d", status)
	}
}
