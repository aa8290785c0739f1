package onyx

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// A name that the form's package for headers would refuse is a name.
func TestControlsInNames(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	contains(t, r.upload("a\x7f\x01.csv", strings.NewReader("1,2")), 201, "\"filename\":\"a\x7f"+`\u0001.csv"`)
}

// The front door's refusals have the delay of this API, too.
func TestRefusedRate(t *testing.T) {
	for given, want := range map[string]string{"1": "2", "": "2", "7": "7"} {
		w := httptest.NewRecorder()
		w.Header().Set("Retry-After", given)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		refuseRequest(w, r, http.StatusTooManyRequests, "busy", "too many")
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// A session whose workspace was lost, with its executor or in a restart, has its files again, also
// those whose own time was shorter.
func TestSessionOutlivesItsWorkspace(t *testing.T) {
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
	session := r.session(`{"ttl_seconds":86400,"files":[{"path":"d/a.csv","file_id":"` + list.Files[0].ID + `"}]}`)
	var id engine.ID
	for id = range r.sandbox.Workspaces() {
		r.sandbox.Lose(id)
	}
	now.advance(5 * time.Hour)
	contains(t, r.send("POST", session+"/bash", `{"cmd":"print here"}`), 200, "here", "was lost", "as of the last run")
	if diff := cmp.Diff([]string{"d/a.csv"}, r.sandbox.Workspaces()[id]); diff != "" {
		t.Error(diff)
	}
	if text := r.send("POST", session+"/bash", `{"cmd":"print here"}`).Body.String(); strings.Contains(text, "was lost") {
		t.Errorf("said again: %s", text)
	}
	contains(t, r.send("DELETE", session, ""), 204)
	if left := r.sandbox.Workspaces(); len(left) != 0 {
		t.Errorf("a workspace outlives its session: %v", left)
	}
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
