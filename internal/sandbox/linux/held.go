package linux

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// heldWorkspace is a workspace that persists between runs. It is mounted in the executor's
// own namespace, because a mount that was once inside a sandbox ends with it.
type heldWorkspace struct {
	workspace *workspace
	at        string
	uid       int
	size      int64        // its maximum size
	owner     string       // of the last run in it, else its id; guarded by executor.mu
	watches   int          // of its files; guarded by executor.mu
	entered   sync.RWMutex // read-locked by programs in it, locked to release it
	gone      bool         // released while a run waited
	saving    sync.Mutex   // held while changes are collected

	visitors map[*link]bool // requests that read or change its files; guarded by executor.mu

	runs int   // runs in it, except live interpreters; guarded by executor.mu
	live int   // interpreters in it; guarded by executor.mu
	used int64 // memory at the last measurement; guarded by executor.mu
}

// Memory reserved for a held workspace. Without programs in it a workspace cannot grow,
// so its content is reserved. With programs its whole size is reserved.
const (
	leastHeld = 4 << 20 // also bounds their number
	inodeSize = 1 << 10 // of the kernel's memory
)

// reserved returns the memory to reserve for it. The caller holds executor.mu.
func (h *heldWorkspace) reserved() int64 {
	if h.runs > 0 {
		return max(h.size, leastHeld)
	}
	return max(h.used, leastHeld)
}

// measure returns the memory that a workspace's files use.
func (w *workspace) measure() int64 {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(w.root.Fd()), &fs); err != nil {
		return 0
	}
	return int64(fs.Blocks-fs.Bfree)*fs.Bsize + int64(fs.Files-fs.Ffree)*inodeSize
}

var heldID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (e *executor) hold(l *link, r *holdRequest) error {
	if !heldID.MatchString(r.ID) || r.Inputs < 0 || r.Inputs > maxInputs {
		return newFailure(engine.ErrInvalid, "bad request to hold a workspace")
	}
	if err := checkWorkspace(r.Workspace, r.Inodes); err != nil {
		return newFailure(engine.ErrInvalid, err.Error())
	}
	h, err := e.newHeld(r.Workspace, r.Inodes)
	if err != nil {
		return err
	}
	if err := e.keep(l, r.ID, h, r.Inputs); err != nil {
		e.discard(h)
		return err
	}
	return l.send(answer{})
}

// newHeld creates an empty held workspace, without registering it.
func (e *executor) newHeld(size int64, inodes int) (_ *heldWorkspace, err error) {
	h := &heldWorkspace{at: heldPath + "/" + engine.NewID().String(), size: size, visitors: map[*link]bool{}}
	if h.uid, err = e.leaseUID(); err != nil {
		return nil, err
	}
	if h.workspace, err = newWorkspace(size, inodes, h.uid); err != nil {
		e.returnUID(h.uid)
		return nil, err
	}
	if err = os.Mkdir(h.at, 0o755); err == nil {
		root := int(h.workspace.root.Fd())
		if err = unix.MoveMount(root, "", unix.AT_FDCWD, h.at, unix.MOVE_MOUNT_F_EMPTY_PATH); err == nil {
			return h, nil
		}
	}
	e.discard(h)
	return nil, fmt.Errorf("mount a held workspace: %w", err)
}

// discard unmounts a workspace that has no program in it.
func (e *executor) discard(h *heldWorkspace) {
	_ = unix.Unmount(h.at, unix.MNT_DETACH)
	_ = os.Remove(h.at)
	h.workspace.close()
	e.returnUID(h.uid)
}

// keep puts the inputs into a new workspace, and registers it.
func (e *executor) keep(l *link, id string, h *heldWorkspace, inputs int) error {
	err := l.receiveInputs(inputs, func(in input, f *os.File) error {
		return h.workspace.put(in.Path, f, in.Size, in.ReadOnly && e.host.root)
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[id] != nil {
		return newFailure(engine.ErrConflict, "this workspace is held already")
	}
	h.used = h.workspace.measure()
	if err := e.heldRoom(h, h.reserved()); err != nil {
		return err
	}
	if h.size > e.host.heldQuota { // no program could ever enter
		return errHeldMemory
	}
	h.owner = cmp.Or(h.owner, id)
	e.held[id] = h
	return nil
}

// heldRoom reports whether there is memory for one to reserve so much. What those
// that programs are in may grow to comes back when they end.
func (e *executor) heldRoom(h *heldWorkspace, reserve int64) error {
	total, growth := reserve, int64(0)
	for _, other := range e.held {
		if other != h {
			total += other.reserved()
			growth += other.reserved() - max(other.used, leastHeld)
		}
	}
	switch {
	case total <= e.host.heldQuota:
		return nil
	case total-growth <= e.host.heldQuota:
		return newFailure(engine.ErrBusy, "the memory for workspaces that stay between runs is in use",
			"try again when other programs in sessions have ended")
	}
	return errHeldMemory
}

// occupy enters a held workspace for one run or live interpreter; leave ends that.
// Several runs may be in it at once.
func (e *executor) occupy(id string, live bool) (*heldWorkspace, error) {
	e.mu.Lock()
	h := e.held[id]
	if h == nil {
		e.mu.Unlock()
		return nil, errNotHeld
	}
	need := max(h.size, leastHeld)
	if live {
		// It is frozen most of the time. While it computes the queue has reserved its
		// memory, which includes the workspace.
		need = h.reserved()
	}
	if err := e.heldRoom(h, need); err != nil {
		e.mu.Unlock()
		return nil, err
	}
	if live {
		h.live++
	} else {
		h.runs++
	}
	e.mu.Unlock()
	h.entered.RLock()
	if h.gone {
		e.leave(h, live)
		return nil, errNotHeld
	}
	return h, nil
}

// attend counts a watch of a held workspace. The caller must call leave afterwards.
func (e *executor) attend(h *heldWorkspace, owner string) (leave func(), err error) {
	e.mu.Lock()
	full := h.watches >= maxHeldWatches
	if !full {
		h.watches++
	}
	e.mu.Unlock()
	if full {
		return nil, newFailure(engine.ErrBusy,
			fmt.Sprintf("this session is watched %d times, and that is the most", maxHeldWatches), "end one of the watches")
	}
	end := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		h.watches--
	}
	watch, err := e.host.shares.watches.take(owner, 1)
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		watch.release()
		end()
	}, nil
}

func (e *executor) leave(h *heldWorkspace, live bool) {
	used := int64(0)
	if !h.gone {
		used = h.workspace.measure()
	}
	h.entered.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if live {
		h.live--
	} else {
		h.runs--
	}
	h.used = used
}

// view returns a held workspace for one of its runs, with its own marks.
func (h *heldWorkspace) view() *workspace {
	w := &workspace{root: h.workspace.root, uid: h.workspace.uid}
	w.snapshot()
	return w
}

// usage sends the memory reserved for each held workspace, in batches that fit into a packet.
func (e *executor) usage(l *link) error {
	e.mu.Lock()
	var all []heldUse
	for id, h := range e.held {
		all = append(all, heldUse{id, h.reserved()})
	}
	e.mu.Unlock()
	for batch := range slices.Chunk(all, usesInPacket) {
		if err := l.send(answer{Held: batch}); err != nil {
			return err
		}
	}
	return l.send(answer{})
}

// release removes a held workspace once the runs in it, if any, have ended: the service
// closes those runs' sockets first.
func (e *executor) release(id string) {
	e.mu.Lock()
	h := e.held[id]
	delete(e.held, id)
	if h != nil {
		for l := range h.visitors {
			l.shut()
		}
	}
	e.mu.Unlock()
	if h == nil {
		return
	}
	h.entered.Lock()
	defer h.entered.Unlock()
	h.gone = true
	e.discard(h)
}
