package executor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/trick"
)

// lender is the folder into which the service puts files that it lends. It is a part of
// the service's file system, mounted nowhere, and holds only lent files.
type lender struct {
	folder *os.File // the service's
	taken  *os.File // the executor's own folder in it: the service cannot replace its files
}

const takenFolder = "taken"

// lenderAt opens the lender at a path of the host. If it returns nil, all inputs are
// copied.
func lenderAt(at string) *lender {
	if at == "" || !trick.On(trick.Lending) {
		return nil
	}
	d, err := openLender(at)
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor: large inputs are copied:", err)
		return nil
	}
	return d
}

// openLender opens the lender at a path of the host and checks whether this kernel
// supports lending.
func openLender(at string) (_ *lender, err error) {
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	mount, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, err
	}
	d := &lender{folder: os.NewFile(uintptr(mount), "lent")}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	if err = unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: quiet}); err != nil {
		return nil, err
	}
	if err = unix.Mkdirat(mount, takenFolder, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	if fd, err = unix.Openat(mount, takenFolder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0); err != nil {
		return nil, err
	}
	d.taken = os.NewFile(uintptr(fd), takenFolder)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o777 != 0o700 {
		return nil, errors.New("others may change what is taken")
	}
	names, _ := d.taken.Readdirnames(-1)
	for _, name := range names { // left by a killed executor
		_ = unix.Unlinkat(fd, name, 0)
	}
	if err = d.try(); err != nil { // try closes d on failure
		return nil, err
	}
	return d, nil
}

func (d *lender) close() { CloseAll(d.folder, d.taken) }

// try lends a file of the executor itself.
func (d *lender) try() error {
	name := engine.NewID().String()
	fd, err := unix.Openat(int(d.taken.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	err = writeAll(fd, []byte(name))
	unix.Close(fd)
	w, made := d.newWorkspace(1<<20, 1, 0, 1)
	if err := errors.Join(err, made); err != nil {
		return err
	}
	defer w.close()
	if err := errors.Join(w.lower(input{Path: "file", Size: int64(len(name)), Lent: name}), w.borrow()); err != nil {
		return err
	}
	if fd, err = beneath(int(w.Root.Fd()), "file", unix.O_RDONLY, 0); err != nil {
		return err
	}
	defer unix.Close(fd)
	got := make([]byte, len(name)+1)
	if n, err := unix.Read(fd, got); err != nil || string(got[:max(n, 0)]) != name {
		return errors.Join(err, errors.New("a lent file has other bytes"))
	}
	return nil
}

// loan is the additional state of a workspace with lent inputs: an overlay. The upper
// layer is the tmpfs that an ordinary workspace consists of, and holds copied and
// written files. The middle layer is a folder of the same tmpfs, with an empty file for
// each lent input, which records its owner and the place of its content. The lowest
// layer is the folder of taken files.
type loan struct {
	lender             *lender
	tmpfs, lower, work *os.File // until the overlay is created
	mounted            bool     // the overlay is created
	size               int64    // of all lent inputs
	inputs             []input
	pins               []*os.File // open files: their names are removed, and the overlay does not look them up again
}

// Inodes that an overlay needs for itself and for each lent input: at least the file
// below and the whiteout of its name there.
const (
	loanInodes  = 12
	inputInodes = 4
)

// newWorkspace creates a workspace to which up to inputs files may be lent.
func (d *lender) newWorkspace(size int64, inodes, uid, inputs int) (_ *Workspace, err error) {
	w := &Workspace{uid: uid, staged: map[string]mark{}, loan: &loan{lender: d}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.loan.tmpfs, err = NewTmpfs(size, inodes+1+loanInodes+inputInodes*inputs, uid, "0755"); err != nil {
		return nil, err
	}
	for name, folder := range map[string]**os.File{"lower": &w.loan.lower, "upper": &w.Root, "work": &w.loan.work} {
		at := int(w.loan.tmpfs.Fd())
		if err = unix.Mkdirat(at, name, 0o755); err != nil {
			return nil, err
		}
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		*folder = os.NewFile(uintptr(fd), name)
	}
	return w, unix.Fchown(int(w.Root.Fd()), uid, uid)
}

// borrowInput takes a lent input, which must be the open file. If it returns false, the
// caller copies the input.
func (w *Workspace) borrowInput(in input, f *os.File) bool {
	if w.loan == nil || !heldID().MatchString(in.Lent) || len(w.loan.inputs) == maxLent {
		return false
	}
	d := w.loan.lender
	taken := int(d.taken.Fd())
	if unix.Renameat2(int(d.folder.Fd()), in.Lent, taken, in.Lent, unix.RENAME_NOREPLACE) != nil {
		return false
	}
	// From here on no other process can replace the file at this name.
	var named, open unix.Stat_t
	if unix.Fstatat(taken, in.Lent, &named, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstat(int(f.Fd()), &open) == nil &&
		named.Dev == open.Dev && named.Ino == open.Ino && named.Size == in.Size && w.lower(in) == nil {
		return true
	}
	_ = unix.Unlinkat(taken, in.Lent, 0)
	return false
}

// lower creates the empty file that represents a taken input.
func (w *Workspace) lower(in input) error {
	const create = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	fd, err := unix.Openat(int(w.loan.lower.Fd()), temporary+in.Lent, create, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	owner := w.uid
	if in.ReadOnly {
		owner = 0
		err = unix.Fchmod(fd, 0o444)
	}
	err = errors.Join(err, unix.Fchown(fd, owner, owner), unix.Ftruncate(fd, in.Size),
		unix.Fsetxattr(fd, "trusted.overlay.metacopy", nil, 0),
		unix.Fsetxattr(fd, "trusted.overlay.redirect", []byte("/"+in.Lent), 0))
	if err == nil {
		w.loan.size += in.Size
		w.loan.inputs = append(w.loan.inputs, in)
	}
	return err
}

// borrow places the lent files, after all other inputs were copied into the workspace.
// They must fit beside the copied ones, as if they were copies.
func (w *Workspace) borrow() error {
	if w.loan == nil {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(w.loan.tmpfs.Fd()), &fs); err != nil {
		return err
	}
	if w.loan.size > int64(fs.Bavail)*fs.Bsize {
		return fmt.Errorf("stage %s: %w", w.loan.inputs[len(w.loan.inputs)-1].Path, unix.ENOSPC)
	}
	err := w.overlay()
	for _, in := range w.loan.inputs {
		if err == nil {
			err = w.placeLent(in)
		}
	}
	if err != nil {
		return retryable(fmt.Sprint("lend inputs: ", err))
	}
	w.loan.closeLayers()
	w.loan.inputs = nil
	return nil
}

// overlay creates the overlay, not mounted yet, if there is none. Inputs may also be
// lent later: their names have not been looked up before.
func (w *Workspace) overlay() error {
	if w.loan.mounted {
		return nil
	}
	root, err := newMount("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, func(ctx int) error {
		return errors.Join(
			unix.FsconfigSetFd(ctx, "lowerdir+", int(w.loan.lower.Fd())),
			unix.FsconfigSetFd(ctx, "datadir+", int(w.loan.lender.taken.Fd())),
			unix.FsconfigSetFd(ctx, "upperdir", int(w.Root.Fd())),
			unix.FsconfigSetFd(ctx, "workdir", int(w.loan.work.Fd())))
	}, [2]string{"source", "airlock"},
		[2]string{"metacopy", "on"},     // changing a name, a mode or an owner copies no content
		[2]string{"redirect_dir", "on"}, // required by metacopy
		[2]string{"index", "off"},
		[2]string{"xino", "on"}) // one device, and stable inode numbers
	if err != nil {
		return err
	}
	w.Root.Close()
	w.Root, w.loan.mounted = root, true
	return nil
}

// placeLent gives a lent file its name. This copies the file's metadata and its folder
// to the upper layer, so a program's changes to either do not reach the layers below.
func (w *Workspace) placeLent(in input) error {
	root, below := int(w.Root.Fd()), temporary+in.Lent
	fd, err := beneath(root, below, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	w.loan.pins = append(w.loan.pins, os.NewFile(uintptr(fd), in.Path))
	folder, base := path.Split(in.Path)
	dir, err := w.folder(strings.TrimSuffix(folder, "/"), in.ReadOnly)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := removeAll(int(dir.Fd()), base); err != nil {
		return err
	}
	if err := unix.Renameat(root, below, int(dir.Fd()), base); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(w.loan.lender.taken.Fd()), in.Lent, 0); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	w.staged[in.Path] = markOf(&st)
	return nil
}

func (n *loan) closeLayers() {
	CloseAll(n.tmpfs, n.lower, n.work)
	n.tmpfs, n.lower, n.work = nil, nil, nil
}

// close also removes taken files that are not in the workspace.
func (n *loan) close() {
	n.closeLayers()
	CloseAll(n.pins...)
	for _, in := range n.inputs {
		_ = unix.Unlinkat(int(n.lender.taken.Fd()), in.Lent, 0)
	}
}

// isComplete reports whether a workspace was created with its inputs.
func (w *Workspace) isComplete() bool { return w.loan != nil && w.loan.tmpfs == nil }

// borrow creates the workspace of a program with lent inputs, including all other inputs.
func (e *executor) borrow(l *Link, r *RunRequest) (_ *Workspace, err error) {
	w, err := e.houseWorkspace(func(uid int) (*Workspace, error) {
		return e.lender.newWorkspace(r.Workspace, r.Inodes, uid, r.Lends)
	})
	if err != nil {
		return nil, err
	}
	b := &Box{Machine: e.machine, Request: r, Workspace: w}
	if err := b.receiveInputs(l); err != nil {
		e.closeWorkspace(w)
		return nil, err
	}
	return w, nil
}

// houseWorkspace creates a workspace for a user that no other sandbox has.
func (e *executor) houseWorkspace(create func(uid int) (*Workspace, error)) (*Workspace, error) {
	uid, err := e.leaseUID()
	if err != nil {
		return nil, err
	}
	w, err := create(uid)
	if err != nil {
		e.returnUID(uid)
	}
	return w, err
}

func (e *executor) closeWorkspace(w *Workspace) {
	w.close()
	e.returnUID(w.uid)
}

// lendingTime is how long a sandbox for lent inputs waits after the last program that used one.
const lendingTime = 5 * time.Minute

// lends reports whether the next waiting sandbox should accept lent inputs. The caller
// holds the lock.
func (p *pool) lends(prewarmed bool) bool {
	return trick.On(trick.LendingBox) && !p.lent.IsZero() && time.Since(p.lent) < lendingTime &&
		!slices.ContainsFunc(p.ready, func(w *waiting) bool { return w.Workspace.loan != nil && w.prewarmed == prewarmed })
}

// lendingWorkspace creates the workspace of a waiting sandbox that accepts lent inputs.
func (e *executor) lendingWorkspace(s shape) (*Workspace, error) {
	w, err := e.houseWorkspace(func(uid int) (*Workspace, error) {
		return e.lender.newWorkspace(s.workspace, s.inodes, uid, maxLent)
	})
	if err != nil {
		return nil, err
	}
	python, _ := language.Find("python")
	if err = w.overlay(); err == nil {
		err = w.expect(python.Entry)
	}
	if err != nil {
		e.closeWorkspace(w)
		return nil, err
	}
	return w, nil
}

// borrowWaiting takes a waiting sandbox for a program with lent inputs, nil if there is
// none.
func (e *executor) borrowWaiting(r *RunRequest) *waiting {
	p := r.poolOf()
	if p == nil || !r.isScript() || r.Live {
		return nil
	}
	p.mu.Lock()
	p.lent = time.Now()
	p.mu.Unlock()
	e.pace.note(time.Now())
	s := shapeOf(r)
	return p.claim(func(w *waiting) bool { return w.shape == s && w.Workspace.loan != nil })
}

// forkIdle creates a sandbox that will wait. If lending fails, this sandbox and those
// after it are ordinary ones.
func (p *pool) forkIdle(z Zygote, s shape, how StartMode, lends bool) (*waiting, error) {
	var made *Workspace
	if lends {
		var err error
		if made, err = p.executor.lendingWorkspace(s); err != nil {
			fmt.Fprintln(os.Stderr, "airlock executor: no sandbox waits for large inputs:", err)
			p.mu.Lock()
			p.lent = time.Time{}
			p.mu.Unlock()
		}
	}
	return p.executor.forkWaiting(z, p.tier.Live, s, how, nil, made)
}

// place returns the rank of a sandbox in its pool's list: prewarmed sandboxes are taken
// first, sandboxes for lent inputs last.
func (w *waiting) place() int {
	switch {
	case w.prewarmed:
		return 0
	case w.Workspace.loan == nil:
		return 1
	}
	return 2
}
