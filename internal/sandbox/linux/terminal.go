package linux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// terminal is a pseudoterminal for one process. Its file system is mounted nowhere: a
// program has the slave's open file, but no path by which it could open another
// terminal or a new one.
type terminal struct{ root, master, slave *os.File }

func (t *terminal) close() { closeAll(t.root, t.master, t.slave) }

// openTerminal creates a terminal whose slave belongs to a sandbox's user. The master
// is for the service, which polls it beside other files.
func openTerminal(uid int, size engine.TerminalSize) (_ *terminal, err error) {
	t := &terminal{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	id := fmt.Sprint(uid)
	t.root, err = newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, nil,
		[2]string{"uid", id}, [2]string{"gid", id}, [2]string{"mode", "0600"}, [2]string{"ptmxmode", "0600"},
		[2]string{"max", "1"})
	if err != nil {
		return nil, err
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err := unix.Openat(int(t.root.Fd()), "ptmx", flags|unix.O_NONBLOCK, 0)
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
