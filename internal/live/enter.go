package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// lease keeps a session's sandbox running between cells.
type lease struct {
	session engine.Session // its ID names sandbox and workspace to the executor
	gone    <-chan struct{}
	it      *interpreter
	vacated int // of its session, at the beginning
}

// wakeOrder is the order to run, and nothing else.
const wakeOrder = "wake"

// acquire makes sure that a session has a sandbox, and keeps it running between cells until the
// lease is released or the interpreter exits.
func (s *Service) acquire(ctx context.Context, caller engine.Caller, id engine.ID) (*lease, error) {
	at, err := s.findToRun(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	o := &order{do: wakeOrder, text: asked{Do: wakeOrder}, reply: make(chan reply, 1)}
	at.mu.Lock()
	if err := at.ensure(ctx, nil); err != nil {
		at.mu.Unlock()
		return nil, err
	}
	it := at.interpreter
	e := it.lease()
	// Others keep it running, or it has a cell.
	if (it.awake || it.began && at.current != nil) && it.asks.First() == nil {
		at.mu.Unlock()
		return e, nil
	}
	at.orders = append(at.orders, o)
	it.call()
	at.mu.Unlock()
	select {
	case r := <-o.reply:
		if r.err != nil {
			e.release()
		}
		return e, r.err
	case <-ctx.Done():
		e.release()
		return nil, canceled(ctx)
	}
}

// lease returns a new lease. The caller holds mu.
func (it *interpreter) lease() *lease {
	it.leases, it.hadLease = it.leases+1, true
	return &lease{session: it.at.record, gone: it.gone, it: it, vacated: it.at.vacated}
}

// isVacated reports whether the workspace was released since the lease began.
func (e *lease) isVacated() bool {
	at := e.it.at
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.vacated != e.vacated
}

// release lets the sandbox freeze again when no other lease is left.
func (e *lease) release() {
	at := e.it.at
	at.mu.Lock()
	defer at.mu.Unlock()
	e.releaseLocked()
}

// leaseGrace is how long a sandbox keeps running for the next process: freezing and thawing it takes longer than many
// a command.
const leaseGrace = 50 * time.Millisecond

// releaseSoon is release after leaseGrace.
func (e *lease) releaseSoon() { time.AfterFunc(leaseGrace, e.release) }

// releaseLocked is release with mu held.
func (e *lease) releaseLocked() {
	at := e.it.at
	if e.it.leases--; e.it.leases == 0 && at.interpreter == e.it && at.current == nil {
		at.rest()
		e.it.call()
	}
}

// maxPorts bounds the connections into one sandbox.
const maxPorts = 64

// DialPort connects to a TCP port of the loopback of a session's sandbox, which keeps running
// between cells while the connection is open. The error is ErrConflict if no program listens.
func (s *Service) DialPort(ctx context.Context, caller engine.Caller, session engine.ID, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, engine.Invalid("port", "%d is no port", port)
	}
	e, err := s.acquire(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	if !e.it.at.connect(+1) {
		e.release()
		return nil, &engine.Error{Op: "dial", Kind: engine.ErrBusy, RetryAfter: time.Second,
			Err: errors.New("too many connections to ports of this session are open")}
	}
	conn, err := s.engine.Inside().Dial(ctx, session, port)
	if err != nil {
		e.it.at.connect(-1)
		e.release()
		return nil, about(fmt.Sprintf("port %d of session %s", port, session), sandboxError(err))
	}
	c := &connection{Conn: conn}
	c.release = sync.OnceFunc(func() {
		e.it.at.connect(-1)
		e.release()
	})
	return c, nil
}

// connection is a connection into a sandbox.
type connection struct {
	net.Conn
	release func()
}

// Close closes the connection and releases its lease.
func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// connect counts the connections, of which there are not too many.
func (at *session) connect(more int) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	if more > 0 && at.ports >= maxPorts {
		return false
	}
	at.ports += more
	return true
}
