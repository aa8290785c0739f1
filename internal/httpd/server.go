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

	"github.com/airlock-run/airlock/internal/engine"
)

// Server serves the mounts on all of its listeners.
type Server struct {
	opts     Options
	http     *http.Server
	gate     *gate
	draining atomic.Bool
}

// ExposedError says that the service would listen where strangers can reach
// it without anything that tells a caller from anybody else.
type ExposedError struct{ Addr net.Addr }

func (e *ExposedError) Error() string {
	return fmt.Sprintf("refusing to listen on %s without keys: anybody who reaches that address could run code. "+
		"Make a key with 'airlock keys create', or name the networks to trust with --trust-network CIDR, or listen on "+
		"127.0.0.1", e.Addr)
}

// New returns a server that has not begun to serve. The error is *ExposedError
// where a listener is not on loopback and there are neither keys nor trusted
// networks; the listeners are then closed.
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
	s := &Server{opts: o, gate: newGate(o.MaxConns)}
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
	return s, nil
}

// Serve serves until Shutdown, and then returns nil. It returns early, with
// the error, when a listener fails.
func (s *Server) Serve() error {
	failed := make(chan error, len(s.opts.Listen))
	var listeners sync.WaitGroup
	for _, l := range s.opts.Listen {
		listeners.Go(func() {
			if err := s.http.Serve(strictListener{l}); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
				s.http.Close() // one address that is silently gone is worse than a restart
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

// Drain makes /ready answer 503, so that no new work is sent here. Everything
// else is still served.
func (s *Server) Drain() { s.draining.Store(true) }

// OnShutdown adds a function that Shutdown calls, for handlers that answer for
// as long as the client listens.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// Shutdown closes the listeners, waits for the requests under way until ctx
// ends, and then cuts what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	return err
}

// Handler serves requests without a connection of ours. It is for tests.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// serverLog passes what net/http has to say on to the log. Most of it is about
// peers that speak nonsense, which is their business.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	l.log.Debug("http", "message", string(p))
	return len(p), nil
}

var _ Engine = (*engine.Service)(nil)
