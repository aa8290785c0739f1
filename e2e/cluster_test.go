package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// deployment is a database and a bucket, and who runs services on them.
type deployment struct {
	*cluster
	who person
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{who: person{name: "user"}}
	if os.Geteuid() == 0 {
		d.who = root(t)
	}
	d.cluster = newCluster(t)
	return d
}

func (d *deployment) serve() *service {
	d.Helper()
	return serveWith(d.T, d.who, dataFolder(d.T, d.who), d.env())
}

// stopped is what kill -STOP leaves of a service until it is thawed.
type stopped []process

func (s *service) freeze() stopped {
	all := stopped(family(s.cmd.Process.Pid))
	all.signal(syscall.SIGSTOP)
	s.t.Cleanup(all.thaw)
	return all
}

func (all stopped) signal(sig syscall.Signal) {
	for _, p := range all {
		_ = syscall.Kill(p.pid, sig)
	}
}

func (all stopped) thaw() { all.signal(syscall.SIGCONT) }

// background starts a program that prints and goes on, and returns its run.
func (s *service) background(code string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"language": "bash", "code": code})
	if err != nil {
		s.t.Fatal(err)
	}
	events := s.stream("POST", runs, string(body))
	id := find(events.until("started", "").data, "id")
	events.until("output", "up")
	return id
}

// liveSession is one of Python, with a variable.
func (s *service) liveSession() string {
	s.t.Helper()
	got := s.do("POST", "/api/v1/sessions", `{"kind":"live","language":"python"}`)
	id := find(object(s.t, got), "id")
	if id == "" {
		s.t.Fatalf("%d %s", got.status, got.body)
	}
	if text := s.cell(id, "x = 41; open('kept.txt','w').write('kept')"); !strings.Contains(text, `"ok"`) {
		s.t.Fatal(text)
	}
	return id
}

// cell runs one, and asks again for as long as it is told to.
func (s *service) cell(session, code string) (text string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"code": code})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, waitTime, "a cell's answer", func() bool {
		got := s.do("POST", "/api/v1/sessions/"+session+"/cells", string(body))
		text = string(got.body)
		return got.status != http.StatusServiceUnavailable
	})
	return text
}

// Any replica answers any request; what another one has, that one does.
func TestCluster(t *testing.T) {
	t.Parallel()
	needPackages(t)
	d := newDeployment(t)
	one, two := d.serve(), d.serve()

	t.Run("files", func(t *testing.T) {
		made := one.do("POST", "/api/v1/files?name=a.txt", "content of a")
		id := find(object(t, made), "id")
		if got := two.do("GET", "/api/v1/files/"+id+"/content", ""); string(got.body) != "content of a" {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	t.Run("runs", func(t *testing.T) {
		id := one.background("echo up; sleep 1000")
		if got := two.do("GET", "/api/v1/runs/"+id, ""); find(object(t, got), "status") != "running" {
			t.Errorf("%d %s", got.status, got.body)
		}
		events := two.stream("GET", "/api/v1/runs/"+id+"/events", "", "Last-Event-ID", "1")
		events.until("output", "up")
		if got := two.do("DELETE", "/api/v1/runs/"+id, ""); got.status >= 300 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := events.until("result", ""); find(got.data, "status") != "cancelled" {
			t.Errorf("%v", got)
		}
	})
	t.Run("cells", func(t *testing.T) {
		id := one.liveSession()
		if got := two.cell(id, "print(x + 1)"); !strings.Contains(got, "42") {
			t.Error(got)
		}
		events := two.stream("POST", "/api/v1/sessions/"+id+"/cells", `{"code":"print(x + 2)"}`)
		events.until("stdout", "43")
	})
	listed := func(t *testing.T, path, id string) {
		t.Helper()
		eventually(t, waitTime, "the other one lists it, too", func() bool {
			return id != "" && bytes.Contains(two.do("GET", path, "").body, []byte(id))
		})
	}
	t.Run("Jupyter", func(t *testing.T) {
		id := find(object(t, one.do("POST", "/jupyter/api/kernels", "{}")), "id")
		listed(t, "/jupyter/api/kernels", id)
	})
	t.Run("E2B", func(t *testing.T) {
		made := one.do("POST", "/e2b/sandboxes", `{"templateID":"base"}`)
		id := find(object(t, made), "sandboxID")
		listed(t, "/e2b/v2/sandboxes", id)
		if got := two.do("GET", "/e2b/sandboxes/"+id, ""); got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := two.do("DELETE", "/e2b/sandboxes/"+id, ""); got.status != http.StatusNoContent {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	t.Run("MCP", func(t *testing.T) {
		const accept = "application/json, text/event-stream"
		hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"clientInfo":{"name":"t","version":"1"}}}`
		got := one.do("POST", "/mcp", hello, "Accept", accept)
		session := got.header.Get("Mcp-Session-Id")
		if session == "" {
			t.Fatalf("%d %s", got.status, got.body)
		}
		got = two.do("POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Accept", accept, "Mcp-Session-Id", session)
		if got.status != http.StatusOK || !bytes.Contains(got.body, []byte(`"tools"`)) {
			t.Errorf("%d %.300s", got.status, got.body)
		}
	})
	t.Run("tools", func(t *testing.T) {
		got := one.do("POST", "/librechat/v1/exec/programmatic",
			`{"code":"print(await double(n=21))","tools":[{"name":"double","parameters":{"type":"object",`+
				`"properties":{"n":{"type":"integer"}}}}]}`)
		first := object(t, got)
		token := find(first, "continuation_token")
		calls, _ := first["tool_calls"].([]any)
		if token == "" || len(calls) != 1 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		id := find(calls[0].(map[string]any), "id")
		got = two.do("POST", "/librechat/v1/exec/programmatic",
			fmt.Sprintf(`{"continuation_token":%q,"tool_results":[{"call_id":%q,"result":42,"is_error":false}]}`, token, id))
		if got.status != http.StatusOK || !bytes.Contains(got.body, []byte("42")) {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	t.Run("page", func(t *testing.T) { // a form is bound to the visitor's node
		got := one.do("GET", "/ui/", "")
		_, token, _ := strings.Cut(string(got.body), `name="airlock-token" content="`)
		token, _, _ = strings.Cut(token, `"`)
		cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
		got = two.do("POST", "/ui/sign-out", "", "Cookie", cookie, "X-Airlock-Token", token)
		if token == "" || got.status != http.StatusSeeOther && got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	t.Run("one machine", func(t *testing.T) {
		for _, path := range []string{"/api/v1/projects", "/api/v1/conversations", "/ui/review", "/ui/ask"} {
			var got answer
			eventually(t, waitTime, "a refusal", func() bool {
				got = one.do("GET", path, "")
				return got.status == http.StatusConflict
			})
			if !bytes.Contains(got.body, []byte("kept on one machine")) {
				t.Errorf("%s: %s", path, got.body)
			}
		}
	})
	t.Run("forged", func(t *testing.T) {
		id := one.background("echo up; sleep 1000")
		got := two.do("GET", "/api/v1/runs/"+id, "", "Airlock-Forwarded", "eyJ0byI6MX0.AAAA")
		if got.status != http.StatusForbidden {
			t.Errorf("%d %s", got.status, got.body)
		}
		one.do("DELETE", "/api/v1/runs/"+id, "")
	})
}

// A node that is killed loses no file that was acknowledged, and what it ran is marked.
func TestClusterNodeKilled(t *testing.T) {
	t.Parallel()
	needPackages(t)
	d := newDeployment(t)
	one, two := d.serve(), d.serve()
	session := one.liveSession()
	word := fmt.Sprint("100", os.Getpid())
	id := one.background("echo up; sleep " + word)
	made := one.do("POST", "/api/v1/sessions/"+session+"/cells", `{"code":"import time; time.sleep(100)","wait":false}`)
	cell := find(object(t, made), "id")
	follows := two.stream("GET", "/api/v1/runs/"+id+"/events", "", "Last-Event-ID", "1")
	follows.until("output", "up")
	one.kill()
	if got := follows.until("result", ""); find(got.data, "status") != "interrupted" {
		t.Errorf("who follows the run: %v", got)
	}
	got := two.do("GET", "/api/v1/sessions/"+session+"/cells/"+cell, "")
	if got.status != http.StatusOK || find(object(t, got), "status") != "lost" {
		t.Errorf("a cell that was given out: %d %s", got.status, got.body)
	}

	events := two.stream("GET", "/api/v1/runs/"+id+"/events", "", "Last-Event-ID", "2")
	if got := events.until("result", ""); find(got.data, "status") != "interrupted" {
		t.Errorf("%v", got)
	}
	if got := two.cell(session, "print(open('kept.txt').read())"); !strings.Contains(got, "kept") ||
		!strings.Contains(got, "restarted") {
		t.Error(got)
	}
	three := d.serve()
	if got := three.cell(session, "print(open('kept.txt').read())"); !strings.Contains(got, "kept") {
		t.Error(got)
	}
}

// A node that was frozen until its peers gave it up cannot write when it is thawed.
func TestClusterNodeFrozen(t *testing.T) {
	t.Parallel()
	needPackages(t)
	d := newDeployment(t)
	one, two := d.serve(), d.serve()
	session := one.liveSession()
	id := one.background("echo up; sleep 3; echo late > late.txt")
	frozen := one.freeze()
	eventually(t, waitTime, "the run is marked", func() bool {
		return find(object(t, two.do("GET", "/api/v1/runs/"+id, "")), "status") == "interrupted"
	})
	printed := two.cell(session, "open('kept.txt','w').write('newer'); print(open('kept.txt').read())")
	if !strings.Contains(printed, "newer") {
		t.Error(printed)
	}
	frozen.thaw()
	eventually(t, waitTime, "it takes work again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), waitTime)
		defer cancel()
		resp, err := http.DefaultClient.Do(one.request("GET", "/api/v1/ready", "").WithContext(ctx))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK && strings.Contains(one.log.String(), "begins anew")
	})
	if got := one.cell(session, "print(open('kept.txt').read())"); !strings.Contains(got, "newer") {
		t.Error(got)
	}
	var got map[string]any
	eventually(t, waitTime, "it has dropped the run", func() bool {
		got = object(t, one.do("GET", "/api/v1/runs/"+id, ""))
		return find(got, "status") == "interrupted"
	})
	if files, _ := got["files"].([]any); len(files) > 0 {
		t.Errorf("%v", got)
	}
}

// A session goes on with its variables at the node that is left when its own one stops.
func TestClusterMemoryMoves(t *testing.T) {
	t.Parallel()
	needWall(t)
	needPackages(t)
	d := newDeployment(t)
	serve := func() *service {
		return serveWith(t, d.who, dataFolder(t, d.who), d.env(), "--wall", "gvisor")
	}
	one, two := serve(), serve()
	session := one.liveSession()
	one.stop()
	if got := two.cell(session, "x += 1; print(x, open('kept.txt').read())"); !strings.Contains(got, "42 kept") ||
		!strings.Contains(got, `"restarted":false`) {
		t.Error(got)
	}
	three := serve()
	two.stop()
	if got := three.cell(session, "print(x)"); !strings.Contains(got, "42") || !strings.Contains(got, `"restarted":false`) {
		t.Error(got)
	}
}
