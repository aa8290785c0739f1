package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestTotalsOfKey names eight users with one key, in the way of each protocol: together they keep as much as one
// owner, and end no live session of another key.
func TestTotalsOfKey(t *testing.T) {
	t.Parallel()
	const most = 3 // sessions, and files
	who := anyPerson(t)
	data := dataFolder(t, who)
	key := func(owner string) []string {
		t.Helper()
		made := who.run(t, nil, "keys", "create", "--data", data, "--owner", owner)
		if made.code != 0 {
			t.Fatalf("keys create: %+v", made)
		}
		return []string{"Authorization", "Bearer " + strings.TrimSpace(made.stdout)}
	}
	bob := key("bob")
	keys := map[string][]string{}
	protocols := []string{"terminal", "librechat", "e2b", "openai", "responses", "jupyter", "mcp", "api"}
	for _, name := range protocols {
		keys[name] = key(name)
	}
	s := serve(t, who, data, "--live", "6", "--owner-live", "2", "--owner-sessions", fmt.Sprint(most),
		"--owner-files", fmt.Sprint(most), "--openai-upstream-url", chatModel(t).URL+"/v1")
	l := s.live(`{"kind":"live","language":"bash"}`, bob...)
	l.expect("v=7", "")
	for _, name := range protocols {
		t.Run(name, func(t *testing.T) {
			k := keys[name]
			kept, refused := 0, ""
			for i := range 8 {
				got := keepAs(s, name, fmt.Sprint("z", i), k)
				switch {
				case strings.Contains(got, "owner may keep"), strings.Contains(got, "users of this key"):
					refused = got
				case refused != "":
					t.Errorf("user %d keeps something after another was refused: %s", i, got)
				default:
					kept++
				}
			}
			if kept != most || refused == "" {
				t.Errorf("%d of 8 users keep something, want %d; refused: %s", kept, most, refused)
			}
			if c := l.cell("echo $v"); c.Restarted || c.text() != "7\n" {
				t.Errorf("the live session of another key: %+v", c)
			}
		})
	}
}

// keepAs makes a user of a key keep a session or a file, in the way of a protocol, and returns the answer.
func keepAs(s *service, protocol, user string, key []string) string {
	s.t.Helper()
	do := func(method, path, body string, header ...string) answer {
		s.t.Helper()
		return s.do(method, path, body, append(header, key...)...)
	}
	said := func(a answer) string { return fmt.Sprint(a.status, " ", string(a.body)) }
	switch protocol {
	case "terminal":
		return said(do("POST", "/terminal/execute?wait=30", `{"command":"echo x"}`, "X-User-Id", user))
	case "librechat":
		form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--x--\r\n"
		return said(do("POST", "/librechat/v1/upload?kind=user&id="+user, form, "User-Id", user,
			"Content-Type", "multipart/form-data; boundary=x"))
	case "e2b":
		return said(do("POST", "/e2b/sandboxes", `{"templateID":"base","metadata":{"user":"`+user+`","owner":"`+user+`"}}`,
			"X-User-Id", user))
	case "openai":
		return said(do("POST", "/openai/v1/containers", `{"name":"`+user+`"}`, "X-User-Id", user, "OpenAI-Organization", user))
	case "responses":
		ask := map[string]any{"model": "tiny", "user": user, "safety_identifier": user, "prompt_cache_key": user,
			"input": "```python\nprint(1)\n```", "tools": []any{
				map[string]any{"type": "code_interpreter", "container": map[string]any{"type": "auto"}}}}
		body, err := json.Marshal(ask)
		if err != nil {
			s.t.Fatal(err)
		}
		return said(do("POST", "/openai/v1/responses", string(body)))
	case "jupyter":
		return said(do("POST", "/jupyter/api/kernels?user="+user, `{"name":"bash","env":{"KERNEL_USERNAME":"`+user+`"}}`,
			"X-Forwarded-User", user))
	case "mcp":
		accept := []string{"Accept", "application/json, text/event-stream"}
		hello := do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
			`"capabilities":{},"clientInfo":{"name":"`+user+`","version":"1"}}}`, accept...)
		if hello.status != http.StatusOK {
			return said(hello)
		}
		return said(do("POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file",`+
			`"arguments":{"path":"a","content":"x"},"_meta":{"user":"`+user+`"}}}`,
			append(accept, "Mcp-Session-Id", hello.header.Get("Mcp-Session-Id"), "X-User-Id", user)...))
	}
	return said(do("POST", "/api/v1/sessions", `{"kind":"live","language":"bash"}`, "X-User-Id", user, "User-Id", user))
}
