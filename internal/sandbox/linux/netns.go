package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A network namespace takes longer to make, and to take apart, than most other
// things of a sandbox, and hardly a program looks at it. One in which nothing
// has ever happened is as good as new: the executor keeps it for a later
// sandbox.
//
// What makes it certain that nothing has happened is that no process in it has
// ever had a socket of it. All that a namespace remembers is changed through a
// socket, through /proc/sys, which is read-only, or by who has capabilities over
// it. So the filter hands over the two calls that make sockets to the executor,
// which notes it before it lets the call go on. To look at counters afterwards
// would be dearer, and would miss what only shows later: who joins a multicast
// group and leaves it makes the kernel send packets seconds after the socket is
// gone.
//
// A program pays for each socket with a moment in which it waits for the
// executor, and in which a signal can interrupt the call. Where programs are
// likely to have sockets all stays as it was: a namespace for each, and no
// notices (tier.offline).

// networks are namespaces in which nothing has happened.
type networks struct {
	mu     sync.Mutex
	spare  []*os.File
	closed bool
}

// mostNetworks are kept beside those of sandboxes that wait, for bursts: each
// takes some 0.1 MiB of the kernel's memory.
const mostNetworks = mostWaiting

// take returns a namespace that is nobody else's; nil if none is spare.
func (n *networks) take() *os.File {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.spare) == 0 {
		return nil
	}
	f := n.spare[0]
	n.spare = slices.Delete(n.spare, 0, 1)
	return f
}

// give takes a namespace back, in which there is no process any more and nothing
// has happened.
func (n *networks) give(f *os.File) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.spare) >= mostNetworks {
		f.Close()
		return
	}
	n.spare = append(n.spare, f)
}

func (n *networks) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	closeAll(n.spare)
	n.spare = nil
}

// keepNetwork opens the namespace that a sandbox has made for itself, before
// there is a program in it. Without its file it is gone with the sandbox.
func (w *waiting) keepNetwork(t tier) {
	if w.listener == nil || !w.executor.host.keeps(t) {
		return // nobody would hear of what happens in it
	}
	w.untouched = true
	if w.network != nil {
		return
	}
	if f, err := os.Open(fmt.Sprintf("%s/%d/ns/net", procPath, w.pid)); err == nil {
		w.network = f
	}
}

// touched is called before the sandbox gets a socket. Who has one makes more: from
// now on the kernel wakes us where the program has just stopped, which halves
// what each costs it.
func (w *waiting) touched() {
	if w.untouched {
		const here = unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, w.listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, here) // since Linux 6.6
	}
	w.untouched = false
}

// leaveNetwork gives the namespace back, if the sandbox has ended, with all of
// its processes, and none of them has used it.
func (w *waiting) leaveNetwork(ended bool) {
	switch {
	case w.network == nil:
	case ended && w.untouched:
		w.executor.networks.give(w.network)
	default:
		w.network.Close()
	}
	w.network = nil
}

// enterNetwork enters a namespace that is kept, or makes one and brings up the
// loopback device.
func (s *sandbox) enterNetwork() []step {
	if s.network == nil {
		return append([]step{call("new network namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNET)}, bringUpLoopback()...)
	}
	return []step{call("enter the network namespace", unix.SYS_SETNS, s.network, unix.CLONE_NEWNET)}
}

// keeps reports whether the network namespaces of a tier serve again.
func (h *host) keeps(t tier) bool { return t.offline && h.told != nil }

// filterFor is the filter of what a tier's zygote forks.
func (h *host) filterFor(t tier) *unix.SockFprog {
	if h.keeps(t) {
		return h.told
	}
	return h.filter
}

// toldRules are those of calls that make sockets: what they allow the executor
// hears of first.
var toldRules = []argumentRule{
	{unix.SYS_SOCKET, func() []bpf.Instruction { return told(socketRule()) }},
	{unix.SYS_SOCKETPAIR, func() []bpf.Instruction { return told(socketPairRule()) }},
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
