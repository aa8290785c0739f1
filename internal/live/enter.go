package live

import (
	"context"

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
