package executor

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/trick"
)

// A program needs pipes and a socket, which take about twenty system calls to create.
// Those of the next program are created while this one runs, so that no request waits
// for them.

// Sizes of the pools, refilled at the start and after each request: enough for two
// requests at once.
const (
	spareLinks = 2
	sparePipes = 2 * spareLinks
)

// ends are the two ends of a pipe or a socket: the service's and the other side's.
type ends[T any] struct {
	ours   T
	theirs *os.File
}

// pairPool holds unused pairs.
type pairPool[T any] struct {
	create func() (ends[T], error)
	enough int

	mu     sync.Mutex
	list   []ends[T]
	closed bool
}

// get returns a pair from the pool, or a new one if the pool is empty.
func (s *pairPool[T]) get() (ends[T], error) {
	s.mu.Lock()
	if n := len(s.list); n > 0 {
		p := s.list[n-1]
		s.list = s.list[:n-1]
		s.mu.Unlock()
		return p, nil
	}
	s.mu.Unlock()
	return s.create()
}

// refill creates pairs until there are enough.
func (s *pairPool[T]) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.list) < s.enough && trick.On(trick.Spare) {
		p, err := s.create()
		if err != nil {
			return // get tries again and returns the error
		}
		s.list = append(s.list, p)
	}
}

// close closes the pool. It calls ours for the service's ends.
func (s *pairPool[T]) close(ours func(T) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.list {
		_ = errors.Join(ours(p.ours), p.theirs.Close())
	}
	s.list = nil
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
