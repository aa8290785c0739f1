package executor

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// A Terminal is a pseudoterminal for one process. A program has a name for it and for the
// others of its session, but no way to create one.
type Terminal struct{ master, slave *os.File }

func (t *Terminal) close() { CloseAll(t.master, t.slave) }

// mostTerminals bounds the terminals of one sandbox.
const mostTerminals = 256

// newTerminals returns the file system of a sandbox's terminals.
func newTerminals(uid int) (*os.File, error) {
	id := strconv.Itoa(uid)
	// It is read-only: nobody changes the mode of ptmx, which creates terminals.
	return newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, nil,
		[2]string{"uid", id}, [2]string{"gid", id}, [2]string{"mode", "0600"}, [2]string{"ptmxmode", "0000"},
		[2]string{"max", strconv.Itoa(mostTerminals)})
}

// showTerminals shows a sandbox its file system of terminals: few sandboxes have a terminal, and
// the others see an empty folder.
func (s *runningSandbox) showTerminals() error {
	s.terminals.Lock()
	defer s.terminals.Unlock()
	if s.hasTerminals {
		return nil
	}
	err := s.cell.ShowTerminals()
	s.hasTerminals = err == nil
	return err
}

// openTerminal creates a terminal whose slave belongs to a sandbox's user. The master
// is for the service, which polls it beside other files.
func (s *runningSandbox) openTerminal(size engine.TerminalSize) (_ *Terminal, err error) {
	if err := s.showTerminals(); err != nil {
		return nil, err
	}
	t := &Terminal{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err := unix.Openat(int(s.box.Terminals.Fd()), "ptmx", flags|unix.O_NONBLOCK, 0)
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
