package executor

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// outputs are the pipes that a program writes to. They are read in the order in which
// they became readable, which epoll preserves: output printed before an error is read
// before it. If a program writes to one pipe, to the other and to the first again
// before the pipes are read, that order is lost.
type outputs struct {
	poll  *os.File
	pipes []*os.File // by streams; one if stderr shares stdout's pipe
	conns []syscall.RawConn
	mu    sync.Mutex // held while data is handed over
}

var streams = [...]engine.Stream{engine.Stdout, engine.Stderr}

// mostReads bounds how long one stream is read while the other waits.
const mostReads = 16

var outputBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func newOutputs(pipes []*os.File) (_ *outputs, err error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that waiting for it holds no thread
		unix.Close(fd)
		return nil, err
	}
	o := &outputs{poll: os.NewFile(uintptr(fd), "outputs"), pipes: pipes}
	for i, pipe := range pipes {
		conn, err := pipe.SyscallConn()
		if err == nil {
			o.conns = append(o.conns, conn)
			err = o.watch(fd, i, unix.EPOLL_CTL_ADD)
		}
		if err != nil {
			o.poll.Close()
			return nil, err
		}
	}
	return o, nil
}

// watch registers a pipe for events. The kernel also reports data that is already there.
func (o *outputs) watch(poll, index, how int) (err error) {
	event := &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(index)}
	closed := o.conns[index].Control(func(fd uintptr) { err = unix.EpollCtl(poll, how, int(fd), event) })
	if closed != nil {
		return closed
	}
	return err
}

// pump hands over the program's output until no process can write any more.
func (o *outputs) pump(host engine.Host) {
	buffer := outputBuffers.Get().(*[64 << 10]byte)
	defer outputBuffers.Put(buffer)
	conn, err := o.poll.SyscallConn()
	if err != nil {
		return
	}
	var events [len(streams)]unix.EpollEvent
	var ended [len(streams)]bool // a pipe that is closed while it is read is reported again
	for open := len(o.pipes); open > 0; {
		var n int
		closed := conn.Read(func(fd uintptr) bool {
			n, err = unix.EpollWait(int(fd), events[:], 0)
			return n != 0
		})
		switch {
		case closed == nil && errors.Is(err, unix.EINTR):
			continue
		case closed != nil || err != nil:
			return
		}
		for _, event := range events[:n] {
			if i := event.Fd; !ended[i] && !o.drain(conn, int(i), buffer[:], host) {
				ended[i] = true
				open--
			}
		}
	}
}

// drain hands over the data in a pipe, and reports whether more may follow.
func (o *outputs) drain(poll syscall.RawConn, index int, buffer []byte, host engine.Host) bool {
	for range mostReads {
		if more, open := o.read(index, buffer, host); !more {
			return open
		}
	}
	var err error
	closed := poll.Control(func(fd uintptr) { err = o.watch(int(fd), index, unix.EPOLL_CTL_MOD) })
	return closed == nil && err == nil
}

// read hands over some of the data in a pipe. It reports whether more may be available
// now, and whether more may follow.
func (o *outputs) read(index int, buffer []byte, host engine.Host) (more, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var n int
	var err error
	closed := o.conns[index].Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), buffer)
		return true
	})
	switch {
	case closed != nil:
		return false, false
	case errors.Is(err, unix.EAGAIN):
		return false, true
	case errors.Is(err, unix.EINTR):
		return true, true
	case err != nil || n == 0:
		return false, false
	}
	host.Output(streams[index], buffer[:n])
	return true, true
}

// await returns when all output written so far is handed over, or much of it if the
// program continues to write.
func (o *outputs) await(host engine.Host) {
	buffer := outputBuffers.Get().(*[64 << 10]byte)
	defer outputBuffers.Put(buffer)
	for index := range o.pipes {
		for range mostReads {
			if more, _ := o.read(index, buffer[:], host); !more {
				break
			}
		}
	}
}

func (o *outputs) close() {
	for _, f := range append([]*os.File{o.poll}, o.pipes...) {
		f.Close()
	}
}
