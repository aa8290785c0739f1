package gvisor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Name is that of the wall, in settings and requests.
const Name = "gvisor"

// Command is the name of the program that makes the sandboxes. It is in the folder of airlock.
const Command = "airlock-gvisor"

// devices are those of the image, of which gVisor opens some.
const devices = "/dev"

// commandPath is where the executor has it.
const commandPath = "/" + Command

// folder is that of the same name in cmd/airlock-gvisor: where a sandbox finds its mounts.
const folder = "/gvisor"

// wall is a Wall of sandboxes that each have a kernel of their own.
type wall struct {
	*executor.Machine // nil before Open
	command           *os.File
}

// New returns the wall. One executor uses it.
func New() executor.Wall { return &wall{} }

// Begin implements Wall. It opens the command, which is in the host's root.
func (l *wall) Begin([]string) (programs map[string][]byte, err error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(self), Command)
	if l.command, err = openMount(path); errors.Is(err, fs.ErrNotExist) {
		return nil, missing(Command+" is not there: it belongs in "+filepath.Dir(self),
			"install the package of Airlock, which has it, or use the shared kernel")
	}
	return nil, err
}

// missing returns the failure for a machine on which there can be no such sandbox.
func missing(why, hint string) error {
	return executor.NewFailure(engine.ErrUnavailable, "a kernel of its own (gVisor) cannot be had: "+why, hint)
}

// Open implements Wall.
func (l *wall) Open(m *executor.Machine) (executor.Capabilities, error) {
	l.Machine = m
	switch {
	case !m.Root:
		return executor.Capabilities{}, missing("it needs root, for a user of each kernel", "run the service as root")
	case m.Groups == nil:
		return executor.Capabilities{}, missing("it needs control groups, which limit its memory",
			"mount the memory, pids and cpu controllers; "+
				"docs/containers.md says how in a container")
	}
	if err := cmp.Or(probeCapabilities(), probeSystrap()); err != nil {
		return executor.Capabilities{}, err
	}
	return executor.Capabilities{Name: Name, Kernel: "a kernel of its own (gVisor)",
		Live: true, Jobs: true,
		Own: executor.Overhead{Memory: ownMemory, Processes: ownProcesses}}, l.furnish()
}

// furnish adds to the executor's root what the command needs there, and the command itself.
func (l *wall) furnish() error {
	defer l.command.Close()
	for _, name := range []string{folder, devices, storedPath, "/tmp"} { // in /tmp gVisor makes the root of its kernel
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("airlock", storedPath, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700,size=1g"); err != nil {
		return fmt.Errorf("mount %s: %w", storedPath, err)
	}
	if err := unix.Mount(image.Path+devices, devices, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", devices, err)
	}
	if err := os.WriteFile(commandPath, nil, 0o600); err != nil { // a mount point
		return err
	}
	return unix.MoveMount(int(l.command.Fd()), "", unix.AT_FDCWD, commandPath, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// What the kernel of a sandbox takes beside its program, within the limits of its control group.
const (
	ownMemory    = 64 << 20
	ownProcesses = 512 // threads of the kernel, and those that stand for the program's
)

// Layers implements Wall.
func (l *wall) Layers() []engine.Layer {
	return []engine.Layer{
		executor.EnforcedLayer("kernel", "its own (gVisor, systrap): system calls do not reach the host's"),
		executor.EnforcedLayer("file system", "its own root: read-only /usr, an /etc of its own, nothing else of the host"),
		executor.EnforcedLayer("network", "a network stack of its own with nothing but loopback; no resolver"),
		executor.EnforcedLayer("processes", "the kernel knows no others, and all of them die with it"),
		executor.EnforcedLayer("users", fmt.Sprintf("two of its own for each sandbox, out of %d to %d and %d to %d: "+
			"the program's files and the kernel", l.Users.First, l.Users.First+l.Users.Count-1, l.Users.First+kernelUsers,
			l.Users.First+kernelUsers+l.Users.Count-1)),
		executor.EnforcedLayer("privileges", "no capabilities in the sandbox; those of the kernel end at its user namespace"),
		{Name: "process limit", State: engine.LayerWeaker,
			Detail: "the sandbox ends at the limit, in place of an error to the program"},
	}
}

// Make implements Wall.
func (l *wall) Make(b *executor.Box) (executor.Cell, error) {
	for _, f := range b.Mounts {
		if l.Mounts[f.Name()].Write {
			return nil, refused("mounts that can be written to: nothing here keeps programs from leaving links in " + f.Name())
		}
	}
	w := &cell{Box: b, wall: l, program: b.Request}
	return w, w.giveVolumes()
}

// refused returns the failure for what this wall does not have.
func refused(what string) error {
	return executor.NewFailure(engine.ErrUnavailable, "with a kernel of its own (gVisor) there are no "+what+" here",
		"run this with the shared kernel")
}

// Await implements Wall: no sandbox waits.
func (l *wall) Await(*executor.Box, language.Language) (executor.Cell, error) {
	return nil, refused("processes that wait")
}

// Close implements Wall.
func (l *wall) Close() {}

// kernelUsers is how far the user of a sandbox's kernel is from that of its program: beyond all users of programs,
// also of other executors, and of everything else that has numbers on a machine.
const kernelUsers = 0x1000_0000

// openMount opens what is mounted at a path, to be mounted elsewhere too.
func openMount(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
