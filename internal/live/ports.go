package live

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// mostPorts bounds the connections into one sandbox.
const mostPorts = 64

// DialPort connects to a TCP port of the loopback of a session's sandbox, which goes
// on between cells for as long as the connection is open. If nobody listens it is
// ErrConflict.
func (s *Service) DialPort(ctx context.Context, caller engine.Caller, session engine.ID, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, engine.Invalid("port", "%d is no port", port)
	}
	e, err := s.enter(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	if !e.it.at.connect(+1) {
		e.leave()
		return nil, &engine.Error{Op: "dial", Kind: engine.ErrBusy, RetryAfter: time.Second,
			Err: errors.New("too many connections to ports of this session are open")}
	}
	conn, err := s.engine.Inside().Dial(ctx, session, port)
	if err != nil {
		e.it.at.connect(-1)
		e.leave()
		return nil, inside(err)
	}
	c := &connection{Conn: conn}
	c.release = sync.OnceFunc(func() {
		e.it.at.connect(-1)
		e.leave()
	})
	return c, nil
}

// connection is one into a sandbox.
type connection struct {
	net.Conn
	release func()
}

// Close lets the sandbox stand still, unless others keep it going.
func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// connect counts the connections, of which there are not too many.
func (at *session) connect(more int) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	if more > 0 && at.ports >= mostPorts {
		return false
	}
	at.ports += more
	return true
}
