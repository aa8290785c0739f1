package httpd

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/airlock-run/airlock/internal/engine"
)

// Server serves the mounts on all of its listeners.
type Server struct {
	opts     Options
	http     *http.Server
	gate     *gate
	draining atomic.Bool
	used     atomic.Int64   // when a request last began or ended, in nanoseconds
	refusals rate.Sometimes // of tokens: written to the log
	tooMany  refusals       // of requests beyond a rate
}

// ExposedError is the error for a listener beyond loopback without any authentication.
type ExposedError struct{ Addr net.Addr }

func (e *ExposedError) Error() string {
	return fmt.Sprintf("refusing to listen on %s without keys: anybody who reaches that address could run code. "+
		"Make a key with 'airlock keys create', or name the networks to trust with --trust-network CIDR, or listen on "+
		"127.0.0.1", e.Addr)
}

// New returns a server that does not serve yet. If a listener is not on loopback and there
// are neither keys nor trusted networks, it closes the listeners and returns an
// *ExposedError.
func New(o Options) (*Server, error) {
	if o.Engine == nil || len(o.Listen) == 0 {
		return nil, errors.New("httpd: an engine and a listener are needed")
	}
	o.fill()
	keyed := slices.ContainsFunc(o.Mounts, func(m Mount) bool { return m.Keyed })
	for _, l := range o.Listen {
		if tcp := l.Addr().Network() != "unix"; tcp && !isLoopback(l.Addr()) && !o.Engine.Stats().HasKeys && !keyed &&
			len(o.TrustNetworks) == 0 {
			for _, l := range o.Listen {
				l.Close()
			}
			return nil, &ExposedError{Addr: l.Addr()}
		}
	}
	s := &Server{opts: o, gate: newGate(o.MaxConns), refusals: rate.Sometimes{Interval: time.Second},
		tooMany: refusals{log: o.Log}}
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: o.Timeouts.Header,
		IdleTimeout:       o.Timeouts.KeepAlive,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       withListener,
		ConnContext:       withOrigin,
		ConnState:         s.gate.state,
		ErrorLog:          log.New(serverLog{o.Log}, "", 0),
	}
	for _, m := range o.Mounts {
		if m.End != nil {
			s.http.RegisterOnShutdown(m.End)
		}
	}
	return s, nil
}

// Serve serves until Shutdown, and then returns nil. It returns early, with
// the error, when a listener fails.
func (s *Server) Serve() error {
	failed := make(chan error, len(s.opts.Listen))
	var listeners sync.WaitGroup
	for _, l := range s.opts.Listen {
		listeners.Go(func() {
			if err := s.http.Serve(strictListener{l, s.gate}); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
				s.http.Close() // a restart is better than an address that silently fails
			}
		})
	}
	listeners.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// Drain makes /ready answer 503, so that load balancers send no new work here. Everything
// else is still served.
func (s *Server) Drain() { s.draining.Store(true) }

// Unused returns for how long no request has begun or ended.
func (s *Server) Unused() time.Duration { return time.Since(time.Unix(0, s.used.Load())) }

// noteUse notes when requests begin and end.
func (s *Server) noteUse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note := func() { s.used.Store(time.Now().UnixNano()) }
		note()
		defer note()
		next.ServeHTTP(w, r)
	})
}

// Shutdown closes the listeners, waits for the requests in progress until ctx ends, and then
// cuts the others.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	s.gate.lingering.close()
	s.tooMany.close()
	return err
}

// Handler serves requests without a listener. It is for tests.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// serverLog logs the messages of net/http at level debug, because most are about invalid
// requests.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	l.log.Debug("http", "message", string(p))
	return len(p), nil
}

var _ Engine = (*engine.Service)(nil)
