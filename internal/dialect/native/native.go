// Package native serves Airlock's own API, the one that openapi.yaml next to
// this file describes: runs, files, sessions, keys; replies, proposals,
// projects and what is reported to them; conversations.
//
// It is an edge, and as thin as one should be. Each handler decodes what it
// was sent (decode.go, upload.go), calls one method of the engine, and encodes
// the answer (wire.go). Errors become a status and a JSON body in one place,
// errors.go. Nothing else is decided here.
package native

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/wire"
)

// MaxJSON is the usual limit of a JSON body in bytes: 16 MiB of code, escaped.
const MaxJSON = 24 << 20

// Options set up the dialect. Only Caller is required.
type Options struct {
	// Caller says who makes a request. Whoever serves the handler has made
	// sure that there is somebody.
	Caller func(*http.Request) engine.Caller

	Prefix    string       // where the handler is mounted, for Location headers; empty: "/api/v1"
	MaxUpload int64        // bytes of one file, told by GET /limits; 0: 200 MiB
	MaxJSON   int64        // bytes of a JSON body; 0: MaxJSON
	Bodies    *wire.Bodies // counts the memory of large JSON bodies; nil: by itself
	Log       *slog.Logger // for causes that the client must not see; nil: nothing is logged
	Work      *Work        // replies, projects and reports; nil: those addresses are not available
	Live      Live         // interpreters; nil: there are no live sessions
	Inside    Inside       // what runs beside them; nil: nothing does
	// Conversations are those with models; nil: those addresses are not
	// available.
	Conversations Conversations
}

// api is the dialect at work.
type api struct {
	engine Engine
	Options
	versions language.Versions
}

// access says who may use a route without a key. A route that does not say is
// for callers with a key and for the machine itself.
type access int

const (
	keyed   access = iota
	trusted        // callers from a trusted network as well: what the route changes is in a sandbox
	public         // every caller
)

// route is one method of one path. The path is relative to the prefix.
type route struct {
	method, path string
	serve        func(*api, http.ResponseWriter, *http.Request) error
	access       access
}

// routes is the whole surface. openapi.yaml describes exactly these.
var routes = []route{
	{"POST", "/runs", (*api).createRun, trusted},
	{"GET", "/runs", (*api).listRuns, trusted},
	{"GET", "/runs/{id}", (*api).getRun, trusted},
	{"DELETE", "/runs/{id}", (*api).cancelRun, trusted},
	{"GET", "/runs/{id}/events", (*api).runEvents, trusted},

	{"POST", "/files", (*api).createFile, trusted},
	{"GET", "/files", (*api).listFiles, trusted},
	{"GET", "/files/{id}", (*api).getFile, trusted},
	{"DELETE", "/files/{id}", (*api).deleteFile, trusted},
	{"GET", "/files/{id}/content", (*api).fileContent, trusted},

	{"POST", "/sessions", (*api).createSession, trusted},
	{"GET", "/sessions", (*api).listSessions, trusted},
	{"GET", "/sessions/{id}", (*api).getSession, trusted},
	{"DELETE", "/sessions/{id}", (*api).deleteSession, trusted},
	{"GET", "/sessions/{id}/files", (*api).sessionFiles, trusted},
	{"GET", "/sessions/{id}/archive", (*api).sessionArchive, trusted},

	{"POST", "/sessions/{id}/cells", (*api).createCell, trusted},
	{"GET", "/sessions/{id}/cells", (*api).listCells, trusted},
	{"GET", "/sessions/{id}/cells/{cell}", (*api).getCell, trusted},
	{"DELETE", "/sessions/{id}/cells/{cell}", (*api).cancelCell, trusted},
	{"GET", "/sessions/{id}/cells/{cell}/events", (*api).cellEvents, trusted},
	{"POST", "/sessions/{id}/interrupt", onSession(Live.Interrupt), trusted},
	{"POST", "/sessions/{id}/restart", onSession(Live.Restart), trusted},
	{"POST", "/sessions/{id}/input", (*api).answerInput, trusted},
	{"POST", "/sessions/{id}/complete", (*api).complete, trusted},
	{"POST", "/sessions/{id}/inspect", (*api).inspect, trusted},
	{"POST", "/sessions/{id}/is_complete", (*api).isComplete, trusted},
	{"GET", "/sessions/{id}/variables", (*api).variables, trusted},

	{"POST", "/sessions/{id}/processes", (*api).startProcess, trusted},
	{"GET", "/sessions/{id}/processes", (*api).listProcesses, trusted},
	{"GET", "/sessions/{id}/processes/{process}", (*api).getProcess, trusted},
	{"DELETE", "/sessions/{id}/processes/{process}", (*api).killProcess, trusted},
	{"GET", "/sessions/{id}/processes/{process}/events", (*api).processEvents, trusted},
	{"POST", "/sessions/{id}/processes/{process}/input", (*api).processInput, trusted},
	{"POST", "/sessions/{id}/processes/{process}/signal", changeProcess(readSignal), trusted},
	{"POST", "/sessions/{id}/processes/{process}/resize", changeProcess(readResize), trusted},

	{"GET", "/sessions/{id}/fs/stat", (*api).statFile, trusted},
	{"GET", "/sessions/{id}/fs/list", (*api).listLiveFiles, trusted},
	{"GET", "/sessions/{id}/fs/read", (*api).readFile, trusted},
	{"GET", "/sessions/{id}/fs/watch", (*api).watchFiles, trusted},
	{"POST", "/sessions/{id}/fs/write", (*api).writeFile, trusted},
	{"POST", "/sessions/{id}/fs/mkdir", (*api).makeFolder, trusted},
	{"POST", "/sessions/{id}/fs/move", (*api).moveFile, trusted},
	{"POST", "/sessions/{id}/fs/remove", (*api).removeFile, trusted},

	{"GET", "/sessions/{id}/ports/{port}/{path...}", (*api).port, trusted},
	{"POST", "/sessions/{id}/ports/{port}/{path...}", (*api).port, trusted},
	{"PUT", "/sessions/{id}/ports/{port}/{path...}", (*api).port, trusted},
	{"PATCH", "/sessions/{id}/ports/{port}/{path...}", (*api).port, trusted},
	{"DELETE", "/sessions/{id}/ports/{port}/{path...}", (*api).port, trusted},
	{"OPTIONS", "/sessions/{id}/ports/{port}/{path...}", (*api).port, trusted},

	{"POST", "/keys", (*api).createKey, keyed},
	{"GET", "/keys", (*api).listKeys, keyed},
	{"DELETE", "/keys/{id}", (*api).revokeKey, keyed},

	{"POST", "/replies", (*api).createReply, keyed},
	{"GET", "/proposals/{id}", (*api).getProposal, keyed},
	{"POST", "/proposals/{id}/approve", (*api).approveProposal, keyed},
	{"POST", "/proposals/{id}/undo", (*api).undoProposal, keyed},
	{"DELETE", "/proposals/{id}", (*api).declineProposal, keyed},
	{"GET", "/projects", (*api).listProjects, keyed},
	{"PUT", "/projects/{id}", (*api).putProject, keyed},
	{"DELETE", "/projects/{id}", (*api).deleteProject, keyed},
	{"POST", "/projects/{id}/prompt", (*api).projectPrompt, keyed},
	{"POST", "/projects/{id}/escalations/{escalation}", (*api).answerEscalation, keyed},
	{"GET", "/outbox", (*api).listPosts, keyed},
	{"POST", "/outbox/{id}", (*api).changePost, keyed},

	{"GET", "/conversations", (*api).listConversations, keyed},
	{"GET", "/conversations/{id}", (*api).getConversation, keyed},
	{"DELETE", "/conversations/{id}", (*api).deleteConversation, keyed},
	{"GET", "/conversations/{id}/outputs/{sha256}", (*api).conversationOutput, keyed},

	{"GET", "/status", (*api).status, keyed},
	{"GET", "/languages", (*api).languages, trusted},
	{"GET", "/limits", (*api).limits, trusted},
	{"GET", "/openapi.yaml", (*api).openAPI, public},
}

// API is a handler that wants its prefix removed.
type API struct {
	mux    *http.ServeMux
	access map[string]access // by pattern
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Access reports which callers may make a request without a key: those from
// trusted networks, or all.
func (a *API) Access(r *http.Request) (network, everyone bool) {
	_, pattern := a.mux.Handler(r)
	is := a.access[pattern]
	return is == trusted || is == public, is == public
}

// AnyOrigin lists the paths whose requests may come from pages of other origins as
// far as the front door is concerned: their handler looks at the origin itself.
func AnyOrigin() []string { return []string{"/sessions/{id}/ports/"} }

// New returns the API.
func New(e Engine, o Options) *API {
	if o.Prefix == "" {
		o.Prefix = "/api/v1"
	}
	if o.MaxUpload <= 0 {
		o.MaxUpload = 200 << 20
	}
	if o.MaxJSON <= 0 {
		o.MaxJSON = MaxJSON
	}
	if o.Bodies == nil {
		o.Bodies = &wire.Bodies{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
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
		mux.HandleFunc(path, a.handle(func(_ *api, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", list)
			return refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this address takes %s", list)
		}))
	}
	mux.HandleFunc("/", a.handle(func(*api, http.ResponseWriter, *http.Request) error {
		return refuse(http.StatusNotFound, "not_found", "nothing lives at this address")
	}))
	return &API{mux, accesses}
}

// handle makes an http handler of one that may fail.
func (a *api) handle(serve func(*api, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(a, w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}

// pathID reads the id in the path. What cannot be an id names nothing.
func pathID(r *http.Request) (engine.ID, error) {
	id, err := engine.ParseID(r.PathValue("id"))
	if err != nil {
		return engine.ID{}, engine.ErrNotFound
	}
	return id, nil
}
