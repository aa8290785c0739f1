package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/language"
)

// processPool keeps a process or two waiting, in the shape that was asked for last: a
// Node for programs of one language, or one for the commands of all. The first is
// started after the first program; nobody pays for a language that is not used, nor for
// one that no longer is.
type processPool struct {
	executor *executor
	language language.Language // none: of those that wait for a command

	mu      sync.Mutex
	ready   []*warmProcess
	missed  time.Time // when last one was wanted and none was there
	filling bool
	closed  bool
	expiry  *time.Timer
}

// How many wait after one was missed. Of the memory of a Node a small part is its own;
// the rest is Node's file. What waits for a command has next to none.
const (
	mostNodes    = 2
	mostCommands = 4
)

// processIdleTime is how long one waits.
const processIdleTime = 5 * time.Minute

// commandPool is the name of the pool of those that wait for a command.
const commandPool = ""

func (e *executor) newProcessPools() {
	e.processes = map[string]*processPool{commandPool: {executor: e}}
	for _, l := range language.All() {
		if l.Run[0] == nodePath {
			e.processes[l.Name] = &processPool{executor: e, language: l}
		}
	}
}

// takeProcess takes a waiting process for a request, nil if it is to start cold.
func (e *executor) takeProcess(r *runRequest) *warmProcess {
	for _, name := range []string{r.nodeLanguage(), commandPool} {
		if p, s, ok := e.processPool(name, r); ok {
			if w := p.take(s); w != nil {
				return w
			}
		}
	}
	return nil
}

// nodeLanguage is the name of the language if Node runs it.
func (r *runRequest) nodeLanguage() string {
	if r.Node == nil {
		return commandPool
	}
	return r.Node.Language
}

// processPool is the pool of that name, if the request's program can come from it, and
// the shape that it has there.
func (e *executor) processPool(name string, r *runRequest) (p *processPool, s processShape, ok bool) {
	switch p = e.processes[name]; {
	case p == nil:
		return nil, processShape{}, false
	case name == commandPool:
		s, ok = e.takesCommand(r)
	default:
		s, ok = p.nodeShapeOf(r)
	}
	return p, s, ok
}

// take takes a process that waits; nil if there is none.
func (p *processPool) take(s processShape) *warmProcess {
	for w := p.pick(s); w != nil; w = p.pick(s) {
		if w.alive() {
			w.group.Idle(false)
			return w
		}
		w.close() // somebody ended it while it waited
	}
	if p.executor.config.Warm != warmFirst {
		return nil
	}
	w, err := p.executor.startProcess(p.language, s, onDemand)
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor:", err)
		return nil
	}
	return w
}

// pick takes one of that shape off the list, nil if there is none.
func (p *processPool) pick(s processShape) *warmProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.ready, func(w *warmProcess) bool { return w.kind == s })
	if i < 0 {
		p.missed = time.Now()
		return nil
	}
	w := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return w
}

// refillProcesses starts what is missing after a request.
func (e *executor) refillProcesses(r *runRequest) {
	if r.Tier != "" && e.poolOf(r) != nil && r.isScript() { // it had a zygote's sandbox
		return
	}
	for _, name := range slices.Compact([]string{r.nodeLanguage(), commandPool}) {
		if p, s, ok := e.processPool(name, r); ok {
			p.refill(s)
		}
	}
}

// refill starts what is missing. Those of another shape make room.
func (p *processPool) refill(s processShape) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.closed {
		return
	}
	p.filling = true
	defer func() { p.filling = false }()
	p.expire()
	for !p.closed {
		stale := slices.IndexFunc(p.ready, func(w *warmProcess) bool { return w.kind != s })
		if stale < 0 && len(p.ready) >= p.enough() {
			return
		}
		var gone, started *warmProcess
		var err error
		if stale >= 0 {
			gone = p.ready[stale]
			p.ready = slices.Delete(p.ready, stale, stale+1)
		}
		p.mu.Unlock()
		if gone != nil {
			gone.close()
		} else if started, err = p.executor.startProcess(p.language, s, background); err != nil {
			fmt.Fprintln(os.Stderr, "airlock executor: programs in "+p.title()+" start cold:", err)
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

func (p *processPool) title() string {
	if p.language.Name == "" {
		return "other languages"
	}
	return p.language.Title
}

func (p *processPool) most() int {
	if p.language.Name == "" {
		return mostCommands
	}
	return mostNodes
}

// enough is how many are to wait now. The caller holds the lock.
func (p *processPool) enough() int {
	free := availableMemory()
	switch {
	case free > 0 && free < littleMemory:
		return 0
	case time.Since(p.missed) < longAgo:
		return p.most()
	}
	return 1
}

// expire lets what waits end when nobody has asked for it for a while. The
// caller holds the lock.
func (p *processPool) expire() {
	if p.expiry != nil {
		p.expiry.Reset(processIdleTime)
		return
	}
	p.expiry = time.AfterFunc(processIdleTime, p.empty)
}

// empty ends what waits.
func (p *processPool) empty() {
	p.mu.Lock()
	ready := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, w := range ready {
		w.close()
	}
}

func (p *processPool) close() {
	p.mu.Lock()
	p.closed = true
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	p.empty()
}
