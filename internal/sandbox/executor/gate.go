package executor

import (
	"fmt"
	"slices"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// Calls of the kernel that may take long hold a thread each: the executor bounds how many it
// makes at once, of all owners and of one. The others wait in turn, without a thread.
const (
	mostCalls  = 24
	ownerCalls = 6
)

// ownerWaiting bounds the calls of an owner that wait. More would wait for longer than the
// service does.
const ownerWaiting = 256

// A gate lets requests in, a few at once. The zero value is open.
type gate struct {
	mu      sync.Mutex
	inside  int
	owners  map[string]int
	waiting []gateTicket
}

type gateTicket struct {
	owner string
	enter chan struct{}
}

// through calls a function when its owner may enter. It refuses an owner that has many
// waiting.
func (g *gate) through(owner string, call func() error) error {
	if err := g.enter(owner); err != nil {
		return err
	}
	defer g.leave(owner)
	return call()
}

func (g *gate) enter(owner string) error {
	g.mu.Lock()
	if g.admit(owner) {
		g.mu.Unlock()
		return nil
	}
	waiting := 0
	for _, t := range g.waiting {
		if t.owner == owner {
			waiting++
		}
	}
	if waiting >= ownerWaiting {
		g.mu.Unlock()
		return NewFailure(engine.ErrBusy, fmt.Sprintf("%d of your requests about sandboxes wait already", waiting),
			"try again when some have been answered")
	}
	t := gateTicket{owner, make(chan struct{})}
	g.waiting = append(g.waiting, t)
	g.mu.Unlock()
	<-t.enter
	return nil
}

// admit counts an owner in, if there is room. The caller holds mu.
func (g *gate) admit(owner string) bool {
	if g.inside >= mostCalls || g.owners[owner] >= ownerCalls {
		return false
	}
	if g.owners == nil {
		g.owners = map[string]int{}
	}
	g.inside++
	g.owners[owner]++
	return true
}

func (g *gate) leave(owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.owners[owner]--; g.owners[owner] == 0 {
		delete(g.owners, owner)
	}
	if i := slices.IndexFunc(g.waiting, func(t gateTicket) bool { return g.admit(t.owner) }); i >= 0 {
		close(g.waiting[i].enter)
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}
