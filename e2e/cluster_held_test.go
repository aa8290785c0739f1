package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// A session of Onyx's that a killed api led continues at the other one with its files, and
// a program is told that what ran in it has ended.
func TestClusterHeldApiKilled(t *testing.T) {
	t.Parallel()
	r := newRoles(t, 2, 1)
	one, two := r.apis[0], r.apis[1]
	bash := func(at *service, session, command string) (status int, stdout, stderr string) {
		body, err := json.Marshal(map[string]any{"cmd": command, "timeout_ms": 20_000})
		if err != nil {
			t.Fatal(err)
		}
		got := at.do("POST", "/onyx/v1/sessions/"+session+"/bash", string(body))
		var result struct{ Stdout, Stderr string }
		_ = json.Unmarshal(got.body, &result) // an error has neither
		return got.status, result.Stdout, result.Stderr
	}
	var session string
	eventually(t, waitTime, "a session with a file", func() bool {
		session = find(object(t, one.do("POST", "/onyx/v1/sessions", `{"ttl_seconds": 600}`)), "session_id")
		status, _, _ := bash(one, session, "echo kept > a.txt")
		return status == http.StatusOK
	})
	if status, stdout, stderr := bash(two, session, "cat a.txt"); stdout != "kept\n" || stderr != "" {
		t.Errorf("as long as its api lives: %d %q %q", status, stdout, stderr)
	}
	one.kill()
	var stdout, stderr string
	eventually(t, waitTime, "the session is answered", func() bool {
		var status int
		status, stdout, stderr = bash(two, session, "cat a.txt")
		return status == http.StatusOK
	})
	if stdout != "kept\n" || !strings.HasPrefix(stderr, "[The workspace of this session was lost") {
		t.Errorf("%q %q", stdout, stderr)
	}
	if _, stdout, stderr = bash(two, session, "cat a.txt"); stdout != "kept\n" || stderr != "" {
		t.Errorf("the next one: %q %q", stdout, stderr)
	}
}
