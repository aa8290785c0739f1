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
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/wire"
)

// MaxJSON is the usual limit of a JSON body in bytes: 16 MiB of code, escaped.
const MaxJSON = 24 << 20

// Options set up the dialect. Only Caller is required.
type Options struct {
	// Caller returns the caller of a request. The server has authenticated it.
	Caller func(*http.Request) engine.Caller

	Prefix    string        // where the handler is mounted, for Location headers; empty: Prefix
	MaxUpload int64         // bytes of one file, as reported by GET /limits; 0: 200 MiB
	MaxJSON   int64         // bytes of a JSON body; 0: MaxJSON
	Bodies    *wire.Bodies  // counts the memory of large JSON bodies; nil: by itself
	Log       *slog.Logger  // for causes that the client must not see; nil: nothing is logged
	Routes    []rest.Route  // more of them, of another part of Airlock
	Live      live.Sessions // nil: there are no live sessions
	// Nodes returns the nodes of the cluster; nil: there is none.
	Nodes func() []engine.Node
}

// api is the state of an API.
type api struct {
	engine *engine.Service
	kit    *rest.Kit
	Options
	versions language.Versions
}

// route is a method of a path. The path is relative to the prefix.
type route struct {
	method, path string
	serve        handler
	access       rest.Access
}

// routes lists all routes. openapi.yaml describes exactly these.
var routes = []route{
	{"POST", "/runs", (*request).createRun, rest.Trusted},
	{"GET", "/runs", (*request).listRuns, rest.Trusted},
	{"GET", "/runs/{id}", get(core, (*engine.Service).GetRun, runOf), rest.Trusted},
	{"DELETE", "/runs/{id}", do(core, (*engine.Service).CancelRun), rest.Trusted},
	{"GET", "/runs/{id}/events", on(core, (*request).runEvents), rest.Trusted},

	{"POST", "/files", (*request).createFile, rest.Trusted},
	{"GET", "/files", (*request).listFiles, rest.Trusted},
	{"GET", "/files/{id}", get(core, (*engine.Service).GetFile, fileOf), rest.Trusted},
	{"DELETE", "/files/{id}", do(core, (*engine.Service).DeleteFile), rest.Trusted},
	{"GET", "/files/{id}/content", on(core, (*request).fileContent), rest.Trusted},

	{"POST", "/sessions", (*request).createSession, rest.Trusted},
	{"GET", "/sessions", (*request).listSessions, rest.Trusted},
	{"GET", "/sessions/{id}", on(core, (*request).getSession), rest.Trusted},
	{"DELETE", "/sessions/{id}", do(core, (*engine.Service).DeleteSession), rest.Trusted},
	{"GET", "/sessions/{id}/files", on(core, (*request).sessionFiles), rest.Trusted},
	{"GET", "/sessions/{id}/archive", on(core, (*request).sessionArchive), rest.Trusted},

	{"POST", "/sessions/{id}/pause", on(sessions, (*request).pauseSession), rest.Trusted},
	{"PUT", "/sessions/{id}/secrets", on(sessions, (*request).setSecrets), rest.Trusted},
	{"POST", "/sessions/{id}/snapshots", on(sessions, (*request).createSnapshot), rest.Trusted},
	{"POST", "/sessions/{id}/fork", on(sessions, (*request).forkSession), rest.Trusted},
	{"GET", "/snapshots", (*request).listSnapshots, rest.Trusted},
	{"GET", "/snapshots/{id}", (*request).getSnapshot, rest.Trusted},
	{"DELETE", "/snapshots/{id}", do(core, (*engine.Service).DeleteSnapshot), rest.Trusted},

	{"POST", "/volumes", (*request).createVolume, rest.Trusted},
	{"GET", "/volumes", (*request).listVolumes, rest.Trusted},
	{"GET", "/volumes/{name}", (*request).getVolume, rest.Trusted},
	{"DELETE", "/volumes/{name}", (*request).deleteVolume, rest.Trusted},

	{"POST", "/sessions/{id}/cells", on(sessions, (*request).createCell), rest.Trusted},
	{"GET", "/sessions/{id}/cells", get(sessions, live.Sessions.Cells, list("cells", cellOf)), rest.Trusted},
	{"GET", "/sessions/{id}/cells/{cell}", getInner(sessions, live.Sessions.Cell, cellOf), rest.Trusted},
	{"DELETE", "/sessions/{id}/cells/{cell}", doInner(sessions, live.Sessions.CancelCell), rest.Trusted},
	{"GET", "/sessions/{id}/cells/{cell}/events", on(sessions, (*request).cellEvents), rest.Trusted},
	{"POST", "/sessions/{id}/interrupt", do(sessions, live.Sessions.Interrupt), rest.Trusted},
	{"POST", "/sessions/{id}/restart", do(sessions, live.Sessions.Restart), rest.Trusted},
	{"POST", "/sessions/{id}/input", on(sessions, (*request).answerInput), rest.Trusted},
	{"POST", "/sessions/{id}/complete", on(sessions, (*request).complete), rest.Trusted},
	{"POST", "/sessions/{id}/inspect", on(sessions, (*request).inspect), rest.Trusted},
	{"POST", "/sessions/{id}/is_complete", on(sessions, (*request).isComplete), rest.Trusted},
	{"GET", "/sessions/{id}/variables", get(sessions, live.Sessions.Variables, list("variables", variableOf)),
		rest.Trusted},
	{"POST", "/sessions/{id}/frames/{frame}", on(sessions, (*request).readFrame), rest.Trusted},

	{"GET", "/sessions/{id}/network", on(sessions, (*request).getNetwork), rest.Trusted},
	{"PUT", "/sessions/{id}/network", on(sessions, (*request).setNetwork), rest.Trusted},
	{"POST", "/sessions/{id}/packages", on(sessions, (*request).installPackages), rest.Trusted},

	{"POST", "/sessions/{id}/processes", on(sessions, (*request).startProcess), rest.Trusted},
	{"GET", "/sessions/{id}/processes", get(sessions, live.Sessions.Processes, list("processes", processOf)),
		rest.Trusted},
	{"GET", "/sessions/{id}/processes/{process}", getInner(sessions, live.Sessions.Process, processOf), rest.Trusted},
	{"DELETE", "/sessions/{id}/processes/{process}", doInner(sessions, live.Sessions.KillProcess), rest.Trusted},
	{"GET", "/sessions/{id}/processes/{process}/events", on(sessions, (*request).processEvents), rest.Trusted},
	{"POST", "/sessions/{id}/processes/{process}/input", on(sessions, (*request).processInput), rest.Trusted},
	{"POST", "/sessions/{id}/processes/{process}/signal", on(sessions, (*request).signalProcess), rest.Trusted},
	{"POST", "/sessions/{id}/processes/{process}/resize", on(sessions, (*request).resizeProcess), rest.Trusted},
	{"GET", "/sessions/{id}/tree", on(sessions, (*request).processTree), rest.Trusted},
	{"DELETE", "/sessions/{id}/tree/{member}", on(sessions, (*request).endTreeProcess), rest.Trusted},

	{"GET", "/sessions/{id}/comms", on(sessions, (*request).listComms), rest.Trusted},
	{"POST", "/sessions/{id}/comms", on(sessions, (*request).sendComm), rest.Trusted},

	{"GET", "/sessions/{id}/fs/stat", on(sessions, (*request).statFile), rest.Trusted},
	{"GET", "/sessions/{id}/fs/list", on(sessions, (*request).listLiveFiles), rest.Trusted},
	{"GET", "/sessions/{id}/fs/read", on(sessions, (*request).readFile), rest.Trusted},
	{"GET", "/sessions/{id}/fs/watch", on(sessions, (*request).watchFiles), rest.Trusted},
	{"POST", "/sessions/{id}/fs/write", on(sessions, (*request).writeFile), rest.Trusted},
	{"POST", "/sessions/{id}/fs/mkdir", on(sessions, (*request).makeFolder), rest.Trusted},
	{"POST", "/sessions/{id}/fs/move", on(sessions, (*request).moveFile), rest.Trusted},
	{"POST", "/sessions/{id}/fs/remove", on(sessions, (*request).removeFile), rest.Trusted},

	{"GET", "/sessions/{id}/ports", on(sessions, (*request).listPorts), rest.Trusted},
	{"GET", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), rest.Trusted},
	{"POST", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), rest.Trusted},
	{"PUT", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), rest.Trusted},
	{"PATCH", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), rest.Trusted},
	{"DELETE", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), rest.Trusted},
	{"OPTIONS", "/sessions/{id}/ports/{port}/{path...}", on(sessions, (*request).port), rest.Trusted},

	{"GET", "/network", (*request).listContacts, rest.Keyed},

	{"GET", "/usage", (*request).usage, rest.Keyed},
	{"GET", "/audit", (*request).audit, rest.Keyed},

	{"POST", "/keys", (*request).createKey, rest.Keyed},
	{"GET", "/keys", (*request).listKeys, rest.Keyed},
	{"DELETE", "/keys/{id}", (*request).revokeKey, rest.Keyed},

	{"GET", "/status", (*request).status, rest.Keyed},
	{"GET", "/languages", (*request).languages, rest.Trusted},
	{"GET", "/images", (*request).images, rest.Trusted},
	{"GET", "/limits", (*request).limits, rest.Trusted},
	{"GET", "/openapi.yaml", (*request).openAPI, rest.Public},
}

// API is the handler. The caller must strip its prefix.
type API struct {
	mux    *http.ServeMux
	access map[string]rest.Access // by pattern
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Access reports whether callers from trusted networks, or all callers, may make a request without
// a key.
func (a *API) Access(r *http.Request) (network, everyone bool) {
	_, pattern := a.mux.Handler(r)
	is := a.access[pattern]
	return is == rest.Trusted || is == rest.Public, is == rest.Public
}

// anyOrigin lists the paths that the front door accepts from pages of other origins. Their
// handler checks the origin.
func anyOrigin() []string { return []string{"/sessions/{id}/ports/"} }

// New returns the API.
func New(e *engine.Service, o Options) *API {
	o.Prefix = cmp.Or(o.Prefix, Prefix)
	if o.MaxUpload <= 0 {
		o.MaxUpload = 200 << 20
	}
	if o.MaxJSON <= 0 {
		o.MaxJSON = MaxJSON
	}
	if o.Nodes == nil {
		o.Nodes = func() []engine.Node { return nil }
	}
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &api{engine: e, Options: o,
		kit: &rest.Kit{Caller: o.Caller, Prefix: o.Prefix, MaxJSON: o.MaxJSON, Bodies: o.Bodies, Log: o.Log}}

	mux := http.NewServeMux()
	allow, accesses := map[string][]string{}, map[string]rest.Access{}
	add := func(method, path string, access rest.Access, serve http.HandlerFunc) {
		accesses[method+" "+path] = access
		mux.HandleFunc(method+" "+path, serve)
		allow[path] = append(allow[path], method)
		if method == http.MethodGet {
			allow[path] = append(allow[path], http.MethodHead)
		}
	}
	for _, r := range routes {
		add(r.method, r.path, r.access, a.handle(r.serve))
	}
	for _, r := range o.Routes {
		add(r.Method, r.Path, r.Access, a.kit.Handle(r.Serve))
	}
	for path, methods := range allow {
		slices.Sort(methods)
		list := strings.Join(methods, ", ")
		mux.HandleFunc(path, a.handle(func(q *request) (any, error) {
			q.W.Header().Set("Allow", list)
			return nil, rest.Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this address takes %s", list)
		}))
	}
	mux.HandleFunc("/", a.handle(func(*request) (any, error) {
		return nil, rest.Refuse(http.StatusNotFound, "not_found", "nothing lives at this address")
	}))
	return &API{mux, accesses}
}
