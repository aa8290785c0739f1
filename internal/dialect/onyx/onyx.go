// Package onyx serves the API of Onyx's code interpreter. Onyx needs only another
// CODE_INTERPRETER_BASE_URL for programs with their output in one answer or as a stream,
// files, sessions with a shell, health and metrics.
//
// README.md in this folder lists the coverage and the intended differences. Like every edge
// it decodes, calls one method of the engine, and encodes. It is longer for exactness:
// clients compare texts, and the original lists all errors of a body in its own format
// (document.go reads JSON as Python does, schema.go fills the list).
package onyx

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// Version is the version of the original that this package implements. Its clients do not use
// features that they think are too new for a server.
const Version = "0.4.7"

// Options set up the dialect. Only Caller is required.
type Options struct {
	// Caller returns the caller of a request. The server has authenticated it.
	Caller func(*http.Request) engine.Caller

	MaxTimeout time.Duration // of one run; 0: 60 s
	MaxOutput  int           // bytes kept of stdout and stderr, each; 0: 1,000,000
	MaxFile    int64         // bytes of an uploaded file; 0: 100 MiB
	FileTTL    time.Duration // lifetime of a file since its last use; 0: 1 h
	Memory     int64         // bytes for one run; 0: the service's default
	CPUTime    time.Duration // for one run; 0: no limit

	Bodies   *wire.Bodies          // counts the memory of large JSON bodies; nil: by itself
	Registry prometheus.Registerer // for the metrics; nil: a new registry
	Metrics  http.Handler          // answers /metrics; nil: serves the new registry
	Log      *slog.Logger          // for causes that the client must not see; nil: nothing is logged
}

// The defaults of the original.
const (
	defaultMaxTimeout = time.Minute
	defaultMaxOutput  = 1_000_000
	// DefaultMaxFile is the default of Options.MaxFile.
	DefaultMaxFile = 100 << 20
	defaultFileTTL = time.Hour
)

func (o *Options) fill() {
	o.MaxTimeout = cmp.Or(o.MaxTimeout, defaultMaxTimeout)
	o.MaxOutput = cmp.Or(o.MaxOutput, defaultMaxOutput)
	o.MaxFile = cmp.Or(o.MaxFile, DefaultMaxFile)
	o.FileTTL = cmp.Or(o.FileTTL, defaultFileTTL)
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// api is the state of a handler.
type api struct {
	engine *engine.Service
	meter  *meter
	Options
}

type handler func(*api, http.ResponseWriter, *http.Request) error

// routes lists all routes: path, method, handler.
var routes = map[string]map[string]handler{
	"/v1/execute":            {"POST": (*api).execute},
	"/v1/execute/stream":     {"POST": (*api).executeStream},
	"/v1/files":              {"POST": (*api).upload, "GET": (*api).listFiles},
	"/v1/files/{id}":         {"GET": (*api).download, "DELETE": (*api).deleteFile},
	"/v1/sessions":           {"POST": (*api).createSession},
	"/v1/sessions/{id}":      {"DELETE": (*api).deleteSession},
	"/v1/sessions/{id}/bash": {"POST": (*api).bash},
	"/health":                {"GET": (*api).health},
	"/ready":                 {"GET": (*api).ready},
	"/metrics":               {"GET": (*api).metrics},
	"/openapi.json":          {"GET": (*api).openAPI},
	"/docs":                  {"GET": (*api).docs},
	"/redoc":                 {"GET": (*api).docs},
}

// rootRoutes returns the routes that are served at the root of a service too, for an Onyx that was
// configured with only host and port. Each has the condition that distinguishes Onyx from other
// callers; nil: no other caller uses the route.
func rootRoutes() map[string]func(*http.Request) bool {
	return map[string]func(*http.Request) bool{
		"/v1/execute":            nil,
		"/v1/execute/stream":     nil,
		"/v1/files":              nil,
		"/v1/files/{id}":         namesFile,
		"/v1/sessions":           nil,
		"/v1/sessions/{id}":      nil,
		"/v1/sessions/{id}/bash": nil,
		"GET /health":            fromPython,
		"GET /ready":             fromPython,
	}
}

// namesFile reports whether a request names a file by its UUID. LibreChat lists a session at the
// same address, by an id of 21 characters.
func namesFile(r *http.Request) bool {
	_, err := engine.ParseUUID(r.PathValue("id"))
	return err == nil && !r.URL.Query().Has("detail")
}

// fromPython reports whether a request comes from a Python program, as Onyx does. Onyx rejects a
// server of an unknown version.
func fromPython(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "python-") }

// New returns the API as a handler. The caller must strip its prefix.
func New(e *engine.Service, o Options) http.Handler {
	o.fill()
	a := &api{engine: e, Options: o}
	a.meter = newMeter(&a.Options, e)
	mux := http.NewServeMux()
	for path, methods := range routes {
		mux.HandleFunc(path, a.handle(choose(methods)))
	}
	mux.HandleFunc("/", a.handle((*api).elsewhere))
	return mux
}

// choose returns the handler of a request's method. HEAD does not match GET.
func choose(methods map[string]handler) handler {
	var allowed []string
	for method := range methods {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return func(a *api, w http.ResponseWriter, r *http.Request) error {
		if serve, ok := methods[r.Method]; ok {
			return serve(a, w, r)
		}
		w.Header().Set("Allow", allow)
		return wire.Refuse(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// handle returns the HTTP handler of a route.
func (a *api) handle(serve handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(a, w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}

// elsewhere answers unknown addresses. A trailing slash is redirected.
func (*api) elsewhere(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path != r.URL.Path && known(path) {
		// The address is relative, since the prefix of the mount is not known here.
		target := url.URL{Path: "../" + path[strings.LastIndexByte(path, '/')+1:], RawQuery: r.URL.RawQuery}
		w.Header().Set("Location", target.String())
		w.WriteHeader(http.StatusTemporaryRedirect)
		return nil
	}
	return wire.Refuse(http.StatusNotFound, "Not Found")
}

func known(path string) bool {
	given := strings.Split(path, "/")
	for pattern := range routes {
		parts := strings.Split(pattern, "/")
		if slices.EqualFunc(parts, given, func(part, word string) bool {
			return part == word || part == "{id}" && word != ""
		}) {
			return true
		}
	}
	return false
}

// healthBody describes the service and its isolation.
type healthBody struct {
	Status    string  `json:"status"` // "ok" or "error"
	Message   *string `json:"message"`
	Version   string  `json:"version"`
	Backend   *string `json:"executor_backend"`  // "linux"; null while the sandbox does not answer
	Isolation *string `json:"network_isolation"` // "network_namespace"; null if there is none
}

func (a *api) state(ctx context.Context) healthBody {
	body := healthBody{Status: "ok", Version: Version}
	if err := a.engine.Ready(ctx); err != nil {
		body.Status = "error"
		message := "The sandbox is not available. Run airlock doctor on the host."
		if e, ok := errors.AsType[*engine.Error](err); ok && e.Hint != "" {
			message = e.Hint
		}
		body.Message = &message
	}
	isolation, err := a.engine.Isolation(ctx)
	if err != nil {
		return body
	}
	body.Backend = &isolation.Backend
	for _, layer := range isolation.Layers {
		if layer.Name == "network" && layer.State == engine.LayerEnforced {
			own := "network_namespace"
			body.Isolation = &own
		}
	}
	return body
}

// health answers 200 for as long as the process can answer at all.
func (a *api) health(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, a.state(r.Context()))
	return nil
}

// ready answers 503 while runs would be refused.
func (a *api) ready(w http.ResponseWriter, r *http.Request) error {
	body, status := a.state(r.Context()), http.StatusOK
	if body.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
	return nil
}

func (a *api) metrics(w http.ResponseWriter, r *http.Request) error {
	a.Metrics.ServeHTTP(w, r)
	return nil
}

//go:embed openapi.json
var openAPI []byte

//go:embed docs.html
var docs []byte

func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
	return nil
}

func (a *api) docs(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(docs)
	return nil
}
