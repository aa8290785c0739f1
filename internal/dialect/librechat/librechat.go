// Package librechat serves the API of LibreChat's code interpreter to clients of every
// generation: programs with files that persist over turns, uploads, downloads, and programs
// that call the model's tools and continue with the answers.
//
// The generations differ in names, in the place of the key and in references to files.
// Answers therefore have all names, and requests are accepted in all spellings. README.md
// in this folder lists the coverage and the intended differences.
//
// A request passes through body.go, which parses it, refs.go, which finds its files,
// exec.go, which calls the engine, and result.go, which writes the answer. Programs that
// call tools are in programmatic.go. Their drivers in the sandbox are driver.py and
// shell.py, and internal/toolcall waits for answers. Programs that continue where the last
// one stopped are in state.go and state.py.
package librechat

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/toolcall"
	"github.com/airlock-run/airlock/internal/wire"
)

// Options set up the dialect. Only Caller and Language are required.
type Options struct {
	// Caller returns the caller of a request, or the zero Caller.
	Caller func(*http.Request) engine.Caller
	// Authenticate returns the caller with a key in a body; nil: no key is accepted there.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)

	// Language finds a language by one of its names, in lower case.
	Language func(name string) (Language, bool)

	Version   string
	MaxUpload int64         // bytes of a file; 0: 200 MiB
	FileTTL   time.Duration // lifetime of a file since its last use; 0: 7 days
	TokenTTL  time.Duration // how long a program waits for the answers to its calls; 0: 600 s

	// StrictUsers refuses requests with a plain key that do not name a user. A user finds
	// only its own uploads even without it.
	StrictUsers bool
	// UnknownSession is the answer to a listing of an unknown session.
	UnknownSession UnknownSession
	// PeerErrors answers a bad programmatic request with 200 and
	// status "error", as some servers do.
	PeerErrors bool
	// State selects the programs that continue where the last one stopped; empty: none.
	State State

	Bodies  *wire.Bodies // counts the memory of large JSON bodies; nil: by itself
	Metrics http.Handler // serves /metrics; nil: not served
	Log     *slog.Logger // for causes that the client must not see; nil: nothing is logged
}

// Language is a language as this dialect knows it.
type Language struct {
	Name  string // "python"
	Entry string // name of the file with the code

	Source func(code string) string // the content of that file
}

// UnknownSession is an answer to a listing of a session that does not exist.
type UnknownSession string

// The answers to a listing of an unknown session.
const (
	UnknownAuto      UnknownSession = "auto"  // 404 for detail=summary, an empty list otherwise
	UnknownNotFound  UnknownSession = "404"   // always 404
	UnknownForbidden UnknownSession = "403"   // always 403, as the official server does
	UnknownEmpty     UnknownSession = "empty" // always an empty list
)

const (
	defaultMaxUpload = 200 << 20
	defaultFileTTL   = 7 * 24 * time.Hour
	defaultTokenTTL  = 600 * time.Second
)

func (o *Options) fill() {
	o.MaxUpload = cmp.Or(o.MaxUpload, defaultMaxUpload)
	o.FileTTL = cmp.Or(o.FileTTL, defaultFileTTL)
	o.TokenTTL = cmp.Or(o.TokenTTL, defaultTokenTTL)
	o.UnknownSession = cmp.Or(o.UnknownSession, UnknownAuto)
	o.State = cmp.Or(o.State, StateOff)
	if o.Authenticate == nil {
		o.Authenticate = func(context.Context, string) (engine.Caller, error) {
			return engine.Caller{},
				engine.ErrUnauthorized
		}
	}
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// api is the state of a Handler.
type api struct {
	engine   *engine.Service
	programs *toolcall.Programs // programs that call tools
	naming   sync.Mutex         // of workspaces
	Options
}

// Handler is the API. The caller must strip its prefix, and close it after the engine's
// shutdown.
type Handler struct {
	http.Handler
	io.Closer
}

type handler func(*api, http.ResponseWriter, *http.Request) error

// New returns the API. Every route exists with and without "/v1".
func New(e *engine.Service, o Options) *Handler {
	o.fill()
	a := &api{engine: e, Options: o, programs: toolcall.New(e, o.TokenTTL, o.Log)}
	mux := http.NewServeMux()
	for _, base := range []string{"", "/v1"} {
		for pattern, serve := range map[string]handler{
			"POST /exec":                           (*api).exec,
			"POST /exec/programmatic":              (*api).programmatic,
			"POST /exec/programmatic/cancel":       (*api).cancelProgrammatic,
			"POST /upload":                         (*api).upload,
			"POST /upload/batch":                   (*api).uploadBatch,
			"GET /files/{sid}":                     (*api).listFiles,
			"DELETE /files/{sid}/{fid}":            (*api).deleteFile,
			"GET /download/{sid}/{fid}":            (*api).download,
			"GET /sessions/{sid}/objects/{fid}":    (*api).object,
			"DELETE /sessions/{sid}/objects/{fid}": (*api).deleteFile,
			"GET /health":                          (*api).health,
			"GET /health/detailed":                 (*api).healthDetailed,
			"GET /ready":                           (*api).ready,
			"GET /metrics":                         (*api).metrics,
		} {
			method, path, _ := strings.Cut(pattern, " ")
			mux.HandleFunc(method+" "+base+path, a.handle(serve))
		}
	}
	mux.HandleFunc("/", a.handle(func(*api, http.ResponseWriter, *http.Request) error {
		return refuse(http.StatusNotFound, "Not found")
	}))
	return &Handler{mux, a.programs}
}

// openPaths lists the addresses that need no key, or whose key may be in the body.
func openPaths() (paths []string) {
	for _, base := range []string{"", "/v1"} {
		for _, path := range []string{"/health", "/ready", "/exec", "/exec/programmatic", "/exec/programmatic/cancel"} {
			paths = append(paths, base+path)
		}
	}
	return paths
}

// rootRoutes returns the routes that are also served at the root of a service. A LibreChat
// configured with only host and port uses them there.
func rootRoutes() (patterns []string) {
	for _, base := range []string{"", "/v1"} {
		for _, path := range []string{
			"/exec", "/exec/programmatic", "/exec/programmatic/cancel", "/upload", "/upload/batch", "/files/{id}",
			"/files/{id}/{fid}",
			"/download/{id}/{fid}", "/sessions/{id}/objects/{fid}",
		} {
			patterns = append(patterns, base+path)
		}
	}
	return append(patterns, "/v1/health", "/v1/ready")
}

// handle returns the HTTP handler of a route.
func (a *api) handle(serve handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(a, w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}
