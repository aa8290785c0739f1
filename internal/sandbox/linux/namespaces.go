package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The namespaces for the network and for inter-process communication take longer to
// make, and to take apart, than most other things of a sandbox, and hardly a program
// looks at them. A pair in which nothing has ever happened is as good as new: the
// executor keeps it for a later sandbox.
//
// What makes it certain that nothing has happened is that no process in it has ever
// had a socket, a semaphore, shared memory or a message queue of it. All that such a
// namespace remembers is changed through one of these, through /proc/sys, which is
// read-only, or by who has capabilities over it. So the filter hands over the calls
// that make them to the executor, which notes it before it lets the call go on. To
// look at counters afterwards would be dearer, and would miss what only shows later:
// who joins a multicast group and leaves it makes the kernel send packets seconds
// after the socket is gone.
//
// A program pays for each of those calls with a moment in which it waits for the
// executor, and in which a signal can interrupt the call. Where programs are likely to
// have sockets all stays as it was: new namespaces for each, and no notices
// (tier.offline).

// namespaces are those of one sandbox that may serve again.
type namespaces struct{ network, ipc *os.File }

func (n *namespaces) close() { closeAll([]*os.File{n.network, n.ipc}) }

// spareNamespaces are those in which nothing has happened.
type spareNamespaces struct {
	mu     sync.Mutex
	list   []*namespaces
	closed bool
}

// mostNamespaces are kept beside those of sandboxes that wait, for bursts: each pair
// takes some 0.1 MiB of the kernel's memory.
const mostNamespaces = mostWaiting

// take returns a pair that is nobody else's; nil if none is spare.
func (s *spareNamespaces) take() *namespaces {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	n := s.list[0]
	s.list = slices.Delete(s.list, 0, 1)
	return n
}

// give takes a pair back, in which there is no process any more and nothing has
// happened.
func (s *spareNamespaces) give(n *namespaces) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.list) >= mostNamespaces {
		n.close()
		return
	}
	s.list = append(s.list, n)
}

func (s *spareNamespaces) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, n := range s.list {
		n.close()
	}
	s.list = nil
}

// keepNamespaces opens those that a sandbox has made for itself, before there is a
// program in it. Without their files they are gone with the sandbox.
func (w *waiting) keepNamespaces(t tier) {
	if w.listener == nil || !w.executor.host.keeps(t) {
		return // nobody would hear of what happens in it
	}
	w.untouched = true
	if w.kept != nil {
		return
	}
	network, err := os.Open(fmt.Sprintf("%s/%d/ns/net", procPath, w.pid))
	if err != nil {
		return
	}
	ipc, err := os.Open(fmt.Sprintf("%s/%d/ns/ipc", procPath, w.pid))
	if err != nil {
		network.Close()
		return
	}
	w.kept = &namespaces{network, ipc}
}

// touched is called before anything happens in them. Who has a socket makes more: from
// now on the kernel wakes us where the program has just stopped, which halves
// what each costs it.
func (w *waiting) touched() {
	if w.untouched {
		const here = unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, w.listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, here) // since Linux 6.6
	}
	w.untouched = false
}

// leaveNamespaces gives them back, if the sandbox has ended, with all of its
// processes, and none of them has used any.
func (w *waiting) leaveNamespaces(ended bool) {
	switch {
	case w.kept == nil:
	case ended && w.untouched:
		w.executor.namespaces.give(w.kept)
	default:
		w.kept.close()
	}
	w.kept = nil
}

// enterNamespaces enters those that are kept, or makes new ones and brings up the
// loopback device.
func (s *sandbox) enterNamespaces() []step {
	if s.kept == nil {
		return append([]step{call("new network and IPC namespaces", unix.SYS_UNSHARE, unix.CLONE_NEWNET|unix.CLONE_NEWIPC)}, s.loopback()...)
	}
	return []step{
		call("enter the network namespace", unix.SYS_SETNS, s.kept.network, unix.CLONE_NEWNET),
		call("enter the IPC namespace", unix.SYS_SETNS, s.kept.ipc, unix.CLONE_NEWIPC),
	}
}

// keeps reports whether the namespaces of a tier serve again.
func (h *host) keeps(t tier) bool { return t.offline && h.told != nil }

// filterFor is the filter of what a tier's zygote forks.
func (h *host) filterFor(t tier) *unix.SockFprog {
	if h.keeps(t) {
		return h.told
	}
	return h.filter
}

// toldRules are those of calls that make what a namespace remembers: what they allow
// the executor hears of first.
var toldRules = []argumentRule{
	{unix.SYS_SOCKET, func() []bpf.Instruction { return told(socketRule()) }},
	{unix.SYS_SOCKETPAIR, func() []bpf.Instruction { return told(socketPairRule()) }},
	{unix.SYS_SEMGET, func() []bpf.Instruction { return told([]bpf.Instruction{allow}) }},
	{unix.SYS_SHMGET, func() []bpf.Instruction { return told(hugeSegments()) }},
	{unix.SYS_MQ_OPEN, func() []bpf.Instruction { return told([]bpf.Instruction{allow}) }},
}

// isTold reports whether a notice is of such a call.
func isTold(nr int32) bool {
	return slices.ContainsFunc(toldRules, func(r argumentRule) bool { return r.nr == uint32(nr) })
}

// told turns what a rule allows into a notice to the executor.
func told(rule []bpf.Instruction) []bpf.Instruction {
	for i := range rule {
		if rule[i] == allow {
			rule[i] = bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}
		}
	}
	return rule
}
