package remote

import (
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// places are the workspaces that an api has made at workers.
type places struct {
	mu     sync.Mutex
	of     map[engine.ID]place
	last   int64                  // number of a lease
	making map[engine.ID]*makings // of workspaces
}

// place is a workspace at a worker.
type place struct {
	worker int64 // its epoch
	lease
}

// makings is a lock for those who make the workspace of one session.
type makings struct {
	sync.Mutex
	users int
}

// newLease returns a lease for another workspace. Its number is larger than those of former processes of this api.
func (p *places) newLease(holder, generation int64) lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last+1, time.Now().UnixNano())
	return lease{Holder: holder, Generation: generation, Number: p.last}
}

func (p *places) get(id engine.ID) (place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.of[id]
	return at, ok
}

func (p *places) set(id engine.ID, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[engine.ID]place{}
	}
	p.of[id] = at
}

// drop forgets a workspace, unless the session has another one by now.
func (p *places) drop(id engine.ID, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[id] == at {
		delete(p.of, id)
	}
}

// lock keeps others from making a workspace of the same session until unlock is called.
func (p *places) lock(id engine.ID) (unlock func()) {
	p.mu.Lock()
	if p.making == nil {
		p.making = map[engine.ID]*makings{}
	}
	one := p.making[id]
	if one == nil {
		one = &makings{}
		p.making[id] = one
	}
	one.users++
	p.mu.Unlock()
	one.Lock()
	return sync.OnceFunc(func() {
		one.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(p.making, id)
		}
	})
}
