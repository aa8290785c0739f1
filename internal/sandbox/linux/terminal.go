package linux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// terminal is a pseudoterminal for one process. It is of a file system of its
// own that is mounted nowhere: a program has the slave's open file, and no name
// by which another terminal, or a new one, could be opened.
type terminal struct{ root, master, slave *os.File }

func (t *terminal) close() {
	for _, f := range []*os.File{t.root, t.master, t.slave} {
		if f != nil {
			f.Close()
		}
	}
}

// openTerminal makes one whose slave belongs to a sandbox's user. The master is
// for the service, which waits for it beside others.
func openTerminal(uid int, size engine.TerminalSize) (_ *terminal, err error) {
	t := &terminal{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	ctx, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen devpts: %w", err)
	}
	defer unix.Close(ctx)
	for _, option := range [][2]string{{"uid", fmt.Sprint(uid)}, {"gid", fmt.Sprint(uid)}, {"mode", "0600"},
		{"ptmxmode", "0600"}, {"max", "1"}} {
		if err := unix.FsconfigSetString(ctx, option[0], option[1]); err != nil {
			return nil, fmt.Errorf("devpts option %s: %w", option[0], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, fmt.Errorf("make devpts: %w", err)
	}
	root, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	t.root = os.NewFile(uintptr(root), "devpts")
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err := unix.Openat(root, "ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open ptmx: %w", err)
	}
	t.master = os.NewFile(uintptr(master), "terminal")
	if err := errors.Join(unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0), resize(master, size)); err != nil {
		return nil, fmt.Errorf("prepare a terminal: %w", err)
	}
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return nil, fmt.Errorf("open the slave: %w", errno)
	}
	t.slave = os.NewFile(slave, "terminal")
	return t, nil
}

func resize(master int, size engine.TerminalSize) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Columns, Row: size.Rows})
}
