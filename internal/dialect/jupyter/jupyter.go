// Package jupyter serves the part of the Jupyter server's API that runs code: kernels, their
// specifications, sessions, the channels of a kernel over a WebSocket, and the files of a kernel.
// README.md lists the coverage.
// A kernel is a live session, and has its id. The package adds Jupyter's own: a kernel (kernel.go)
// handles the requests of its clients one after the other (requests.go) and publishes the output of
// cells to all of them (execute.go). A client outlives its WebSockets (channels.go), which have one
// of two framings (frame.go).
package jupyter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Version is the Jupyter server version that GET /api reports.
const Version = "2.21.1"

// maxBody is the limit of a request's body, which may be a file in JSON.
const maxBody = 64 << 20

// Engine keeps sessions.
type Engine interface {
	ListSessions(ctx context.Context, caller engine.Caller, query engine.SessionQuery) ([]engine.Session, error)
	// DeleteSession ends the programs of a session, and deletes it.
	DeleteSession(ctx context.Context, caller engine.Caller, id engine.ID) error
	// Limits returns the defaults of limits, and their maxima.
	Limits() (defaults, maxima engine.Limits)
	// ImagesOf returns the images that the caller's programs can have, and DefaultImage the
	// one of those that name none; engine.HostImage: none.
	ImagesOf(caller engine.Caller) ([]engine.Image, error)
	DefaultImage(caller engine.Caller, origin engine.Origin) string
}

// Options set up a Server. Engine, Live and Caller are required.
type Options struct {
	Engine Engine
	Live   live.Sessions
	// Caller returns the caller of a request. The server has authenticated it.
	Caller func(*http.Request) engine.Caller

	// Languages are those of kernels without an image; nil: what live.Languages says.
	Languages []string
	Idle      time.Duration // a kernel without clients, and without a request for so long, is ended; 0: 30 min
	// Gather asks other nodes for their part of a list; nil: there are none.
	Gather func(w http.ResponseWriter, r *http.Request) [][]byte
	Bodies *wire.Bodies // counts the memory of large requests; nil: by itself
	Log    *slog.Logger // nil: nothing is logged
}

const defaultIdle = 30 * time.Minute

// Server keeps the kernels.
type Server struct {
	Options
	mux     *http.ServeMux
	started time.Time

	life context.Context //nolint:containedctx // of the goroutines that work for kernels
	end  context.CancelCauseFunc
	work sync.WaitGroup

	sockets  sync.WaitGroup
	unsent   int        // bytes that may wait for one client
	decoding sync.Mutex // one picture at a time takes memory

	mu       sync.Mutex
	kernels  map[engine.ID]*kernel
	notebook map[engine.ID]*notebook
	closed   bool
}

var errClosing = errors.New("the service is shutting down")

// New returns a Server. The caller must strip its prefix.
func New(o Options) *Server {
	o.Idle = cmp.Or(o.Idle, defaultIdle)
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	if o.Languages == nil {
		o.Languages = live.Languages(nil)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Server{
		Options: o, mux: http.NewServeMux(), started: time.Now(), unsent: maxUnsent,
		kernels: map[engine.ID]*kernel{}, notebook: map[engine.ID]*notebook{},
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	for pattern, handle := range s.routes() {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	return s
}

type handler func(http.ResponseWriter, *http.Request) error

func (s *Server) routes() map[string]handler {
	return map[string]handler{
		"GET /api":                         s.version,
		"GET /api/{$}":                     s.version,
		"GET /api/status":                  s.status,
		"GET /api/me":                      s.me,
		"GET /api/kernelspecs":             s.listSpecs,
		"GET /api/kernelspecs/{name}":      s.getSpec,
		"GET /api/kernels":                 s.listKernels,
		"POST /api/kernels":                s.createKernel,
		"GET /api/kernels/{id}":            s.onKernel(sendModel),
		"DELETE /api/kernels/{id}":         s.onKernel(deleteKernel),
		"POST /api/kernels/{id}/interrupt": s.onKernel(interruptKernel),
		"POST /api/kernels/{id}/restart":   s.onKernel(restartKernel),
		"GET /api/kernels/{id}/channels":   s.onKernel(channels),
		"GET /api/sessions":                s.listNotebooks,
		"POST /api/sessions":               s.createNotebook,
		"GET /api/sessions/{id}":           s.getNotebook,
		"PATCH /api/sessions/{id}":         s.changeNotebook,
		"DELETE /api/sessions/{id}":        s.deleteNotebook,
		"GET /api/contents":                s.onPlace(s.placeOf, s.getContents),
		"GET /api/contents/{path...}":      s.onPlace(s.placeOf, s.getContents),
		"PUT /api/contents/{path...}":      s.onPlace(s.inKernel, s.saveContents),
		"POST /api/contents":               s.makeContents,
		"POST /api/contents/{path...}":     s.makeContents,
		"PATCH /api/contents/{path...}":    s.onPlace(s.inKernel, s.renameContents),
		"DELETE /api/contents/{path...}":   s.onPlace(s.inKernel, s.deleteContents),
		"/":                                s.nothing,
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close closes the connections of all clients, and waits for the kernels' goroutines.
// Kernels end with the service.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.kernels))
	s.mu.Unlock()
	for _, k := range all {
		k.leave(websocket.StatusGoingAway, errClosing.Error())
	}
	s.sockets.Wait()
	s.end(errClosing)
	s.work.Wait()
}

// background runs do in a goroutine that Close waits for.
func (s *Server) background(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(do)
	}
}

// enter notes that a connection is served, until sockets.Done, unless Close was called.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.sockets.Add(1)
	return true
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"version": Version})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	kernels, err := s.owned(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	last, connections := s.started, 0
	for _, k := range kernels {
		m := k.model()
		connections += m.Connections
		if used := time.Time(m.LastActivity); used.After(last) {
			last = used
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{
		"started": stamp(s.started), "last_activity": stamp(last), "kernels": len(kernels), "connections": connections,
	})
}

func (s *Server) me(w http.ResponseWriter, r *http.Request) error {
	name := string(s.Caller(r).Owner)
	return writeJSON(w, http.StatusOK, map[string]any{
		"identity": map[string]any{"username": name, "name": name, "display_name": name, "initials": nil,
			"avatar_url": nil, "color": nil},
		"permissions": map[string]any{},
	})
}

func (s *Server) nothing(http.ResponseWriter, *http.Request) error {
	return wire.Refuse(http.StatusNotFound,
		"Nothing lives at this address: kernels, kernelspecs, sessions, contents, status and me are below /api")
}
