package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

// The key of each request decides whether it may use a session, even if another key used it
// first.
func TestForeignSession(t *testing.T) {
	r := newRig(t)
	header, _ := r.begin("ada", lastSession, "{}")
	done := make(chan string)
	go func() {
		_, body, _ := r.send("POST", r.url, "ada", header, message(
			2, "tools/call", `{"name":"run_code","arguments":{"code":"wait","timeout_seconds":5}}`, ""))
		done <- body
	}()
	r.live.awaitCells(1)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if status, body, _ := r.send(method, r.url, "mallory", header, message(3, "tools/list", `{}`, "")); status != 403 {
			t.Errorf("%s of another owner: %d %s", method, status, body)
		}
	}
	r.live.mu.Lock()
	canceled := r.live.canceled
	r.live.mu.Unlock()
	if canceled != 0 {
		t.Error("another owner ended a call")
	}
	// Closing a session does not wait for its programs: they are ended.
	if status, _, _ := r.send("DELETE", r.url, "ada", header, ""); status != 204 {
		t.Errorf("DELETE: %d", status)
	}
	r.live.awaitCancels(1)
	<-done
}

// A session belongs to the owner of each request, not to the first request's context.
func TestOwnerOfEachRequest(t *testing.T) {
	r := newRig(t)
	theirs := sessionOf(t, call1(t, r.client("mallory", nil), "write_file",
		map[string]any{"path": "x", "content": "secret"}))
	for _, c := range []*sdk.ClientSession{r.client("ada", nil),
		r.connect(&sdk.SSEClientTransport{Endpoint: r.url + "/sse", HTTPClient: &http.Client{Transport: asOwner{"ada"}}},
			nil)} {
		if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{
			URI: "airlock://sessions/" + theirs + "/files/x"}); err == nil {
			t.Error("another owner's file was read")
		}
		list, err := c.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 0 {
			t.Errorf("resources: %v, %v", list, err)
		}
	}
}

// The sessions of one owner are bounded: the oldest idle session is closed.
func TestManySessions(t *testing.T) {
	r := newRig(t)
	first, _ := r.begin("ada", lastSession, "{}")
	for range maxSessions {
		r.begin("ada", lastSession, "{}")
	}
	if status, _, _ := r.send("POST", r.url, "ada", first, message(2, "tools/list", `{}`, "")); status != 404 {
		t.Errorf("the oldest: %d", status)
	}
}

// Sessions of one owner take the memory of maxSessions, and the place of no other's. If all of
// them run calls, the next is refused, as nothing may be closed.
func TestMoreSessions(t *testing.T) {
	r := newRig(t)
	bob, _ := r.begin("bob", lastSession, "{}")
	count := func() (n int) {
		for range r.server.sessions() {
			n++
		}
		return n
	}
	for i := range 5 * maxSessions {
		if status, body, _ := r.send("POST", r.url, "ada", "", initialize(lastSession, "{}")); status != 200 {
			t.Fatalf("number %d: %d %s", i, status, body)
		}
		if n := count(); n > maxSessions+1 {
			t.Fatalf("%d sessions are open after %d", n, i+1)
		}
	}
	if status, body, _ := r.send("POST", r.url, "bob", bob, message(2, "tools/list", `{}`, "")); status != 200 {
		t.Errorf("another owner's session: %d %s", status, body)
	}
	for _, is := range r.server.open.sessions { // as if each ran a call
		is.calls[new(context.CancelFunc)] = true
	}
	_, body, _ := r.send("POST", r.url, "ada", "", initialize(lastSession, "{}"))
	if n := count(); !strings.Contains(body, manySessions) || n > maxSessions+1 {
		t.Errorf("one more, while all run calls: %s, %d open", body, n)
	}
	for _, is := range r.server.open.sessions {
		clear(is.calls)
	}
}

// Sessions of many owners are bounded together. Who has the most makes room.
func TestSessionsOfManyOwners(t *testing.T) {
	var o openSessions
	var open []*sdk.ServerSession
	add := func(owner engine.Owner) *sdk.ServerSession {
		s := &sdk.ServerSession{}
		oldest, ok := o.add(s, owner, slices.Values(append(open, s)))
		if !ok {
			t.Fatalf("a session of %s was refused", owner)
		}
		open = slices.DeleteFunc(append(open, s), func(other *sdk.ServerSession) bool { return other == oldest })
		return s
	}
	first := add("carl")
	for range 10_000 {
		add("ada")
	}
	if n := len(o.sessions); n != maxSessions+1 {
		t.Errorf("%d sessions, want %d of ada and 1 of carl", n, maxSessions)
	}
	for i := range allSessions {
		add(engine.Owner(fmt.Sprint("owner ", i%11)))
	}
	if n := len(o.sessions); n != allSessions || o.sessions[first] == nil {
		t.Errorf("%d sessions of all owners, want %d with that of carl", n, allSessions)
	}
}
