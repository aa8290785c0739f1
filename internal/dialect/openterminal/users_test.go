package openterminal

import (
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// everyCall notes for whom each call is, and has nothing.
type everyCall struct {
	live.Sessions // what no test calls

	owners map[engine.Owner]int
}

func (e *everyCall) note(c engine.Caller) error {
	e.owners[c.Owner]++
	return &engine.Error{Op: "find", Kind: engine.ErrNotFound}
}

func (e *everyCall) ListSessions(_ context.Context, c engine.Caller, _ engine.SessionQuery) ([]engine.Session, error) {
	_ = e.note(c)
	return nil, nil
}

func (e *everyCall) Create(_ context.Context, c engine.Caller, _ live.Request) (engine.Session, error) {
	_ = e.note(c)
	return engine.Session{ID: engine.NewID()}, nil
}

func (e *everyCall) StartProcess(_ context.Context, c engine.Caller, _ engine.ID, _ live.ProcessRequest) (live.Process, error) {
	return live.Process{}, e.note(c)
}

func (e *everyCall) Process(_ context.Context, c engine.Caller, _, _ engine.ID) (live.Process, error) {
	return live.Process{}, e.note(c)
}

func (e *everyCall) Processes(_ context.Context, c engine.Caller, _ engine.ID) ([]live.Process, error) {
	return nil, e.note(c)
}

func (e *everyCall) WatchProcess(_ context.Context, c engine.Caller, _, _ engine.ID, _ int64) (iter.Seq[live.ProcessEvent], error) {
	return nil, e.note(c)
}

func (e *everyCall) WriteProcess(_ context.Context, c engine.Caller, _, _ engine.ID, _ []byte, _ bool) error {
	return e.note(c)
}

func (e *everyCall) SignalProcess(_ context.Context, c engine.Caller, _, _ engine.ID, _ string) error {
	return e.note(c)
}

func (e *everyCall) ResizeProcess(_ context.Context, c engine.Caller, _, _ engine.ID, _ engine.TerminalSize) error {
	return e.note(c)
}

func (e *everyCall) KillProcess(_ context.Context, c engine.Caller, _, _ engine.ID) error {
	return e.note(c)
}

func (e *everyCall) RealFile(_ context.Context, c engine.Caller, _ engine.ID, _ string) (engine.Entry, error) {
	return engine.Entry{}, e.note(c)
}

func (e *everyCall) SearchFiles(_ context.Context, c engine.Caller, _ engine.ID, _ string, _ live.Search) (live.Found, error) {
	return live.Found{}, e.note(c)
}

func (e *everyCall) DocumentText(_ context.Context, c engine.Caller, _ engine.ID, _ string) (string, error) {
	return "", e.note(c)
}

func (e *everyCall) Ports(_ context.Context, c engine.Caller, _ engine.ID) ([]int, error) {
	return nil, e.note(c)
}

func (e *everyCall) DialPort(_ context.Context, c engine.Caller, _ engine.ID, _ int) (net.Conn, error) {
	return nil, e.note(c)
}

func (e *everyCall) ListFiles(_ context.Context, c engine.Caller, _ engine.ID, _ string, _ int) ([]engine.Entry, bool, error) {
	return nil, false, e.note(c)
}

func (e *everyCall) StatFile(_ context.Context, c engine.Caller, _ engine.ID, _ string) (engine.Entry, error) {
	return engine.Entry{}, e.note(c)
}

func (e *everyCall) OpenFile(_ context.Context, c engine.Caller, _ engine.ID, _ string) (engine.Entry, *os.File, error) {
	return engine.Entry{}, nil, e.note(c)
}

func (e *everyCall) WriteFile(_ context.Context, c engine.Caller, _ engine.ID, _ string, _ io.Reader) (engine.Entry, error) {
	return engine.Entry{}, e.note(c)
}

func (e *everyCall) MakeFolder(_ context.Context, c engine.Caller, _ engine.ID, _ string) (engine.Entry, error) {
	return engine.Entry{}, e.note(c)
}

func (e *everyCall) MoveFile(_ context.Context, c engine.Caller, _ engine.ID, _, _ string, _ bool) (engine.Entry, error) {
	return engine.Entry{}, e.note(c)
}

func (e *everyCall) RemoveFile(_ context.Context, c engine.Caller, _ engine.ID, _ string, _ bool) error {
	return e.note(c)
}

// On every route, all calls of the core are for the user in the header. Without a key there
// are none.
func TestEveryRouteIsTheUsers(t *testing.T) {
	open := 0
	for pattern := range routes() {
		method, path, named := strings.Cut(pattern, " ")
		if !named {
			method, path = "GET", pattern
		}
		path = strings.NewReplacer("{id}", engine.NewID().String(), "{port}", "8000", "{path...}", "x").Replace(path)
		body := `{"command":"ls","input":"x","path":"x","paths":["x"],"content":"","replacements":[],"source":"x","destination":"y/z"}`
		ask := func(key, user string) (int, map[engine.Owner]int) {
			e := &everyCall{owners: map[engine.Owner]int{}}
			h := New(e, e, Options{Caller: func(r *http.Request) engine.Caller {
				return engine.Caller{Owner: engine.Owner(r.Header.Get("Authorization"))}
			}})
			r := httptest.NewRequestWithContext(t.Context(), method, path+"?path=x&pattern=x&query=x", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", key)
			r.Header.Set("X-User-Id", user)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, e.owners
		}
		status, owners := ask("key", "ann")
		if len(owners) == 0 {
			open++
			if status != http.StatusOK && pattern != "/" {
				t.Errorf("%s: %d, and nothing was asked for anybody", pattern, status)
			}
			continue
		}
		_, others := ask("key", "bob")
		for owner := range owners {
			if len(owners) != 1 || !strings.HasPrefix(string(owner), "key/user/") || others[owner] > 0 {
				t.Errorf("%s is asked for %v, and for bob as %v", pattern, owners, others)
			}
		}
		if status, owners := ask("", "ann"); status != http.StatusUnauthorized || len(owners) > 0 {
			t.Errorf("%s without a key: %d, asked for %v", pattern, status, owners)
		}
	}
	if open != 6 { // health, config, description, system, skills, what is not there
		t.Errorf("%d routes are for everybody", open)
	}
}
