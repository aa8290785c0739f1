package linux

import (
	"fmt"
	"os"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// heldWorkspace stays between runs. It is mounted in the executor's own
// namespace, because a mount that was once inside a sandbox ends with it.
type heldWorkspace struct {
	workspace *workspace
	at        string
	uid       int
	size      int64      // that it may grow to
	busy      sync.Mutex // one run at a time
	gone      bool       // released while a run waited
}

var heldID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (e *executor) hold(l *link, r *holdRequest) error {
	if !heldID.MatchString(r.ID) || r.Inputs < 0 || r.Inputs > maxInputs {
		return &failure{Kind: string(engine.ErrInvalid), Text: "bad request to hold a workspace"}
	}
	if err := checkWorkspace(r.Workspace, r.Inodes); err != nil {
		return &failure{Kind: string(engine.ErrInvalid), Text: err.Error()}
	}
	uid, err := e.leaseUID()
	if err != nil {
		return err
	}
	w, err := newWorkspace(r.Workspace, r.Inodes, uid)
	if err != nil {
		e.returnUID(uid)
		return err
	}
	h := &heldWorkspace{workspace: w, at: heldPath + "/" + r.ID, uid: uid, size: r.Workspace}
	err = l.receiveInputs(r.Inputs, func(in input, f *os.File) error {
		return w.put(in.Path, f, in.Size, in.ReadOnly && e.host.root)
	})
	if err == nil {
		err = e.keep(r.ID, h)
	}
	if err != nil {
		w.close()
		e.returnUID(uid)
		return err
	}
	return l.send(answer{})
}

// keep mounts a workspace and remembers it.
func (e *executor) keep(id string, h *heldWorkspace) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[id] != nil {
		return &failure{Kind: string(engine.ErrConflict), Text: "this workspace is held already"}
	}
	total := h.size
	for _, other := range e.held {
		total += other.size
	}
	if total > e.host.heldQuota {
		return &failure{
			Kind: string(engine.ErrFull), Text: "the memory for workspaces that stay between runs is used up",
			Hint: "delete sessions that are no longer used, or wait until they expire",
		}
	}
	if err := os.Mkdir(h.at, 0o755); err != nil {
		return err
	}
	err := unix.MoveMount(int(h.workspace.root.Fd()), "", unix.AT_FDCWD, h.at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		_ = os.Remove(h.at)
		return fmt.Errorf("mount a held workspace: %w", err)
	}
	e.held[id] = h
	return nil
}

// occupy enters a held workspace for one run; leave ends that.
func (e *executor) occupy(id string) (*heldWorkspace, error) {
	gone := &failure{Kind: string(engine.ErrNotFound), Text: "no such workspace is held"}
	e.mu.Lock()
	h := e.held[id]
	e.mu.Unlock()
	if h == nil {
		return nil, gone
	}
	h.busy.Lock()
	if h.gone {
		h.busy.Unlock()
		return nil, gone
	}
	return h, nil
}

func (h *heldWorkspace) leave() { h.busy.Unlock() }

// release forgets a held workspace once the run in it, if any, has ended: the
// service closes that run's socket first.
func (e *executor) release(id string) {
	e.mu.Lock()
	h := e.held[id]
	delete(e.held, id)
	e.mu.Unlock()
	if h == nil {
		return
	}
	h.busy.Lock()
	defer h.busy.Unlock()
	h.gone = true
	_ = unix.Unmount(h.at, unix.MNT_DETACH)
	_ = os.Remove(h.at)
	h.workspace.close()
	e.returnUID(h.uid)
}
