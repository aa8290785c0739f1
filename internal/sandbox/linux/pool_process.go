package linux

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/language"
)

// processPool keeps a process or two waiting, in the shape that was asked for last: a
// Node for programs of one language, or one for the commands of all. The first is
// started after the first program: a language costs nothing before it is used, nor when
// it no longer is.
type processPool struct {
	waitingList
	executor *executor
	language language.Language // none: of those that wait for a command
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
func (e *executor) takeProcess(r *runRequest) *waiting {
	for _, name := range []string{r.nodeLanguage(), commandPool} {
		if p, s, ok := e.processPool(name, r); ok {
			if w := p.takeOrStart(s); w != nil {
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
func (e *executor) processPool(name string, r *runRequest) (p *processPool, s shape, ok bool) {
	switch p = e.processes[name]; {
	case p == nil:
		return nil, shape{}, false
	case name == commandPool:
		s, ok = e.takesCommand(r)
	default:
		s, ok = p.nodeShapeOf(r)
	}
	return p, s, ok
}

// takeOrStart takes a process that waits; nil if there is none.
func (p *processPool) takeOrStart(s shape) *waiting {
	if w := p.take(func(w *waiting) bool { return w.shape == s }); w != nil {
		return w
	}
	p.mu.Lock()
	p.missed = time.Now()
	p.mu.Unlock()
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
func (p *processPool) refill(s shape) {
	p.mu.Lock()
	p.expire()
	p.mu.Unlock()
	p.fill(func(w *waiting) bool { return w.shape != s }, func() func() (*waiting, error) {
		if len(p.ready) >= p.enough() {
			return nil
		}
		return func() (*waiting, error) {
			w, err := p.executor.startProcess(p.language, s, background)
			if err != nil {
				fmt.Fprintln(os.Stderr, "airlock executor: programs in "+p.title()+" start cold:", err)
			}
			return w, err
		}
	})
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

// expire ends what waits when no program has asked for it for a while. The caller
// holds the lock.
func (p *processPool) expire() {
	switch {
	case p.closed:
	case p.expiry == nil:
		p.expiry = time.AfterFunc(processIdleTime, p.empty)
	default:
		p.expiry.Reset(processIdleTime)
	}
}
