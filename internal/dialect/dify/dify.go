// Package dify serves the API of dify-sandbox. Dify needs only another
// CODE_EXECUTION_ENDPOINT to run its Code and Template nodes here.
//
// README.md in this folder lists the coverage and the intended differences.
// Like every edge it decodes, calls one method of the engine, and encodes.
package dify

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// Options set up the dialect. Only Caller is required.
type Options struct {
	// Caller returns the caller of a request. The server has authenticated it.
	Caller func(*http.Request) engine.Caller

	Timeout time.Duration // of one run, at most 55 s; 0: 15 s
	Output  int           // bytes of stdout, above which a run fails; 0: 16 MiB

	Bodies *wire.Bodies // counts the memory of large bodies; nil: by itself
	Log    *slog.Logger // for causes that the client must not see; nil: nothing is logged
}

const (
	// maxBody bounds the body of a request: the program, twice for its escapes.
	maxBody = 40 << 20

	defaultTimeout = 15 * time.Second // SANDBOX_WORKER_TIMEOUT of Dify's compose file
	maxTimeout     = 55 * time.Second // Dify's client waits for 60 s
	defaultOutput  = 16 << 20
)

type api struct {
	engine *engine.Service
	Options
}

type handler func(http.ResponseWriter, *http.Request) (any, error)

// New returns the API as a handler. The caller must strip its prefix.
func New(e *engine.Service, o Options) http.Handler {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	o.Timeout = min(o.Timeout, maxTimeout)
	if _, maxima := e.Limits(); maxima.Timeout > 0 {
		o.Timeout = min(o.Timeout, maxima.Timeout)
	}
	if o.Output <= 0 {
		o.Output = defaultOutput
	}
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &api{engine: e, Options: o}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]handler{
		"POST /v1/sandbox/run":                 a.run,
		"GET /v1/sandbox/dependencies":         a.dependencies,
		"GET /v1/sandbox/dependencies/refresh": a.dependencies,
		"POST /v1/sandbox/dependencies/update": a.update,
	} {
		mux.HandleFunc(pattern, a.handle(serve))
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuseRequest(w, r, http.StatusNotFound, "", "nothing lives at this address")
	})
	return mux
}

func (a *api) handle(serve handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := serve(w, r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, envelope{Message: "success", Data: data})
	}
}

// envelope is around every answer. A Code is 0, or minus an HTTP status.
type envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

var errLanguage = bad("unsupported language")

func bad(message string) error { return wire.Refuse(http.StatusBadRequest, "%s", message) }

// refuseRequest answers with an error from the front door.
func refuseRequest(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	switch status {
	case http.StatusUnauthorized:
		w.WriteHeader(status) // without a body, as the original
		return
	case http.StatusTooManyRequests: // Dify takes it for a network fault
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, envelope{Code: -status, Message: message})
}

// fail answers with an error. Dify shows its user the message where the status is 200, and a
// sentence of its own otherwise.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		refuseRequest(w, r, refused.Status, "", refused.Error())
		return
	}
	if wire.IsTooLarge(err) {
		refuseRequest(w, r, http.StatusRequestEntityTooLarge, "", "the body is too large")
		return
	}
	e, _ := errors.AsType[*engine.Error](err)
	switch kind := engine.KindOf(err); {
	case kind == engine.ErrInvalid && e != nil && e.Err != nil, kind == engine.ErrTooLarge && e != nil && e.Err != nil:
		refuseRequest(w, r, http.StatusBadRequest, "", e.ID+" "+e.Err.Error())
	case kind == engine.ErrSpent && e != nil: // otherwise its user would not see why
		writeJSON(w, http.StatusOK, envelope{Code: -http.StatusTooManyRequests, Message: e.Hint})
	case kind == engine.ErrBusy, kind == engine.ErrFull:
		refuseRequest(w, r, http.StatusServiceUnavailable, "", "Too many requests")
	case kind == engine.ErrNoLanguage && e != nil:
		writeJSON(w, http.StatusOK, envelope{Code: -500, Message: cmp.Or(e.Hint, "the language is not installed")})
	case kind == engine.ErrUnavailable:
		refuseRequest(w, r, http.StatusServiceUnavailable, "", "the sandbox cannot run this at the moment")
	default:
		if r.Context().Err() == nil {
			a.Log.ErrorContext(r.Context(), "request failed", "request_id", w.Header().Get("X-Request-Id"), "err", err)
		}
		writeJSON(w, http.StatusOK, envelope{Code: -500, Message: "internal error"})
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json; charset=utf-8", wire.Encode(body))
}
