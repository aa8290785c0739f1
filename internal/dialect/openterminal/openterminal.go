// Package openterminal serves the API of Open Terminal, the computer of Open WebUI's
// agents: background commands, files, and a terminal in the page.
// Every user, named by the client in X-User-Id, has a workspace, or one for each chat, named in
// X-Terminal-Context-Id: a live session of an owner that no key can have. README.md in this folder lists
// the coverage and the intended differences.
package openterminal

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Sessions finds the workspace of a user.
type Sessions interface {
	// ListSessions returns the sessions that have not expired, newest first.
	ListSessions(ctx context.Context, caller engine.Caller, query engine.SessionQuery) ([]engine.Session, error)
}

// Options set up the dialect. Caller is required.
type Options struct {
	// Caller returns the caller of a request. The server has authenticated it.
	Caller func(*http.Request) engine.Caller
	// Authenticate returns the caller of a key: terminals send it in their first message.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)

	MaxUpload int64        // bytes of a file; 0: 200 MiB
	Bodies    *wire.Bodies // counts the memory of large bodies; nil: by itself
	Log       *slog.Logger // for causes that the client must not see; nil: nothing is logged
}

const (
	// maxJSON bounds a body of JSON.
	maxJSON          = 50 << 20
	defaultMaxUpload = 200 << 20
	workspaceTTL     = 7 * 24 * time.Hour // after its last use
)

// api serves the dialect. Only working directories are lost with it.
type api struct {
	sessions Sessions
	live     live.Sessions
	Options
	root *http.ServeMux

	making  sync.Mutex // of workspaces
	folders wire.Recent[place, string]

	mu sync.Mutex // of the notes of commands and terminals
}

// place is the scope of a working directory.
type place struct {
	owner engine.Owner
	chat  string
}

// request is a request with its user.
type request struct {
	*api
	*http.Request
	w         http.ResponseWriter
	query     url.Values
	caller    engine.Caller
	chat      string
	workspace engine.ID
	problem   error // a parameter that is wrong
}

type handler func(*request) (any, error)

// answered is the result of a handler that has written its answer itself.
type answered struct{}

// New returns the API as a handler. The caller must strip its prefix.
func New(sessions Sessions, interpreters live.Sessions, o Options) http.Handler {
	if o.MaxUpload <= 0 {
		o.MaxUpload = defaultMaxUpload
	}
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &api{
		sessions: sessions, live: interpreters, Options: o, root: http.NewServeMux(),
		folders: wire.Recent[place, string]{Each: maxFolders, Total: 10 * maxFolders},
	}
	for pattern, serve := range routes() {
		a.root.HandleFunc(pattern, a.handle(serve))
	}
	return a.root
}

// routes returns all routes, by pattern.
func routes() map[string]handler {
	return map[string]handler{
		"GET /health":                    always(map[string]string{"status": "ok"}),
		"GET /api/config":                always(config),
		"GET /openapi.json":              description,
		"GET /system":                    always(map[string]string{"prompt": systemPrompt}),
		"GET /skills":                    always([]string{}),
		"POST /execute":                  with((*request).runCommand, "command"),
		"GET /execute":                   on((*request).listCommands),
		"GET /execute/{id}/status":       on((*request).commandStatus),
		"POST /execute/{id}/input":       with((*request).sendInput, "input"),
		"DELETE /execute/{id}":           on((*request).killCommand),
		"GET /files/cwd":                 on((*request).workingFolder),
		"POST /files/cwd":                with((*request).changeFolder, "path"),
		"GET /files/list":                on((*request).listFiles),
		"GET /files/read":                on((*request).readFile, "path"),
		"GET /files/display":             on((*request).displayFile, "path"),
		"GET /files/view":                on((*request).viewFile, "path"),
		"GET /files/serve/{path...}":     on((*request).serveFile),
		"POST /files/write":              with((*request).writeFile, "path", "content"),
		"POST /files/replace":            with((*request).replaceContent, "path", "replacements"),
		"POST /files/upload":             on((*request).upload),
		"POST /files/mkdir":              with((*request).makeFolder, "path"),
		"POST /files/move":               with((*request).moveFile, "source", "destination"),
		"POST /files/compare":            with((*request).compareFiles, "original", "revised"),
		"DELETE /files/delete":           on((*request).deleteFile, "path"),
		"POST /files/archive":            with((*request).archive, "paths"),
		"GET /files/grep":                on((*request).grep, "query"),
		"GET /files/glob":                on((*request).glob, "pattern"),
		"GET /files/search":              on((*request).searchFiles),
		"GET /files/matches":             on((*request).matchFiles, "query"),
		"/proxy/{port}/{path...}":        on((*request).proxy),
		"GET /ports":                     on((*request).ports),
		"GET /api/terminals":             on((*request).listTerminals),
		"GET /api/terminals/user/output": on((*request).readTerminal),
		"POST /api/terminals/user/input": with((*request).typeAtTerminal, "input"),
		"GET /skills/read":               on(nothing("Skill not found")),
		"POST /api/terminals":            on((*request).createTerminal),
		"GET /api/terminals/{id}":        (*request).terminal, // opens the workspace once the user is known
		"DELETE /api/terminals/{id}":     on((*request).deleteTerminal),
		"/":                              nothing("Not Found"),
	}
}

// access reports which requests need no key: those about no user, preflight requests, and
// terminals, which send their key later.
func access(r *http.Request) (network, everyone bool) {
	switch r.URL.Path {
	case "/health", "/api/config", "/openapi.json":
		return true, true
	}
	return true, r.Method == http.MethodOptions || isTerminal(r)
}

// anyOrigin lists the addresses for pages of other sites: all, because Open WebUI calls
// from its own origin. handle requires a key.
func anyOrigin() []string { return []string{"/"} }

// handle returns the HTTP handler of a route.
func (a *api) handle(serve handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{api: a, Request: r, w: w, query: r.URL.Query(), chat: r.Header.Get("X-Session-Id")}
		q.caller = userOf(a.Caller(r), r)
		for name, values := range q.query {
			if strings.EqualFold(values[0], "null") { // clients omit a parameter that way
				q.query.Del(name)
			}
		}
		if !q.fromPage() {
			return
		}
		body, err := serve(q)
		switch {
		case err != nil:
			a.fail(w, r, err)
		case body != any(answered{}):
			writeJSON(w, http.StatusOK, body)
		}
	}
}

// fromPage accepts requests from pages of other sites that have a key: a browser sends none by
// itself. It reports whether to continue.
func (q *request) fromPage() bool {
	if !wire.ForeignOrigin(q.Request) {
		return true
	}
	if q.Method != http.MethodOptions && !isTerminal(q.Request) && q.caller.Key == "" {
		refuseRequest(q.w, q.Request, http.StatusForbidden, "", "A page of another site needs a key: `airlock keys create`.")
		return false
	}
	h := q.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Del("Cross-Origin-Resource-Policy")
	if q.Method != http.MethodOptions {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "authorization, content-type, x-session-id")
	h.Set("Access-Control-Max-Age", "600")
	q.w.WriteHeader(http.StatusNoContent)
	return false
}

// userOf returns the caller for the user that a request names. Where an administrator gives each chat a terminal of
// its own, requests also name the chat, which is then as another user: see decision 0260.
func userOf(caller engine.Caller, r *http.Request) engine.Caller {
	caller.Admin = false
	user := r.Header.Get("X-User-Id")
	if chat := r.Header.Get("X-Terminal-Context-Id"); chat != "" {
		user += "\x00" + chat // no header has this character
	}
	return caller.User(user)
}

// on opens the workspace before serve runs, and checks that the query has the required parameters.
func on(serve handler, required ...string) handler {
	return func(q *request) (any, error) {
		if err := q.open(); err != nil {
			return nil, err
		}
		for _, name := range required {
			if !q.query.Has(name) {
				return nil, wrong("missing", "query", name, "Field required", nil)
			}
		}
		return serve(q)
	}
}

// with is on for a handler of a JSON body, which has required members.
func with[Body any](serve func(*request, Body) (any, error), required ...string) handler {
	return on(func(q *request) (any, error) {
		var body Body
		if err := q.decode(&body, required...); err != nil {
			return nil, err
		}
		return serve(q, body)
	})
}

// open finds the workspace of the caller, or creates it.
func (q *request) open() error {
	if q.caller.Owner == "" {
		return wire.Refuse(http.StatusUnauthorized, "Invalid API key")
	}
	found, err := q.find()
	if found || err != nil {
		return err
	}
	q.making.Lock()
	defer q.making.Unlock()
	if found, err = q.find(); found || err != nil {
		return err
	}
	made, err := q.live.Create(q.Context(), q.caller, live.Request{Language: "bash", Origin: engine.OriginTerminal,
		TTL: workspaceTTL})
	q.workspace = made.ID
	return err
}

func (q *request) find() (bool, error) {
	list, err := q.sessions.ListSessions(q.Context(), q.caller,
		engine.SessionQuery{Origin: engine.OriginTerminal, Page: engine.Page{Limit: 1}})
	if len(list) == 0 {
		return false, err
	}
	q.workspace = list[0].ID
	return true, err
}

func always(body any) handler { return func(*request) (any, error) { return body, nil } }

func nothing(why string) handler {
	return func(*request) (any, error) { return nil, wire.Refuse(http.StatusNotFound, "%s", why) }
}
