package executor

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The executor waits for thousands of files: the sockets of requests, the pipes over which
// sandboxes report, pidfds. A thread that waits in poll(2) counts against the same limits as
// the processes of programs, and Go's runtime does not survive a thread that cannot be
// created. So all waiting is the work of the runtime's poller, which has one thread.

// A pollSet waits for any of some files without holding a thread. The runtime's poller
// waits for its epoll instance, which has the files.
type pollSet struct {
	file *os.File
	raw  syscall.RawConn
}

// newPollSet registers files for the events that they are polled for. Files whose number is
// negative are left out.
func newPollSet(list []unix.PollFd) (_ *pollSet, err error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err = unix.SetNonblock(fd, true); err != nil { // for os.NewFile: then the runtime polls it
		unix.Close(fd)
		return nil, err
	}
	p := &pollSet{file: os.NewFile(uintptr(fd), "poll set")}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, polled := range list {
		if polled.Fd < 0 {
			continue
		}
		event := &unix.EpollEvent{Events: uint32(polled.Events), Fd: polled.Fd} // POLLIN is EPOLLIN
		if err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, int(polled.Fd), event); err != nil {
			return nil, err
		}
	}
	p.raw, err = p.file.SyscallConn()
	return p, err
}

func (p *pollSet) close() { p.file.Close() }

// listen sets the events of a file that wake the one who waits for the set; with none the
// file costs nothing while it is left out of the list.
func (p *pollSet) listen(polled unix.PollFd, events int16) error {
	if polled.Fd < 0 {
		return nil
	}
	event := &unix.EpollEvent{Events: uint32(events), Fd: polled.Fd}
	var failed error
	closed := p.raw.Control(func(fd uintptr) {
		failed = unix.EpollCtl(int(fd), unix.EPOLL_CTL_MOD, int(polled.Fd), event)
	})
	return errors.Join(closed, failed)
}

// until waits until one of the listed files, all of which are in the set, is ready. It
// returns 0 if the deadline, if any, came first.
func (p *pollSet) until(list []unix.PollFd, deadline time.Time) (n int, err error) {
	if err := p.file.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return p.wait(list)
}

// wait is until with the deadline that was set last.
func (p *pollSet) wait(list []unix.PollFd) (n int, err error) {
	closed := p.raw.Read(func(uintptr) bool {
		n, err = pollNow(list)
		return n != 0 || err != nil
	})
	switch {
	case errors.Is(closed, os.ErrDeadlineExceeded): // it may have been over before the first look
		return pollNow(list)
	case closed != nil:
		return 0, closed
	}
	return n, err
}

// pollNow reports which files are ready now.
func pollNow(list []unix.PollFd) (int, error) {
	for {
		if n, err := unix.Poll(list, 0); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// PollUntil waits once for one of some files. It returns 0 if the deadline, if any, came
// first.
func PollUntil(list []unix.PollFd, deadline time.Time) (int, error) {
	if n, err := pollNow(list); n != 0 || err != nil {
		return n, err
	}
	p, err := newPollSet(list)
	if err != nil {
		return 0, err
	}
	defer p.close()
	return p.until(list, deadline)
}
