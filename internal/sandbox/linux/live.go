package linux

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
)

// A live interpreter is a program that receives its work over its channel for calls;
// see live.py. It runs in a held workspace until the service ends it. Python's is
// forked from a zygote of its own tier, which has imported IPython and created its
// shell. IPython is outside the sets of packages, where no other program finds it.

const (
	liveFolder = runtimesPath + "/live" // with a folder of packages for each CPython
	liveTier   = "live"
)

// live turns a request into one for an interpreter.
func (r *runRequest) live(spec *engine.Spec) {
	r.Live, r.Apart, r.Entry, r.Code, r.Node = true, spec.Apart, "", nil, nil
	switch spec.Language.Name {
	case "js", "ts":
		r.Argv, r.Tier = []string{nodePath, guest.LiveNodePath, spec.Language.Name}, ""
	default:
		python, _ := language.Find("python")
		r.Argv, r.Tier = []string{python.Run[0], guest.LivePath}, ""
		if spec.Language.Name == "bash" { // led by Python, which can parse JSON
			r.Argv = append(r.Argv, "bash")
		}
		if startsAlike(spec) {
			r.Tier = liveTier
		}
	}
}

// limit returns the time limit of the program, zero if there is none.
func (r *runRequest) limit() time.Duration {
	if r.Live {
		return 0
	}
	return r.Timeout
}

// checkLive rejects an interpreter whose packages are not installed.
func (e *executor) checkLive(r *runRequest) error {
	if !r.Live || len(r.Argv) < 2 || r.Argv[1] != guest.LivePath || e.host.hasLive(r.Packages) {
		return nil
	}
	return newFailure(engine.ErrNoLanguage, "the packages of live Python interpreters are not installed",
		"install them with `airlock setup`, then restart the service")
}

var minorOfPython = regexp.MustCompile(`python(3\.\d+)$`)

// hasLive reports whether a set has packages for its interpreter.
func (h *host) hasLive(set string) bool {
	python := h.sets[set].python
	if set == "" {
		python = h.sets[h.set].python
	}
	if python == "" {
		python = h.python
	}
	version := minorOfPython.FindStringSubmatch(python)
	if version == nil {
		return false
	}
	_, err := os.Stat(imagePath + liveFolder + "/" + version[1] + "/IPython")
	return err == nil
}

// addLive opens the packages of live interpreters.
func (s *sources) addLive() error {
	links, err := filepath.Glob(filepath.Join(s.runtimes, "python", "live-3.*"))
	if err != nil {
		return nil //nolint:nilerr // the folder's name is no pattern
	}
	for _, link := range links {
		folder, err := filepath.EvalSymlinks(link)
		if err != nil || path.Ext(link) == ".new" {
			continue
		}
		version := filepath.Base(link)[len("live-"):]
		if err := s.add(folder, (liveFolder + "/" + version)[1:]); err != nil {
			return err
		}
		s.mounts[len(s.mounts)-1].nameless = true
	}
	return nil
}

// house creates the workspace of an interpreter, with the inputs in it. If a sandbox
// waits, house uses its workspace and returns the sandbox.
func (e *executor) house(l *link, r *runRequest) (w *waiting, err error) {
	if p := e.poolOf(r); p != nil && r.isScript() {
		e.pace.note(time.Now())
		s := shapeOf(r)
		if w = p.take(func(w *waiting) bool { return w.shape == s }); w == nil {
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
	<-time.After(refillPause)
	p.refill(s)
}

// forkLive creates a sandbox for an interpreter in its workspace. If it returns nil,
// the interpreter starts cold.
func (p *pool) forkLive(r *runRequest) (*waiting, error) {
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
func (h *heldWorkspace) clone() (*workspace, error) {
	fd, err := openTree(h.at, 0)
	if err != nil {
		return nil, err
	}
	w := &workspace{root: os.NewFile(uintptr(fd), "workspace"), uid: h.uid, staged: map[string]mark{}}
	w.unlock()
	return w, nil
}

// changes sends the files of a held workspace that have changed.
func (e *executor) changes(l *link, r *changesRequest) error {
	e.mu.Lock()
	h, at := e.held[r.ID], e.standing[r.ID]
	var use used
	owner := r.ID
	if h != nil {
		owner = h.owner
	}
	if at != nil && at.sandbox.group != nil {
		use = used{CPU: at.sandbox.group.CPUTime(), MemoryPeak: at.sandbox.group.MemoryPeak()}
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
	w.installs = w.installs || at != nil && at.sandbox.request.Network
	w.seen = map[string]mark{}
	var found *left
	err := e.gate.through(owner, func() error {
		found = w.collect("", collectLimits{r.Count, r.Bytes, r.Total})
		return nil
	})
	if err != nil {
		return err
	}
	w.staged, w.seen = w.seen, nil
	defer found.close()
	if err := found.send(l); err != nil {
		return err
	}
	return l.send(answer{Used: &use})
}

// Changes implements engine.Sandbox.
func (s *Sandbox) Changes(ctx context.Context, id engine.ID, limits engine.FileLimit) (*engine.Changes, error) {
	changes := &changesRequest{id.String(), limits.Count, limits.Bytes, limits.Total}
	l, stop, err := s.begin(ctx, request{Changes: changes})
	if err != nil {
		return nil, err
	}
	defer l.close()
	defer stop()
	o, use, err := collectAnswers(l, nil)
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

// measureStanding sends the usage of the sandbox in a held workspace.
func (e *executor) measureStanding(l *link, id string) error {
	at, leave, err := e.standingIn(id)
	if err != nil {
		return err
	}
	defer leave()
	var use used
	if g := at.sandbox.group; g != nil {
		use.CPU, use.Memory = g.CPUTime(), g.MemoryInUse()
	} else {
		err = e.gate.through(at.sandbox.request.Owner, func() error {
			pids := at.entered.among(at.pid)
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
	return l.send(answer{Used: &use})
}

// Usage implements engine.Inside.
func (s *Sandbox) Usage(ctx context.Context, held engine.ID) (engine.SandboxUsage, error) {
	a, err := s.ask(ctx, "measure", request{Measure: held.String()}, nil, nil)
	if err == nil && a.Used == nil {
		err = lost(errors.New("an answer without what is used"))
	}
	if err != nil {
		return engine.SandboxUsage{}, err
	}
	return engine.SandboxUsage{CPU: a.Used.CPU, Memory: a.Used.Memory, Workspace: a.Used.Workspace}, nil
}
