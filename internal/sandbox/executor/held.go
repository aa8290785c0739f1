package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// heldWorkspace is a workspace that persists between runs. It is mounted in the executor's
// own namespace, because a mount that was once inside a sandbox ends with it.
type heldWorkspace struct {
	workspace *Workspace
	disk      string // where its file system is mounted
	at        string // the workspace in it
	uid       int
	size      int64        // its maximum size
	owner     string       // of the last run in it, else its id; guarded by executor.mu
	watches   int          // of its files; guarded by executor.mu
	entered   sync.RWMutex // read-locked by programs in it, locked to release it
	gone      bool         // released while a run waited
	saving    sync.Mutex   // held while changes are collected
	layers    layers       // over the roots of live interpreters
	tree      []byte       // as the service has it; guarded by saving once it is registered

	visitors map[*Link]bool // requests for its files, by whether they are told of its release; guarded by executor.mu

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
func (w *Workspace) measure() int64 {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(w.Root.Fd()), &fs); err != nil {
		return 0
	}
	return int64(fs.Blocks-fs.Bfree)*fs.Bsize + int64(fs.Files-fs.Ffree)*inodeSize
}

var heldID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
})

func (e *executor) hold(l *Link, r *holdRequest) error {
	if !heldID().MatchString(r.ID) || r.Inputs < 0 || r.Inputs > maxInputs {
		return NewFailure(engine.ErrInvalid, "bad request to hold a workspace")
	}
	if err := checkWorkspace(r.Workspace, r.Inodes); err != nil {
		return NewFailure(engine.ErrInvalid, err.Error())
	}
	h, err := e.newHeld(r.Workspace, r.Inodes)
	if err != nil {
		return err
	}
	if err := e.keep(l, r.ID, h, r.Inputs); err != nil {
		e.discard(h)
		return err
	}
	return l.Send(answer{})
}

// newHeld creates an empty held workspace, without registering it.
func (e *executor) newHeld(size int64, inodes int) (_ *heldWorkspace, err error) {
	h := &heldWorkspace{disk: image.HeldPath + "/" + engine.NewID().String(), size: size, visitors: map[*Link]bool{}}
	h.at = h.disk + "/workspace"
	if h.uid, err = e.leaseUID(); err != nil {
		return nil, err
	}
	h.workspace = &Workspace{uid: h.uid, staged: map[string]mark{}}
	if err = h.mount(inodes); err != nil {
		e.discard(h)
		return nil, fmt.Errorf("mount a held workspace: %w", err)
	}
	return h, nil
}

// mount creates and mounts its file system, with a folder for the workspace.
func (h *heldWorkspace) mount(inodes int) error {
	disk, err := NewTmpfs(h.size, inodes+heldInodes, h.uid, "0755")
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := os.Mkdir(h.disk, 0o755); err != nil {
		return err
	}
	at := int(disk.Fd())
	if err := unix.MoveMount(at, "", unix.AT_FDCWD, h.disk, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(h.at, 0o755), os.Chown(h.at, h.uid, h.uid)); err != nil {
		return err
	}
	if err := os.Mkdir(h.spare(""), 0o700); err != nil {
		return err
	}
	if err := h.keepSpare(spareInodes); err != nil {
		return err
	}
	h.workspace.Root, err = os.OpenFile(h.at, unix.O_PATH|unix.O_DIRECTORY, 0)
	return err
}

// Empty files stand for the inodes of layers that are not there, so that a program has neither
// more files without them nor too few left for them.
const (
	spareInodes = 30
	heldInodes  = spareInodes + 2 // the root and the folder of these files
)

func (h *heldWorkspace) spare(name string) string { return path.Join(h.disk, "spare", name) }

// keepSpare makes n spare files, or removes those beyond n.
func (h *heldWorkspace) keepSpare(n int) error {
	for i := range spareInodes {
		name := h.spare(strconv.Itoa(i))
		if i >= n {
			_ = os.Remove(name)
			continue
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// freeInodes returns how many more files the file system can have.
func (h *heldWorkspace) freeInodes() int {
	var st unix.Statfs_t
	_ = unix.Statfs(h.disk, &st) // it is mounted
	return int(st.Ffree)
}

// discard unmounts a workspace that has no program in it.
func (e *executor) discard(h *heldWorkspace) {
	_ = unix.Unmount(h.disk, unix.MNT_DETACH)
	_ = os.Remove(h.disk)
	h.workspace.close()
	e.returnUID(h.uid)
}

// keep puts the inputs into a new workspace, and registers it.
func (e *executor) keep(l *Link, id string, h *heldWorkspace, inputs int) error {
	stored := &tree{}
	err := l.receiveInputs(inputs, func(in input, f *os.File) (err error) {
		if in.Path == engine.TreeMark {
			stored, err = h.readTree(f)
			return err
		}
		return h.workspace.put(in.Path, f, in.Size, in.ReadOnly && e.machine.Root)
	})
	if err == nil {
		err = h.workspace.plant(stored)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[id] != nil {
		return NewFailure(engine.ErrConflict, "this workspace is held already")
	}
	h.used = h.workspace.measure()
	if err := e.heldRoom(h, h.reserved()); err != nil {
		return err
	}
	if h.size > e.machine.heldQuota { // no program could ever enter
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
	case total <= e.machine.heldQuota:
		return nil
	case total-growth <= e.machine.heldQuota:
		return NewFailure(engine.ErrBusy, "the memory for workspaces that stay between runs is in use",
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

// mayInstall notes that a program in a held workspace can install packages. From now on they are not among its files,
// whichever program of the session is asked for those.
func (e *executor) mayInstall(id string) {
	e.mu.Lock()
	h := e.held[id]
	e.mu.Unlock()
	if h == nil {
		return
	}
	h.saving.Lock()
	defer h.saving.Unlock()
	h.workspace.installs = true
}

// addWatch counts a watch of a held workspace. The caller must call leave afterwards.
func (e *executor) addWatch(h *heldWorkspace, owner string) (leave func(), err error) {
	e.mu.Lock()
	full := h.watches >= MaxHeldWatches
	if !full {
		h.watches++
	}
	e.mu.Unlock()
	if full {
		return nil, NewFailure(engine.ErrBusy,
			fmt.Sprintf("this session is watched %d times, and that is the most", MaxHeldWatches), "end one of the watches")
	}
	end := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		h.watches--
	}
	watch, err := e.machine.shares.watches.reserve(owner, 1)
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
	e.mu.Lock()
	if live {
		h.live--
	} else {
		h.runs--
	}
	e.mu.Unlock()
	used := int64(0)
	if !h.gone {
		if live {
			e.dropLayers(h)
		}
		used = h.workspace.measure()
	}
	h.entered.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	h.used = used
}

// view returns a held workspace for one of its runs, with its own marks.
func (h *heldWorkspace) view() *Workspace {
	w := &Workspace{Root: h.workspace.Root, uid: h.workspace.uid}
	w.snapshot()
	return w
}

// usage sends the memory reserved for each held workspace, in batches that fit into a packet.
func (e *executor) usage(l *Link) error {
	e.mu.Lock()
	var all []heldUse
	for id, h := range e.held {
		all = append(all, heldUse{id, h.reserved()})
	}
	e.mu.Unlock()
	for batch := range slices.Chunk(all, usesInPacket) {
		if err := l.Send(answer{Held: batch}); err != nil {
			return err
		}
	}
	return l.Send(answer{})
}

// release removes a held workspace once the runs in it, if any, have ended: the service
// closes those runs' sockets first.
func (e *executor) release(id string) {
	e.mu.Lock()
	h := e.held[id]
	delete(e.held, id)
	if h != nil {
		for l, tell := range h.visitors {
			if tell {
				l.sendNow(answer{Error: errReleased})
			}
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
