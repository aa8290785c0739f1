// Package native serves Airlock's own API, which openapi.yaml in this folder describes: runs,
// files, sessions, keys; replies, proposals, projects and their reports; conversations.
// It is a thin edge. A handler decodes the request (decode.go, tree.go, files.go), calls one method
// of the engine, and encodes the answer (wire.go); request.go has what handlers share. errors.go
// maps errors to statuses and bodies. Nothing else is decided here.
package native

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// MaxJSON is the usual limit of a JSON body in bytes: 16 MiB of code, escaped.
const MaxJSON = 24 << 20

// Options set up the dialect. Only Caller is required.
type Options struct {
	// Caller returns the caller of a request. The server has authenticated it.
	Caller func(*http.Request) engine.Caller

	Prefix    string        // where the handler is mounted, for Location headers; empty: "/api/v1"
	MaxUpload int64         // bytes of one file, as reported by GET /limits; 0: 200 MiB
	MaxJSON   int64         // bytes of a JSON body; 0: MaxJSON
	Bodies    *wire.Bodies  // counts the memory of large JSON bodies; nil: by itself
	Log       *slog.Logger  // for causes that the client must not see; nil: nothing is logged
	Work      *Work         // replies, projects and reports; nil: those addresses are not available
	Live      live.Sessions // nil: there are no live sessions
	// Ahead calls a function when the next request on the same connection begins like this
	// one, for any caller; nil: it is not supported.
	Ahead func(*http.Request, func())
	// Nodes returns the nodes of the cluster; nil: there is none.
	Nodes func() []engine.Node
	// OneMachine returns why Work and Conversations are not available when several nodes answer;
	// "": they are available.
	OneMachine func() (why string)
	// Conversations has the conversations with models; nil: their addresses are not available.
	Conversations Conversations
}

// api is the state of an API.
type api struct {
	engine *engine.Service
	Options
	versions language.Versions
}

// access is the access to a route without a key. The zero value is for callers with a key and for
// the machine itself.
type access int

const (
	keyed   access = iota
	trusted        // also callers from a trusted network: the route changes only a sandbox
	public         // every caller
)

// route is a method of a path. The path is relative to the prefix.
type route struct {
	method, path string
	serve        handler
	access       access
}

// routes lists all routes. openapi.yaml describes exactly these.
var routes = []route{
	{"POST", "/runs", (*request).createRun, trusted},
	{"GET", "/runs", (*request).listRuns, trusted},
	{"GET", "/runs/{id}", get(core, (*engine.Service).GetRun, runOf), trusted},
	{"DELETE", "/runs/{id}", do(core, (*engine.Service).CancelRun), trusted},
	{"GET", "/runs/{id}/events", on(core, (*request).runEvents), trusted},

	{"POST", "/files", (*request).createFile, trusted},
	{"GET", "/files", (*request).listFiles, trusted},
	{"GET", "/files/{id}", get(core, (*engine.Service).GetFile, fileOf), trusted},
	{"DELETE", "/files/{id}", do(core, (*engine.Service).DeleteFile), trusted},
	{"GET", "/files/{id}/content", on(core, (*request).fileContent), trusted},

	{"POST", "/sessions", (*request).createSession, trusted},
	{"GET", "/sessions", (*request).listSessions, trusted},
	{"GET", "/sessions/{id}", on(core, (*request).getSession), trusted},
	{"DELETE", "/sessions/{id}", do(core, (*engine.Service).DeleteSession), trusted},
	{"GET", "/sessions/{id}/files", on(core, (*request).sessionFiles), trusted},
	{"GET", "/sessions/{id}/archive", on(core, (*request).sessionArchive), trusted},

	{"POST", "/sessions/{id}/cells", on(sessions, (*request).createCell), trusted},
	{"GET", "/sessions/{id}/cells", get(sessions, live.Sessions.Cells, list("cells", cellOf)), trusted},
	{"GET", "/sessions/{id}/cells/{cell}", getInner(sessions, live.Sessions.Cell, cellOf), trusted},
	{"DELETE", "/sessions/{id}/cells/{cell}", doInner(sessions, live.Sessions.CancelCell), trusted},
	{"GET", "/sessions/{id}/cells/{cell}/events", on(sessions, (*request).cellEvents), trusted},
	{"POST", "/sessions/{id}/interrupt", do(sessions, live.Sessions.Interrupt), trusted},
	{"POST", "/sessions/{id}/restart", do(sessions, live.Sessions.Restart), trusted},
	{"POST", "/sessions/{id}/input", on(sessions, (*request).answerInput), trusted},
	{"POST", "/sessions/{id}/complete", on(sessions, (*request).complete), trusted},
	{"POST", "/sessions/{id}/inspect", on(sessions, (*request).inspect), trusted},
	{"POST", "/sessions/{id}/is_complete", on(sessions, (*request).isComplete), trusted},
	{"GET", "/sessions/{id}/variables", get(sessions, live.Sessions.Variables, list("variables", variableOf)), trusted},

	{"POST", "/sessions/{id}/processes", on(sessions, (*request).startProcess), trusted},
	{"GET", "/sessions/{id}/processes", get(sessions, live.Sessions.Processes, list("processes", processOf)), trusted},
	{"GET", "/sessions/{id}/processes/{process}", getInner(sessions, live.Sessions.Process, processOf), trusted},
	{"DELETE", "/sessions/{id}/processes/{process}", doInner(sessions, live.Sessions.KillProcess), trusted},
	{"GET", "/sessions/{id}/processes/{process}/events", on(sessions, (*request).processEvents), trusted},
	{"POST", "/sessions/{id}/processes/{process}/input", on(sessions, (*request).processInput), trusted},
	{"POST", "/sessions/{id}/processes/{process}/signal", on(sessions, (*request).signalProcess), trusted},
	{"POST", "/sessions/{id}/processes/{process}/resize", on(sessions, (*request).resizeProcess), trusted},

	{"GET", "/sessions/{id}/fs/stat", on(sessions, (*request).statFile), trusted},
	{"GET", "/sessions/{id}/fs/list", on(sessions, (*request).listLiveFiles), trusted},
	{"GET", "/sessions/{id}/fs/read", on(sessions, (*request).readFile), trusted},
	{"GET", "/sessions/{id}/fs/watch", on(sessions, (*request).watchFiles), trusted},
	{"POST", "/sessions/{id}/fs/write", on(sessions, (*request).writeFile), trusted},
	{"POST", "/sessions/{id}/fs/mkdir", on(sessions, (*request).makeFolder), trusted},
	{"POST", "/sessions/{id}/fs/move", on(sessions, (*request).moveFile), trusted},
	{"POST", "/sessions/{id}/fs/remove", on(sessions, (*request).removeFile), trusted},

	{"GET", "/sessions/{id}/ports", on(sessions, (*request).listPorts), trusted},
	{"GET", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), trusted},
	{"POST", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), trusted},
	{"PUT", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), trusted},
	{"PATCH", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), trusted},
	{"DELETE", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), trusted},
	{"OPTIONS", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), trusted},

	{"GET", "/network", (*request).listContacts, keyed},

	{"POST", "/keys", (*request).createKey, keyed},
	{"GET", "/keys", (*request).listKeys, keyed},
	{"DELETE", "/keys/{id}", (*request).revokeKey, keyed},

	{"POST", "/replies", work((*request).createReply), keyed},
	{"GET", "/proposals/{id}", proposal((*request).getProposal), keyed},
	{"POST", "/proposals/{id}/approve", proposal((*request).approveProposal), keyed},
	{"POST", "/proposals/{id}/undo", proposal((*request).undoProposal), keyed},
	{"DELETE", "/proposals/{id}", proposal((*request).declineProposal), keyed},
	{"GET", "/projects", work((*request).listProjects), keyed},
	{"PUT", "/projects/{id}", work((*request).putProject), keyed},
	{"DELETE", "/projects/{id}", work((*request).deleteProject), keyed},
	{"POST", "/projects/{id}/prompt", work((*request).projectPrompt), keyed},
	{"POST", "/projects/{id}/escalations/{escalation}", work((*request).answerEscalation), keyed},
	{"GET", "/outbox", work((*request).listPosts), keyed},
	{"POST", "/outbox/{id}", work((*request).changePost), keyed},

	{"GET", "/conversations", (*request).listConversations, keyed},
	{"GET", "/conversations/{id}", (*request).getConversation, keyed},
	{"DELETE", "/conversations/{id}", (*request).deleteConversation, keyed},
	{"GET", "/conversations/{id}/outputs/{sha256}", (*request).conversationOutput, keyed},

	{"GET", "/status", (*request).status, keyed},
	{"GET", "/languages", (*request).languages, trusted},
	{"GET", "/limits", (*request).limits, trusted},
	{"GET", "/openapi.yaml", (*request).openAPI, public},
}

// API is the handler. The caller must strip its prefix.
type API struct {
	mux    *http.ServeMux
	access map[string]access // by pattern
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Access reports whether callers from trusted networks, or all callers, may make a request without
// a key.
func (a *API) Access(r *http.Request) (network, everyone bool) {
	_, pattern := a.mux.Handler(r)
	is := a.access[pattern]
	return is == trusted || is == public, is == public
}

// AnyOrigin lists the paths that the front door accepts from pages of other origins. Their
// handler checks the origin.
func AnyOrigin() []string { return []string{"/sessions/{id}/ports/"} }

// New returns the API.
func New(e *engine.Service, o Options) *API {
	o.Prefix = cmp.Or(o.Prefix, "/api/v1")
	if o.MaxUpload <= 0 {
		o.MaxUpload = 200 << 20
	}
	if o.MaxJSON <= 0 {
		o.MaxJSON = MaxJSON
	}
	if o.Nodes == nil {
		o.Nodes = func() []engine.Node { return nil }
	}
	if o.OneMachine == nil {
		o.OneMachine = func() string { return "" }
	}
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &api{engine: e, Options: o}

	mux := http.NewServeMux()
	allow, accesses := map[string][]string{}, map[string]access{}
	for _, r := range routes {
		accesses[r.method+" "+r.path] = r.access
		mux.HandleFunc(r.method+" "+r.path, a.handle(r.serve))
		allow[r.path] = append(allow[r.path], r.method)
		if r.method == http.MethodGet {
			allow[r.path] = append(allow[r.path], http.MethodHead)
		}
	}
	for path, methods := range allow {
		slices.Sort(methods)
		list := strings.Join(methods, ", ")
		mux.HandleFunc(path, a.handle(func(q *request) (any, error) {
			q.w.Header().Set("Allow", list)
			return nil, refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this address takes %s", list)
		}))
	}
	mux.HandleFunc("/", a.handle(func(*request) (any, error) {
		return nil, refuse(http.StatusNotFound, "not_found", "nothing lives at this address")
	}))
	return &API{mux, accesses}
}
