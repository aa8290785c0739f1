package executor

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/trick"
)

// processPool keeps a few processes waiting, in the shape requested last: a Node for
// programs of one language, or a process for the commands of all languages. The first
// one is started after the first program. A language costs nothing before and after its
// use.
type processPool struct {
	waitingList
	executor *executor
	language language.Language // none: processes that wait for a command
}

// Numbers of processes that wait after a miss. A small part of a Node's memory is private;
// the rest is Node's file. A process that waits for a command has next to none.
const (
	MostNodes    = 2
	MostCommands = 4
)

// processIdleTime is how long a process waits.
const processIdleTime = 5 * time.Minute

// commandPool is the name of the pool of processes that wait for a command.
const commandPool = ""

func (e *executor) newProcessPools() {
	e.processes = map[string]*processPool{commandPool: {executor: e}}
	for _, l := range language.All() {
		if l.Run[0] == NodePath {
			e.processes[l.Name] = &processPool{executor: e, language: l}
		}
	}
}

// takeProcess takes a waiting process for a request. If it returns nil, the program starts cold.
func (e *executor) takeProcess(r *RunRequest) *waiting {
	if r.cold {
		return nil
	}
	for _, name := range []string{r.nodeLanguage(), commandPool} {
		if p, s, ok := e.processPool(name, r); ok {
			if w := p.takeOrStart(s); w != nil {
				return w
			}
		}
	}
	return nil
}

// nodeLanguage returns the name of the request's language if Node runs it.
func (r *RunRequest) nodeLanguage() string {
	if r.Node == nil {
		return commandPool
	}
	return r.Node.Language
}

// processPool returns the pool of that name, if it can serve the request, and the
// request's shape in it.
func (e *executor) processPool(name string, r *RunRequest) (p *processPool, s shape, ok bool) {
	switch p = e.processes[name]; {
	case p == nil || !trick.On(trick.Commands) && name == commandPool || !trick.On(trick.Node) && name != commandPool:
		return nil, shape{}, false
	case name == commandPool:
		s, ok = e.takesCommand(r)
	default:
		s, ok = p.nodeShapeOf(r)
	}
	return p, s, ok
}

// takeOrStart takes a waiting process, nil if there is none.
func (p *processPool) takeOrStart(s shape) *waiting {
	if w := p.claim(func(w *waiting) bool { return w.shape == s }); w != nil {
		return w
	}
	p.mu.Lock()
	p.missed = time.Now()
	p.mu.Unlock()
	if p.executor.config.Warm != warmFirst {
		return nil
	}
	w, err := p.executor.startProcess(p.language, s, OnDemand)
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor:", err)
		return nil
	}
	return w
}

// refillProcesses starts missing processes after a request.
func (e *executor) refillProcesses(r *RunRequest) {
	if r.Tier != "" && r.poolOf() != nil && r.isScript() { // it had a zygote's sandbox
		return
	}
	for _, name := range slices.Compact([]string{r.nodeLanguage(), commandPool}) {
		if p, s, ok := e.processPool(name, r); ok {
			p.refill(s)
		}
	}
}

// refill starts missing processes and evicts those of another shape.
func (p *processPool) refill(s shape) {
	p.mu.Lock()
	p.expire()
	p.mu.Unlock()
	p.fill(func(w *waiting) bool { return w.shape != s }, func() func() (*waiting, error) {
		if len(p.ready) >= p.enough() {
			return nil
		}
		return func() (*waiting, error) {
			w, err := p.executor.startProcess(p.language, s, Background)
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
		return MostCommands
	}
	return MostNodes
}

// enough returns how many processes should wait now. The caller holds the lock.
func (p *processPool) enough() int {
	free := availableMemory()
	switch {
	case free > 0 && free < LittleMemory:
		return 0
	case time.Since(p.missed) < longAgo:
		return p.most()
	}
	return 1
}

// expire ends the waiting processes if no program has asked for one for a while. The
// caller holds the lock.
func (p *processPool) expire() {
	switch {
	case p.closed:
	case p.expiry == nil:
		p.expiry = time.AfterFunc(processIdleTime, p.empty)
	default:
		p.expiry.Reset(processIdleTime)
	}
}

// startProcess creates a sandbox with a process that waits in it.
func (e *executor) startProcess(l language.Language, s shape, how StartMode) (_ *waiting, err error) {
	uid, err := e.leaseUID()
	if err != nil {
		return nil, err
	}
	request := s.request()
	if l.Name != "" {
		request = s.nodeRequest(l)
	}
	w := &waiting{Box: &Box{Machine: e.machine, Environment: s.env, Request: request, UID: uid}, executor: e, shape: s}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.Workspace, err = newWorkspace(s.workspace, s.inodes, uid); err != nil {
		return nil, err
	}
	if err := w.furnish(); err != nil {
		return nil, err
	}
	w.Group.Idle(how != OnDemand)
	if w.cell, err = e.wall.Await(w.Box, l); err != nil {
		return nil, err
	}
	return w, nil
}

// takesCommand reports whether a process that waits for a command can serve a request,
// and returns its shape.
func (e *executor) takesCommand(r *RunRequest) (shape, bool) {
	if !e.machine.can.Commands || r.Image != "" || r.Held != "" || r.Make || r.Live || r.Network || len(r.Authority) > 0 {
		return shape{}, false
	}
	if e.machine.Groups == nil && r.Argv[0] == NodePath { // a Node's limits differ there
		return shape{}, false
	}
	return shapeOf(r), true
}
