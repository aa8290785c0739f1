package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A Box is what the executor provides for one sandbox: a program with its limits, a user,
// files and a control group. A wall confines it.
type Box struct {
	Machine     *Machine
	Environment *Environment // that its program finds
	Request     *RunRequest
	UID         int

	Workspace *Workspace
	HeldAt    string   // where a held workspace is mounted; empty: it is mounted nowhere yet
	Tmp       *os.File // a tmpfs for /tmp
	Terminals *os.File // the file system of its terminals; nil: no process may enter
	// Layers are over the bases of a live session's root, and mounted nowhere yet; none: it is read-only. What was
	// written to one is in the folder upper beside its name.
	Layers  []*os.File
	Mounts  []*os.File    // copies of the host's folders that the request names, called so, mounted nowhere yet
	Volumes []*os.File    // copies of the mounts of the request's volumes, mounted nowhere yet
	locks   []*os.File    // of these volumes
	Group   *cgroup.Group // nil without control groups
}

// Sizes of the small file systems that each sandbox gets beside its workspace.
const (
	TmpSize   = engine.TmpBytes
	TmpInodes = 10_000 // of /dev/shm too
)

// receiveInputs puts the inputs and the code into the workspace.
func (b *Box) receiveInputs(l *Link) error {
	if b.Workspace.isComplete() {
		return nil
	}
	if b.Request.alone() && b.Workspace.fillBlank(b.Request.Entry, b.Request.Code) {
		return nil
	}
	if err := b.Workspace.dropBlank(); err != nil {
		return err
	}
	err := l.receiveInputs(b.Request.Inputs, func(in input, f *os.File) error {
		if b.Workspace.borrowInput(in, f) {
			return nil
		}
		return b.Workspace.put(in.Path, f, in.Size, in.ReadOnly && b.Machine.Root)
	})
	if err == nil && b.Request.Code != nil {
		err = b.Workspace.putBytes(b.Request.Entry, b.Request.Code)
	}
	if err == nil {
		err = b.Workspace.borrow()
	}
	return err
}

// furnish creates the sandbox's resources beside its workspace.
func (b *Box) furnish() (err error) {
	if b.Tmp, err = NewTmpfs(TmpSize, TmpInodes, b.UID, "1777"); err != nil {
		return err
	}
	if err := b.LinkFontCache(); err != nil {
		return err
	}
	if b.Request.Enterable() {
		if b.Terminals, err = newTerminals(b.UID); err != nil {
			return err
		}
	}
	if groups := b.Machine.Groups; groups != nil {
		// Pid 1 belongs to Airlock, so one process is added for it.
		own := b.Machine.can.Own
		limits := cgroup.Limits{Memory: b.Request.Memory + own.Memory, Processes: b.Request.Processes + own.Processes + 1,
			CPUs: b.Request.CPUs}
		if b.Group, err = groups.Create(engine.NewID().String(), limits); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// ownPipes gives pipes to the sandbox's user, who opens them again by their names: /dev/stderr,
// /proc/self/fd/1. Other files stay whose they are: what is read may be a stored file.
func (b *Box) ownPipes(files []*os.File) {
	if !b.Machine.Root {
		return // the pipes are of the one user
	}
	for _, f := range files {
		var st unix.Stat_t
		if f != nil && unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
			_ = unix.Fchown(int(f.Fd()), b.UID, b.UID) // without it they can be used, but not by name
		}
	}
}

// startsCold reports whether no sandbox that waits may be used: its filter of system calls would be
// another one, or it has no way to the proxy.
func (e *executor) startsCold(r *RunRequest) bool {
	return r.Network && !r.Live && e.machine.can.Kernel != "" || len(r.Volumes) > 0 ||
		slices.ContainsFunc(r.Mounts, func(asked string) bool {
			name, _ := engine.MountName(asked)
			return !e.machine.can.Sealed[name]
		})
}

// openMounts opens the folders of the host that the program asks for.
func (b *Box) openMounts() error {
	for _, asked := range b.Request.Mounts {
		name, readOnly := engine.MountName(asked)
		f, err := image.OpenShared(name, readOnly)
		if errors.Is(err, fs.ErrNotExist) {
			return NewFailure(engine.ErrUnavailable,
				fmt.Sprintf("the folder of the mount %q was not there when the service started, or was removed", name),
				"whoever runs the service mounts or creates it there, then restarts the service")
		}
		if err != nil {
			return err
		}
		b.Mounts = append(b.Mounts, f)
	}
	return nil
}

// LinkFontCache links the list of fonts created at setup into the folder where
// matplotlib would write its own. Searching the fonts again would cost each program a
// second.
func (b *Box) LinkFontCache() error {
	if len(b.Environment.fontLists) == 0 {
		return nil
	}
	fd := int(b.Tmp.Fd())
	if err := unix.Mkdirat(fd, "matplotlib", 0o755); err != nil {
		return err
	}
	for _, name := range b.Environment.fontLists {
		if err := unix.Symlinkat(path.Join(image.FontsPath, name), fd, "matplotlib/"+name); err != nil {
			return err
		}
	}
	return unix.Fchownat(fd, "matplotlib", b.UID, b.UID, 0)
}

// closeLayers closes the mounts of layers, which the sandbox has.
func (b *Box) closeLayers() {
	CloseAll(b.Layers...)
	b.Layers = nil
}

// release closes the files of a box and removes its group. The sandbox has ended.
func (b *Box) release() {
	CloseAll(b.Tmp, b.Terminals)
	b.closeLayers()
	CloseAll(b.Mounts...)
	b.closeVolumes()
	if b.Group != nil {
		b.Group.Remove()
	}
}

// answer sends the outputs, in packets of bounded size, then the outcome.
func (b *Box) answer(l *Link, done *outcome) error {
	r := b.Request
	if r.Live || b.Workspace.untouched() { // the service requests a live interpreter's outputs
		return l.Send(answer{Done: done})
	}
	b.Workspace.installs = r.Network
	found := b.Workspace.collect(r.Entry, collectLimits{r.Count, r.Bytes, r.Total})
	if r.Folders {
		found.markFolders(b.Workspace, r.Count)
	}
	defer found.close()
	if err := found.send(l); err != nil {
		return err
	}
	return l.Send(answer{Done: done})
}
