package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/language"
)

// nodePool keeps a Node or two waiting for programs of one language, in the
// shape that was asked for last. The first is started after the first program;
// nobody pays for a language that is not used, nor for one that no longer is.
type nodePool struct {
	executor *executor
	language language.Language

	mu      sync.Mutex
	ready   []*warmNode
	missed  time.Time // when last one was wanted and none was there
	filling bool
	closed  bool
	expiry  *time.Timer
}

// mostNodes is how many wait after one was missed. Of the memory of each a small
// part is its own; the rest is Node's file.
const mostNodes = 2

// nodeIdleTime is how long one waits.
const nodeIdleTime = 5 * time.Minute

func (e *executor) newNodePools() {
	e.nodes = map[string]*nodePool{}
	for _, l := range language.All() {
		if l.Run[0] == nodePath {
			e.nodes[l.Name] = &nodePool{executor: e, language: l}
		}
	}
}

// warmNode takes a waiting Node for a request, nil if it is to start cold.
func (e *executor) takeNode(r *runRequest) *warmNode {
	p, s, ok := e.nodePool(r)
	if !ok || r.Network { // what tells Node of a proxy is read at its start
		return nil
	}
	for w := p.pick(s); w != nil; w = p.pick(s) {
		if w.alive() {
			w.group.idle(false)
			return w
		}
		w.close() // somebody ended it while it waited
	}
	if e.config.Warm != warmFirst {
		return nil
	}
	w, err := e.startNode(p.language, s, onDemand)
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor:", err)
		return nil
	}
	return w
}

// nodePool is the pool that a request's program can come from, and the shape
// that it has there.
func (e *executor) nodePool(r *runRequest) (*nodePool, nodeShape, bool) {
	if r.Node == nil || e.nodes[r.Node.Language] == nil {
		return nil, nodeShape{}, false
	}
	p := e.nodes[r.Node.Language]
	s, ok := p.shapeOf(r)
	return p, s, ok
}

// pick takes a Node of that shape off the list, nil if there is none.
func (p *nodePool) pick(s nodeShape) *warmNode {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.ready, func(w *warmNode) bool { return w.node == s })
	if i < 0 {
		p.missed = time.Now()
		return nil
	}
	w := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return w
}

// refillNodes starts what is missing after a request. Those of another shape
// make room.
func (e *executor) refillNodes(r *runRequest) {
	p, s, ok := e.nodePool(r)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.closed {
		return
	}
	p.filling = true
	defer func() { p.filling = false }()
	p.expire()
	for !p.closed {
		stale := slices.IndexFunc(p.ready, func(w *warmNode) bool { return w.node != s })
		if stale < 0 && len(p.ready) >= p.enough() {
			return
		}
		var gone, started *warmNode
		var err error
		if stale >= 0 {
			gone = p.ready[stale]
			p.ready = slices.Delete(p.ready, stale, stale+1)
		}
		p.mu.Unlock()
		if gone != nil {
			gone.close()
		} else if started, err = e.startNode(p.language, s, background); err != nil {
			fmt.Fprintln(os.Stderr, "airlock executor: programs in "+p.language.Title+" start cold:", err)
		}
		p.mu.Lock()
		switch {
		case err != nil:
			return
		case started != nil && p.closed:
			p.mu.Unlock()
			started.close()
			p.mu.Lock()
		case started != nil:
			p.ready = append(p.ready, started)
		}
	}
}

// enough is how many are to wait now. The caller holds the lock.
func (p *nodePool) enough() int {
	free := availableMemory()
	switch {
	case free > 0 && free < littleMemory:
		return 0
	case time.Since(p.missed) < longAgo:
		return mostNodes
	}
	return 1
}

// expire lets what waits end when nobody has asked for it for a while. The
// caller holds the lock.
func (p *nodePool) expire() {
	if p.expiry != nil {
		p.expiry.Reset(nodeIdleTime)
		return
	}
	p.expiry = time.AfterFunc(nodeIdleTime, p.empty)
}

// empty ends what waits.
func (p *nodePool) empty() {
	p.mu.Lock()
	ready := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, w := range ready {
		w.close()
	}
}

func (p *nodePool) close() {
	p.mu.Lock()
	p.closed = true
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	p.empty()
}
