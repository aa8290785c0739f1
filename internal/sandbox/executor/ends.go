package executor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ends are the two ends of a pipe or a socket: the service's and the other side's.
type ends[T any] struct {
	ours   T
	theirs *os.File
}

// newRequestEnds creates the socket of a request. Both ends are polled: a request may wait
// for as long as its caller likes, and holds no thread of the executor meanwhile.
func newRequestEnds() (p ends[*Link], err error) {
	if p.ours, p.theirs, err = NewLinkPair(); err != nil {
		return p, err
	}
	if err := unix.SetNonblock(int(p.theirs.Fd()), true); err != nil {
		return ends[*Link]{}, errors.Join(err, p.ours.Close(), p.theirs.Close())
	}
	return p, nil
}

// newOutputEnds creates a pipe for a program's output.
func newOutputEnds() (ends[*os.File], error) { return newPipeEnds(0) }

// newPipeEnds creates a pipe and keeps one end for the service: 0 to read, 1 to write.
// Waiting for that end holds no thread. The other end blocks, as programs expect.
func newPipeEnds(ours int) (p ends[*os.File], err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return p, err
	}
	p.theirs = os.NewFile(uintptr(fds[1-ours]), "pipe")
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		unix.Close(fds[ours])
		p.theirs.Close()
		return p, err
	}
	p.ours = os.NewFile(uintptr(fds[ours]), "pipe")
	return p, nil
}
