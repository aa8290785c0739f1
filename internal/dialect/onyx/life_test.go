package onyx

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// clock is an adjustable clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Staged files expire, and each use begins their time anew: Onyx uses one id
// for as long as a turn goes on.
func TestFilesExpire(t *testing.T) {
	now := &clock{now: time.Unix(1_700_000_000, 0)}
	r := newRig(t, engine.Config{Now: now.Now}, Options{FileTTL: time.Hour})
	contains(t, r.upload("a.csv", strings.NewReader("1,2")), 201)
	var list struct {
		Files []struct {
			ID string `json:"file_id"`
		}
	}
	if err := json.Unmarshal(r.send("GET", "/v1/files", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	id := list.Files[0].ID
	uses := []func(){
		func() { contains(t, r.send("GET", "/v1/files/"+id, ""), 200, "1,2") },
		func() {
			contains(t, r.send("POST", "/v1/execute", `{"code":"cat x\nwrite out 1","files":[{"path":"x","file_id":"`+id+`"}]}`),
				200, "1,2")
		},
		func() {
			contains(t, r.send("POST", "/v1/sessions", `{"files":[{"path":"x","file_id":"`+id+`"}]}`), 201)
		},
	}
	for range 2 {
		for _, use := range uses {
			now.advance(50 * time.Minute)
			use()
		}
	}
	now.advance(61 * time.Minute)
	contains(t, r.send("GET", "/v1/files/"+id, ""), 404)
	contains(t, r.send("POST", "/v1/execute", `{"code":"","files":[{"path":"x","file_id":"`+id+`"}]}`), 404,
		"not found for path 'x'")
}

func (r *rig) session(body string) string {
	r.t.Helper()
	w := r.send("POST", "/v1/sessions", body)
	contains(r.t, w, 201)
	var s struct {
		ID string `json:"session_id"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		r.t.Fatal(err)
	}
	return "/v1/sessions/" + s.ID
}

// A session lives for its ttl after its last use.
func TestSessionsExpire(t *testing.T) {
	now := &clock{now: time.Unix(1_700_000_000, 0)}
	r := newRig(t, engine.Config{Now: now.Now}, Options{})
	w := r.send("POST", "/v1/sessions", `{"ttl_seconds":60}`)
	contains(t, w, 201, `"expires_at":1700000060.0}`)
	session := r.session(`{"ttl_seconds":60}`)
	for range 3 {
		now.advance(50 * time.Second)
		contains(t, r.send("POST", session+"/bash", `{"cmd":"print here"}`), 200, "here")
	}
	now.advance(61 * time.Second)
	contains(t, r.send("POST", session+"/bash", `{"cmd":"print here"}`), 404, "not found")
	contains(t, r.send("DELETE", session, ""), 404, "not found")
}

// A session whose workspace was lost with its executor is deleted as a whole.
func TestSessionWithoutItsWorkspace(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	session := r.session(`{}`)
	for id := range r.sandbox.Workspaces() {
		r.sandbox.Lose(id)
	}
	for range 2 {
		contains(t, r.send("POST", session+"/bash", `{"cmd":"print here"}`), 404, "not found")
	}
	contains(t, r.send("DELETE", session, ""), 404)
	contains(t, r.send("POST", r.session(`{}`)+"/bash", `{"cmd":"print here"}`), 200)
}

// Deleting a session kills what runs in it.
func TestDeleteBusySession(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	session := r.session(`{}`)
	done := make(chan string)
	go func() { done <- r.send("POST", session+"/bash", `{"cmd":"print begun\nwait"}`).Body.String() }()
	eventually(t, "it runs", func() bool { return r.engine.Stats().Running == 1 })
	contains(t, r.send("DELETE", session, ""), 204)
	if got := <-done; !strings.Contains(got, `"exit_code":137`) || !strings.Contains(got, "session was deleted") {
		t.Error(got)
	}
}

// What one owner has is not there for another, by whatever id.
func TestOwners(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	f, err := r.engine.PutFile(t.Context(), engine.Caller{Owner: "bob"},
		engine.Upload{Name: "b", Origin: engine.OriginOnyx}, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.engine.CreateSession(t.Context(), engine.Caller{Owner: "bob"},
		engine.SessionRequest{Kind: engine.SessionHeld})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, r.send("GET", "/v1/files/"+f.ID.UUID(), ""), 404)
	contains(t, r.send("DELETE", "/v1/files/"+f.ID.UUID(), ""), 404)
	contains(t, r.send("GET", "/v1/files", ""), 200, `{"files":[]}`)
	contains(t, r.send("POST", "/v1/sessions/"+sessionName(s.ID)+"/bash", `{"cmd":"x"}`), 404)
	contains(t, r.send("DELETE", "/v1/sessions/"+sessionName(s.ID), ""), 404)
}
