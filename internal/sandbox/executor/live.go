package executor

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/trick"
)

// A live interpreter is a program that receives its work over its channel for calls;
// see live.py. It runs in a held workspace until the service ends it. Python's is
// forked from a zygote of its own tier, which has imported IPython and created its
// shell. IPython is outside the sets of packages, where no other program finds it.

const liveTier = "live"

// live turns a request into one for an interpreter.
func (r *RunRequest) live(spec *engine.Spec) {
	r.Live, r.Apart, r.Entry, r.Code, r.Node = true, spec.Apart, "", nil, nil
	switch spec.Language.Name {
	case "js", "ts":
		r.Argv, r.Tier = []string{spec.Language.Run[0], guest.LiveNodePath, spec.Language.Name}, ""
	case "r":
		r.Argv, r.Tier = []string{spec.Language.Run[0], "--vanilla", guest.LiveRPath}, ""
	default:
		r.Argv, r.Tier = []string{r.python, guest.LivePath}, ""
		if spec.Language.Name == "bash" { // led by Python, which can parse JSON
			r.Argv = append(r.Argv, "bash")
		}
		if startsAlike(spec) {
			r.Tier, r.Imports = liveTier, noteworthy(spec.Imports)
		}
	}
}

// limit returns the time limit of the program, zero if there is none.
func (r *RunRequest) limit() time.Duration {
	if r.Live {
		return 0
	}
	return r.Timeout
}

// checkLive rejects an interpreter whose packages are not installed.
func checkLive(r *RunRequest) error {
	if !r.Live || len(r.Argv) < 2 || r.Argv[1] != guest.LivePath || r.env.live {
		return nil
	}
	if r.env.record != nil {
		python, _ := r.env.record.Language("python")
		return NewFailure(engine.ErrNoLanguage, "the packages of live interpreters for Python "+python.Version+
			" of this image are not installed",
			"`airlock images update` installs them for CPython 3.11 to 3.14; programs run without them")
	}
	return NewFailure(engine.ErrNoLanguage, "the packages of live Python interpreters are not installed",
		"install them with `airlock setup`, then restart the service")
}

// house creates the workspace of an interpreter, with the inputs in it. If a sandbox
// waits, house uses its workspace and returns the sandbox.
func (e *executor) house(l *Link, r *RunRequest) (w *waiting, err error) {
	if p := r.poolOf(); p != nil && r.isScript() && !r.Resumes {
		e.pace.note(time.Now())
		s := shapeOf(r)
		if w = p.claim(func(w *waiting) bool { return w.shape == s }); w == nil {
			p.noteMiss()
		}
	}
	var h *heldWorkspace
	if w != nil {
		h = w.held
	} else if h, err = e.newHeld(r.Workspace, r.Inodes); err != nil {
		return nil, err
	}
	err = e.keep(l, r.Held, h, r.Inputs)
	switch {
	case err != nil && w != nil:
		w.close()
		return nil, err
	case err != nil:
		e.discard(h)
		return nil, err
	case w != nil:
		w.unheld = false
	}
	r.Inputs = 0
	return w, nil
}

// refillPause is the time in which a first cell has usually ended: creating the next
// sandbox takes as much of a processor.
const refillPause = 50 * time.Millisecond

// refillLater creates the sandboxes for the next interpreters. No sandboxes wait before
// the first interpreter, or after a while without one.
func (p *pool) refillLater(s shape) {
	if !trick.On(trick.Sessions) {
		return
	}
	<-time.After(refillPause)
	p.refill(s)
}

// forkLive creates a sandbox for an interpreter in its workspace. If it returns nil,
// the interpreter starts cold.
func (p *pool) forkLive(r *RunRequest) (*waiting, error) {
	p.executor.pace.note(time.Now())
	p.group.Idle(false) // a request waits for the zygote, if it is not ready yet
	p.wake()
	p.mu.Lock()
	there := p.zygote != nil
	p.stayAwake()
	p.mu.Unlock()
	if !there {
		return nil, nil
	}
	h, err := p.executor.occupy(r.Held, true)
	if err != nil {
		return nil, err
	}
	w, err := p.fork(shapeOf(r), h, nil)
	if w == nil && err == nil { // the zygote has exited meanwhile
		p.executor.leave(h, true)
	}
	return w, nil // after an error it has left the workspace
}

// clone returns a held workspace for a sandbox of a zygote: a mount that is not
// attached yet.
func (h *heldWorkspace) clone() (*Workspace, error) {
	fd, err := image.OpenTree(h.at, 0)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Root: os.NewFile(uintptr(fd), "workspace"), uid: h.uid, staged: map[string]mark{}}
	w.unlock()
	return w, nil
}

// changes sends the files of a held workspace that have changed.
func (e *executor) changes(l *Link, r *changesRequest) error {
	e.mu.Lock()
	h, at := e.held[r.ID], e.sandboxes[r.ID]
	var use used
	owner := r.ID
	if h != nil {
		owner = h.owner
	}
	if at != nil && at.box.Group != nil {
		use = used{CPU: at.box.Group.CPUTime(), MemoryPeak: at.box.Group.MemoryPeak()}
	}
	e.mu.Unlock()
	if h == nil || r.Count < 0 || r.Bytes < 0 || r.Total < 0 {
		return errNotHeld
	}
	h.entered.RLock()
	defer h.entered.RUnlock()
	h.saving.Lock()
	defer h.saving.Unlock()
	if h.gone {
		return errNotHeld
	}
	w := h.workspace
	w.seen, w.tree, w.within = map[string]mark{}, newTree(), pathSet(r.Paths)
	var found *left
	err := e.gate.through(owner, func() error {
		limits := collectLimits{r.Count, r.Bytes, r.Total}
		found = w.collect("", limits)
		return h.addTree(found, limits)
	})
	if err != nil {
		return err
	}
	w.staged, w.seen, w.within = w.seen, nil, nil
	defer found.close()
	if err := found.send(l); err != nil {
		return err
	}
	return l.Send(answer{Used: &use})
}

// Changes implements engine.Sandbox.
func (s *Sandbox) Changes(
	ctx context.Context, id engine.ID, limits engine.FileLimit, paths ...string,
) (*engine.Changes, error) {
	changes := &changesRequest{id.String(), limits.Count, limits.Bytes, limits.Total, paths}
	l, stop, err := s.openRequest(ctx, request{Changes: changes})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer stop()
	o, use, err := collectAnswers(l, nil, nil)
	if err != nil {
		return nil, err
	}
	if use == nil {
		for _, output := range o.Outputs {
			output.File.Close()
		}
		return nil, lost(errors.New("an outcome where changes were asked for"))
	}
	return &engine.Changes{Outputs: o.Outputs, Deleted: o.Deleted, Dropped: o.Dropped, CPU: use.CPU,
		MemoryPeak: use.MemoryPeak}, nil
}

// measureSandbox sends the usage of the sandbox in a held workspace.
func (e *executor) measureSandbox(l *Link, id string) error {
	at, leave, err := e.sandboxIn(id)
	if err != nil {
		return err
	}
	defer leave()
	var use used
	if g := at.box.Group; g != nil {
		use.CPU, use.Memory = g.CPUTime(), g.MemoryInUse()
	} else {
		err = e.gate.through(at.box.Request.Owner, func() error {
			pids := at.entered.list(at.pid)
			use.CPU = at.entered.cpu(at.pid, pids)
			for _, pid := range pids {
				use.Memory += proportionalBytes(pid)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	e.measure(id)
	e.mu.Lock()
	if h := e.held[id]; h != nil {
		use.Workspace = h.used
	}
	e.mu.Unlock()
	return l.Send(answer{Used: &use})
}

// Usage implements engine.Inside.
func (s *Sandbox) Usage(ctx context.Context, held engine.ID) (engine.SandboxUsage, error) {
	a, err := s.query(ctx, "measure", request{Measure: held.String()}, nil, nil)
	if err == nil && a.Used == nil {
		err = lost(errors.New("an answer without what is used"))
	}
	if err != nil {
		return engine.SandboxUsage{}, err
	}
	return engine.SandboxUsage{CPU: a.Used.CPU, Memory: a.Used.Memory, Workspace: a.Used.Workspace}, nil
}
