package live

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// entry is the way into a session's sandbox for what goes on beside its cells.
type entry struct {
	session engine.Session // its ID names sandbox and workspace to the executor
	gone    <-chan struct{}
	it      *interpreter
}

// enter makes sure that a caller's session has a sandbox, and that it goes on between
// cells, until leave is called. It is gone when its interpreter is.
func (s *Service) enter(ctx context.Context, caller engine.Caller, id engine.ID) (*entry, error) {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	o := &order{do: "wake", text: asked{Do: "wake"}, reply: make(chan reply, 1)}
	at.mu.Lock()
	if err := at.ensure(ctx); err != nil {
		at.mu.Unlock()
		return nil, err
	}
	it := at.interpreter
	it.guests, it.visited = it.guests+1, true
	e := &entry{session: at.record, gone: it.gone, it: it}
	if busy := it.began && at.current != nil; busy && it.asks.First() == nil {
		at.mu.Unlock()
		return e, nil
	}
	at.orders = append(at.orders, o)
	it.call()
	at.mu.Unlock()
	select {
	case r := <-o.reply:
		if r.err != nil {
			e.leave()
		}
		return e, r.err
	case <-ctx.Done():
		e.leave()
		return nil, canceled(ctx)
	}
}

// leave lets the sandbox stand still again when nobody else is in it.
func (e *entry) leave() {
	at := e.it.at
	at.mu.Lock()
	defer at.mu.Unlock()
	e.left()
}

// left is leave for who holds mu.
func (e *entry) left() {
	at := e.it.at
	if e.it.guests--; e.it.guests == 0 && at.interpreter == e.it && at.current == nil {
		at.rest()
		e.it.call()
	}
}

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
