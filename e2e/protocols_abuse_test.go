package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// connectFrame is a message of a Connect stream.
func connectFrame(text string) string {
	n := len(text)
	return string([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + text
}

// Clients that stop in the middle of a request, or never read the answer, hold up nobody
// else, on any of the protocols.
func TestProtocolsStalledClients(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--drain-time", "1s")
	a := sandboxAPI{s, "e2b_0000"}
	sandbox := a.create()
	on := fmt.Sprintf("E2b-Sandbox-Id: %s\r\nX-Access-Token: %s\r\nE2b-Sandbox-Port: ", sandbox.ID, sandbox.Token)
	const loud = `print(\"x\" * 1000 + \"\\n\", end=\"\")`
	requests := []struct{ head, body string }{
		{"POST /e2b/v2/sandboxes", `{"templateID":"ba`},
		{"POST /e2b/execute\r\n" + on + "49999", `{"code":"1 +`},
		{"POST /e2b/execute\r\n" + on + "49999", `{"code":"while True: ` + loud + `"}`},
		{"POST /e2b/process.Process/Start\r\n" + on + "49983\r\nContent-Type: application/connect+json", connectFrame(`{"process":{"cmd":"/usr/bin/yes"}}`)},
		{"POST /e2b/process.Process/Start\r\n" + on + "49983\r\nContent-Type: application/connect+json", connectFrame(`{"process"`)[:9]},
		{"POST /e2b/process.Process/StreamInput\r\n" + on + "49983\r\nContent-Type: application/connect+json", connectFrame(`{"start":{"process":{"pid":1}}}`)},
		{"POST /e2b/files?path=half\r\n" + on + "49983\r\nContent-Type: application/octet-stream", "half"},
		{"POST /dify/v1/sandbox/run\r\nX-Api-Key: k", `{"language":"python3","code":"pri`},
		{"POST /dify/v1/sandbox/run\r\nX-Api-Key: k", `{"language":"python3","code":"print('x' * (10 << 20))"}`},
		{"POST /terminal/execute?wait=30", `{"command":"yes`},
		{"POST /terminal/execute?wait=300", `{"command":"yes"}`},
		{"POST /terminal/files/upload\r\nContent-Type: multipart/form-data; boundary=b",
			"--b\r\nContent-Disposition: form-data; name=file; filename=f\r\n\r\nhal"},
	}
	address := strings.TrimPrefix(s.url, "http://")
	var open []net.Conn
	for range 3 {
		for _, r := range requests {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			open = append(open, conn)
			line, more, _ := strings.Cut(r.head, "\r\n")
			if more != "" {
				more += "\r\n"
			}
			if !strings.Contains(more, "Content-Type") {
				more += "Content-Type: application/json\r\n"
			}
			length := len(r.body)
			if !strings.HasSuffix(r.body, "}") || strings.Contains(line, "StreamInput") {
				length += 1000 // which never come
			}
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s", line, address, more, length, r.body)
		}
	}
	works := func(when string) {
		t.Helper()
		other := a.create()
		if got := a.on(other.ID, other.Token, 49999, "POST", "/execute", `{"code":"6 * 7"}`); !strings.Contains(string(got.body), `"text":"42"`) {
			t.Errorf("%s: %s", when, got.body)
		}
		if got := a.call("DELETE", "/sandboxes/"+other.ID, ""); got.status != http.StatusNoContent {
			t.Errorf("%s: %d %s", when, got.status, got.body)
		}
		if got, err := (difyClient{s, "k"}).execute("python3", "", "print(6 * 7)"); got != "42\n" || err != nil {
			t.Errorf("%s: %q %v", when, got, err)
		}
		openWebUI{s, "", "other", "c"}.expect("echo 42", "42\r\n")
	}
	works("beside clients that stall")
	for _, conn := range open {
		conn.Close()
	}
	works("when they have left")
	// The sandbox that they were at goes on: what ran for who left was interrupted.
	if got := a.on(sandbox.ID, sandbox.Token, 49999, "POST", "/execute", `{"code":"'still'"}`); !strings.Contains(string(got.body), `"text":"still"`) {
		t.Errorf("%s", got.body)
	}
	if got := a.on(sandbox.ID, sandbox.Token, 49983, "GET", "/files?path=half", ""); got.status != http.StatusNotFound {
		t.Errorf("half of a file is there: %d %q", got.status, got.body)
	}
}

// Terminals beyond what a sandbox may have are refused, and those that were not do not
// stay.
func TestE2BFloodOfTerminals(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--drain-time", "1s")
	a := sandboxAPI{s, "e2b_0000"}
	sandbox := a.create()
	on := func(call, body string, headers ...string) answer {
		return a.on(sandbox.ID, sandbox.Token, 49983, "POST", "/process.Process/"+call, body, headers...)
	}
	var mu sync.Mutex
	count := map[string]int{}
	var clients sync.WaitGroup
	for range 200 {
		clients.Go(func() {
			got := on("Start", connectFrame(`{"process":{"cmd":"/bin/sleep","args":["1000"]},"pty":{"size":{"cols":80,"rows":24}}}`),
				"Content-Type", "application/connect+json", "Connect-Timeout-Ms", "5000")
			mu.Lock()
			defer mu.Unlock()
			for _, word := range []string{"resource_exhausted", "deadline_exceeded"} {
				if got.status == http.StatusOK && strings.Contains(string(got.body), word) {
					count[word]++
					return
				}
			}
			t.Errorf("neither refused nor ended in time: %d %q", got.status, got.body)
		})
	}
	clients.Wait()
	if count["resource_exhausted"] == 0 || count["resource_exhausted"]+count["deadline_exceeded"] != 200 {
		t.Errorf("%v", count)
	}
	eventually(t, waitTime, "the end of all", func() bool { return string(on("List", "{}").body) == "{}" })
	if got := on("Start", connectFrame(`{"process":{"cmd":"/bin/echo","args":["on"]}}`), "Content-Type", "application/connect+json"); !strings.Contains(string(got.body), "b24K") {
		t.Errorf("%q", got.body)
	}
}

// A client of a later version is served what is known, and told what is not.
func TestE2BFromTheFuture(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--drain-time", "1s")
	a := sandboxAPI{s, "e2b_0000"}
	if got := a.call("POST", "/v2/sandboxes", `{"templateID":"base","future":{"a":[1]},"network":{"future":true}}`); got.status != http.StatusCreated {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, path := range []string{"/v9/sandboxes", "/sandboxes/x/teleport", "/v2/templates"} {
		if got := a.call("POST", path, `{}`); got.status != http.StatusNotImplemented {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	sandbox := a.create()
	for _, row := range []struct {
		port         int
		path, body   string
		header       []string
		status       int
		word, reason string
	}{
		{49983, "/process.Process/List", `{"future":1}`, nil, 200, "{}", "unknown fields are ignored"},
		{49983, "/process.Process/Teleport", `{}`, nil, 404, "Teleport", "an unknown procedure"},
		{49983, "/process.Process/List", `{}`, []string{"Connect-Protocol-Version", "9"}, 400, "invalid_argument", "another version of Connect"},
		{49983, "/process.Process/List", `{}`, []string{"Content-Type", "application/cbor"}, 415, "", "another codec"},
		{49983, "/process.Process/List", `{}`, []string{"Content-Encoding", "zstd"}, 501, "unimplemented", "another compression"},
		{49983, "/process.Process/SendSignal", `{"process":{"pid":1},"signal":"SIGNAL_FUTURE"}`, nil, 400, "SIGNAL_SIGTERM", "an unknown value"},
		{49999, "/execute", `{"code":"1 + 1","future":true}`, nil, 200, `"text":"2"`, "unknown fields are ignored"},
		{49999, "/v2/execute", `{"code":"1"}`, nil, 404, "", "an unknown address"},
	} {
		if got := a.on(sandbox.ID, sandbox.Token, row.port, "POST", row.path, row.body,
			row.header...); got.status != row.status || !strings.Contains(string(got.body), row.word) {
			t.Errorf("%s: %d %s", row.reason, got.status, got.body)
		}
	}
}

// A thousand sandboxes are made and killed, and nothing of them is left.
func TestE2BThousandSandboxes(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--drain-time", "1s")
	a := sandboxAPI{s, "e2b_0000"}
	began := time.Now()
	for i := range 1000 {
		sandbox := a.create()
		if i%10 == 0 {
			if got := a.on(sandbox.ID, sandbox.Token, 49999, "POST", "/execute", `{"code":"1 + 1"}`); !strings.Contains(string(got.body), `"text":"2"`) {
				t.Fatalf("%d: %s", i, got.body)
			}
		}
		if got := a.call("DELETE", "/sandboxes/"+sandbox.ID, ""); got.status != http.StatusNoContent {
			t.Fatalf("%d: %d %s", i, got.status, got.body)
		}
	}
	t.Logf("1,000 sandboxes in %v", time.Since(began))
	if got := a.call("GET", "/v2/sandboxes", ""); string(got.body) != "[]" {
		t.Errorf("%s", got.body)
	}
	var sessions struct{ Sessions []struct{ ID string } }
	s.do("GET", "/api/v1/sessions", "").decode(t, &sessions)
	if len(sessions.Sessions) > 0 {
		t.Errorf("%d sessions are left", len(sessions.Sessions))
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, waitTime, "the end of all interpreters", func() bool {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, "airlock_live_interpreters "); found {
				return strings.TrimSpace(value) == "0"
			}
		}
		return err != nil
	})
}
