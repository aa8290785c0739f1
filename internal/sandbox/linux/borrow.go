package linux

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
)

// lender is where the executor takes what the service lends. It is a part of the
// service's file system, mounted nowhere, in which there is only what is being lent.
type lender struct {
	folder *os.File // the service's
	taken  *os.File // the executor's own, in it: the service cannot replace what is there
}

const takenFolder = "taken"

// lenderAt opens the lender at a path of the host, if there is one; nil: all inputs are
// copied.
func lenderAt(at string) *lender {
	if at == "" {
		return nil
	}
	d, err := openLender(at)
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor: large inputs are copied:", err)
		return nil
	}
	return d
}

// openLender opens the lender at a path of the host and tries whether this kernel can
// lend.
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
	for _, name := range names { // of an executor that was killed
		_ = unix.Unlinkat(fd, name, 0)
	}
	if err = d.try(); err != nil { // which closes it
		return nil, err
	}
	return d, nil
}

func (d *lender) close() { closeAll(d.folder, d.taken) }

// try lends a file of the executor's own.
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
	if fd, err = beneath(int(w.root.Fd()), "file", unix.O_RDONLY, 0); err != nil {
		return err
	}
	defer unix.Close(fd)
	got := make([]byte, len(name)+1)
	if n, err := unix.Read(fd, got); err != nil || string(got[:max(n, 0)]) != name {
		return errors.Join(err, errors.New("a lent file has other bytes"))
	}
	return nil
}

// loan is what a workspace has beyond an ordinary one if inputs are lent to it: it is an
// overlay. Above is the tmpfs that is the whole of an ordinary workspace, and has what
// is copied and written. Below, in a folder of the same tmpfs, is a file without content
// for each that is lent, which says whose it is and where its content is, and below that
// the folder of those that were taken.
type loan struct {
	lender             *lender
	tmpfs, lower, work *os.File // until the overlay is made
	mounted            bool     // it is made
	size               int64    // of all that is lent
	inputs             []input
	pins               []*os.File // the files, open: their names are removed, and the overlay looks none up again
}

// What an overlay takes of its own, and for each input that is lent: at least the file
// below and the mark that its name there is no more.
const (
	loanInodes  = 12
	inputInodes = 4
)

// newWorkspace makes a workspace to which so many inputs may be lent.
func (d *lender) newWorkspace(size int64, inodes, uid, inputs int) (_ *workspace, err error) {
	w := &workspace{uid: uid, staged: map[string]mark{}, loan: &loan{lender: d}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.loan.tmpfs, err = newTmpfs(size, inodes+1+loanInodes+inputInodes*inputs, uid, "0755"); err != nil {
		return nil, err
	}
	for name, folder := range map[string]**os.File{"lower": &w.loan.lower, "upper": &w.root, "work": &w.loan.work} {
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
	return w, unix.Fchown(int(w.root.Fd()), uid, uid)
}

// take takes an input that is lent, which must be the open file. It reports false if it
// is to be copied.
func (w *workspace) take(in input, f *os.File) bool {
	if w.loan == nil || !heldID.MatchString(in.Lent) || len(w.loan.inputs) == maxLent {
		return false
	}
	d := w.loan.lender
	taken := int(d.taken.Fd())
	if unix.Renameat2(int(d.folder.Fd()), in.Lent, taken, in.Lent, unix.RENAME_NOREPLACE) != nil {
		return false
	}
	// No other process can change now what the name stands for.
	var named, open unix.Stat_t
	if unix.Fstatat(taken, in.Lent, &named, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstat(int(f.Fd()), &open) == nil &&
		named.Dev == open.Dev && named.Ino == open.Ino && named.Size == in.Size && w.lower(in) == nil {
		return true
	}
	_ = unix.Unlinkat(taken, in.Lent, 0)
	return false
}

// lower makes the file without content that stands for an input which was taken.
func (w *workspace) lower(in input) error {
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

// borrow puts the lent files where they belong, when everything that is copied is in the
// workspace. They must fit beside that, as if they were copied.
func (w *workspace) borrow() error {
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

// overlay makes the overlay, mounted nowhere yet, if there is none. Inputs may be lent to
// it later as well: nothing has looked for their names before.
func (w *workspace) overlay() error {
	if w.loan.mounted {
		return nil
	}
	root, err := newMount("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, func(ctx int) error {
		return errors.Join(
			unix.FsconfigSetFd(ctx, "lowerdir+", int(w.loan.lower.Fd())),
			unix.FsconfigSetFd(ctx, "datadir+", int(w.loan.lender.taken.Fd())),
			unix.FsconfigSetFd(ctx, "upperdir", int(w.root.Fd())),
			unix.FsconfigSetFd(ctx, "workdir", int(w.loan.work.Fd())))
	}, [2]string{"source", "airlock"},
		[2]string{"metacopy", "on"},     // to change a name, a mode or an owner copies no content
		[2]string{"redirect_dir", "on"}, // metacopy takes it
		[2]string{"index", "off"},
		[2]string{"xino", "on"}) // one device, and numbers that stay
	if err != nil {
		return err
	}
	w.root.Close()
	w.root, w.loan.mounted = root, true
	return nil
}

// placeLent gives a lent file its name. From then on it is one of the layer above, but
// for its content, and so is the folder that it is in: what a program does to either
// meets nothing below.
func (w *workspace) placeLent(in input) error {
	root, below := int(w.root.Fd()), temporary+in.Lent
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
	closeAll(n.tmpfs, n.lower, n.work)
	n.tmpfs, n.lower, n.work = nil, nil, nil
}

// close also removes what was taken and is not in the workspace.
func (n *loan) close() {
	n.closeLayers()
	closeAll(n.pins...)
	for _, in := range n.inputs {
		_ = unix.Unlinkat(int(n.lender.taken.Fd()), in.Lent, 0)
	}
}

// isComplete reports whether a workspace was made with the inputs in it.
func (w *workspace) isComplete() bool { return w.loan != nil && w.loan.tmpfs == nil }

// borrow makes the workspace of a program to which inputs are lent, with all inputs in it.
func (e *executor) borrow(l *link, r *runRequest) (_ *workspace, err error) {
	w, err := e.houseWorkspace(func(uid int) (*workspace, error) {
		return e.lender.newWorkspace(r.Workspace, r.Inodes, uid, r.Lends)
	})
	if err != nil {
		return nil, err
	}
	s := &sandbox{host: e.host, request: r, workspace: w}
	if err := s.receiveInputs(l); err != nil {
		e.closeWorkspace(w)
		return nil, err
	}
	return w, nil
}

// houseWorkspace makes a workspace for a user that no other sandbox has.
func (e *executor) houseWorkspace(create func(uid int) (*workspace, error)) (*workspace, error) {
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

func (e *executor) closeWorkspace(w *workspace) {
	w.close()
	e.returnUID(w.uid)
}

// lendingTime is how long after a program with lent inputs a sandbox waits for another.
const lendingTime = 5 * time.Minute

// lends reports whether what waits next is to be one that inputs can be lent to. The
// caller holds the lock.
func (p *pool) lends(prewarmed bool) bool {
	return !p.lent.IsZero() && time.Since(p.lent) < lendingTime &&
		!slices.ContainsFunc(p.ready, func(w *waiting) bool { return w.workspace.loan != nil && w.prewarmed == prewarmed })
}

// lendingWorkspace makes the workspace of a sandbox that waits, to which inputs can be lent.
func (e *executor) lendingWorkspace(s shape) (*workspace, error) {
	w, err := e.houseWorkspace(func(uid int) (*workspace, error) {
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

// borrowWaiting takes a sandbox that waits for a program with lent inputs, nil if there
// is none.
func (e *executor) borrowWaiting(r *runRequest) *waiting {
	p := e.poolOf(r)
	if p == nil || !r.isScript() || r.Live {
		return nil
	}
	p.mu.Lock()
	p.lent = time.Now()
	p.mu.Unlock()
	e.pace.note(time.Now())
	s := shapeOf(r)
	return p.take(func(w *waiting) bool { return w.shape == s && w.workspace.loan != nil })
}

// forkIdle makes a sandbox that is going to wait. Where no inputs can be lent after all,
// it is an ordinary one, and so are those after it.
func (p *pool) forkIdle(z *zygote, s shape, how startMode, lends bool) (*waiting, error) {
	var made *workspace
	if lends {
		var err error
		if made, err = p.executor.lendingWorkspace(s); err != nil {
			fmt.Fprintln(os.Stderr, "airlock executor: no sandbox waits for large inputs:", err)
			p.mu.Lock()
			p.lent = time.Time{}
			p.mu.Unlock()
		}
	}
	return p.executor.forkWaiting(z, s, how, nil, made)
}

// place is where in the list of its pool a sandbox belongs: what plotted is taken first,
// and what inputs can be lent to last.
func (w *waiting) place() int {
	switch {
	case w.prewarmed:
		return 0
	case w.workspace.loan == nil:
		return 1
	}
	return 2
}
