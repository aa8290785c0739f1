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
)

// Options set up the dialect. Only Caller is required.
type Options struct {
	// Caller says who makes a request. Whoever serves the handler has made
	// sure that there is somebody.
	Caller func(*http.Request) engine.Caller

	Prefix    string       // where the handler is mounted, for Location headers; empty: "/api/v1"
	MaxUpload int64        // bytes of one file, told by GET /limits; 0: 200 MiB
	MaxJSON   int64        // bytes of a JSON body; 0: 8 MiB
	Log       *slog.Logger // for causes that the client must not see; nil: nothing is logged
	Work      *Work        // replies, projects and reports; nil: those addresses are not available
	// Conversations are those with models; nil: those addresses are not
	// available.
	Conversations Conversations
}

// api is the dialect at work.
type api struct {
	engine Engine
	bodies bodies
	Options
	versions language.Versions
}

// route is one method of one path. The path is relative to the prefix.
type route struct {
	method, path string
	serve        func(*api, http.ResponseWriter, *http.Request) error
}

// routes is the whole surface. openapi.yaml describes exactly these.
var routes = []route{
	{"POST", "/runs", (*api).createRun},
	{"GET", "/runs", (*api).listRuns},
	{"GET", "/runs/{id}", (*api).getRun},
	{"DELETE", "/runs/{id}", (*api).cancelRun},
	{"GET", "/runs/{id}/events", (*api).runEvents},

	{"POST", "/files", (*api).createFile},
	{"GET", "/files", (*api).listFiles},
	{"GET", "/files/{id}", (*api).getFile},
	{"DELETE", "/files/{id}", (*api).deleteFile},
	{"GET", "/files/{id}/content", (*api).fileContent},

	{"POST", "/sessions", (*api).createSession},
	{"GET", "/sessions", (*api).listSessions},
	{"GET", "/sessions/{id}", (*api).getSession},
	{"DELETE", "/sessions/{id}", (*api).deleteSession},
	{"GET", "/sessions/{id}/files", (*api).sessionFiles},
	{"GET", "/sessions/{id}/archive", (*api).sessionArchive},

	{"POST", "/keys", (*api).createKey},
	{"GET", "/keys", (*api).listKeys},
	{"DELETE", "/keys/{id}", (*api).revokeKey},

	{"POST", "/replies", (*api).createReply},
	{"GET", "/proposals/{id}", (*api).getProposal},
	{"POST", "/proposals/{id}/approve", (*api).approveProposal},
	{"POST", "/proposals/{id}/undo", (*api).undoProposal},
	{"DELETE", "/proposals/{id}", (*api).declineProposal},
	{"GET", "/projects", (*api).listProjects},
	{"PUT", "/projects/{id}", (*api).putProject},
	{"DELETE", "/projects/{id}", (*api).deleteProject},
	{"POST", "/projects/{id}/prompt", (*api).projectPrompt},
	{"POST", "/projects/{id}/escalations/{escalation}", (*api).answerEscalation},
	{"GET", "/outbox", (*api).listPosts},
	{"POST", "/outbox/{id}", (*api).changePost},

	{"GET", "/conversations", (*api).listConversations},
	{"GET", "/conversations/{id}", (*api).getConversation},
	{"DELETE", "/conversations/{id}", (*api).deleteConversation},
	{"GET", "/conversations/{id}/outputs/{sha256}", (*api).conversationOutput},

	{"GET", "/languages", (*api).languages},
	{"GET", "/limits", (*api).limits},
	{"GET", "/openapi.yaml", (*api).openAPI},
}

// New returns the API as a handler that wants its prefix removed.
func New(e Engine, o Options) http.Handler {
	if o.Prefix == "" {
		o.Prefix = "/api/v1"
	}
	if o.MaxUpload <= 0 {
		o.MaxUpload = 200 << 20
	}
	if o.MaxJSON <= 0 {
		o.MaxJSON = 8 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	a := &api{engine: e, Options: o}

	mux := http.NewServeMux()
	allow := map[string][]string{}
	for _, r := range routes {
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
	return mux
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
