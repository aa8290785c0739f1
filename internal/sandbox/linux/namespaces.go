package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// The namespaces for the network and for inter-process communication take longer to
// make, and to take apart, than most other things of a sandbox, and hardly a program
// looks at them. A pair that is pristine, in which nothing has ever happened, is pooled
// for a later sandbox.
//
// What makes it certain that nothing has happened is that no process in it has ever
// had a socket, a semaphore, shared memory or a message queue of it. All that such a
// namespace remembers is changed through one of these, through /proc/sys, which is
// read-only, or by who has capabilities over it. So the filter hands over the calls
// that make them to the executor, which notes it before it continues the call. To
// look at counters afterwards would be dearer, and would miss what only shows later:
// who joins a multicast group and leaves it makes the kernel send packets seconds
// after the socket is closed.
//
// A program pays for each of those calls with a moment in which it waits for the
// executor, and in which a signal can interrupt the call. Where programs are likely to
// have sockets all stays as it was: new namespaces for each, and no
// notifications (tier.reuseNamespaces).

// namespaces are those of one sandbox that may be reused.
type namespaces struct{ network, ipc *os.File }

func (n *namespaces) close() { closeAll(n.network, n.ipc) }

// namespacePool holds pristine pairs.
type namespacePool struct {
	mu     sync.Mutex
	list   []*namespaces
	closed bool
}

// mostNamespaces are kept beside those of sandboxes that wait, for bursts: each pair
// takes some 0.1 MiB of the kernel's memory.
const mostNamespaces = mostWaiting

// take returns a pair; nil if the pool is empty.
func (s *namespacePool) take() *namespaces {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	n := s.list[0]
	s.list = slices.Delete(s.list, 0, 1)
	return n
}

// put adds a pristine pair in which there is no process any more, or closes it.
func (s *namespacePool) put(n *namespaces) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.list) >= mostNamespaces {
		n.close()
		return
	}
	s.list = append(s.list, n)
}

func (s *namespacePool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, n := range s.list {
		n.close()
	}
	s.list = nil
}

// openNamespaces opens those that a sandbox has made for itself, before there is a
// program in it. Without open files they are deleted with the sandbox.
func (w *waiting) openNamespaces(t tier) {
	if w.listener == nil || !w.executor.host.reusesNamespaces(t) {
		return // what happens in it would not be reported
	}
	w.pristine = true
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

// markDirty is called before anything happens in them. A program with one socket
// makes more: from now on the kernel wakes the executor on the processor where the
// program has just stopped, which halves the cost of each.
func (w *waiting) markDirty() {
	if w.pristine {
		const here = unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, w.listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, here) // since Linux 6.6
	}
	w.pristine = false
}

// recycleNamespaces pools them if the sandbox has ended, with all of its processes,
// and they are still pristine. Else it closes them.
func (w *waiting) recycleNamespaces(ended bool) {
	switch {
	case w.kept == nil:
	case ended && w.pristine:
		w.executor.namespaces.put(w.kept)
	default:
		w.kept.close()
	}
	w.kept = nil
}

// enterNamespaces enters those that are kept, or makes new ones and brings up the
// loopback device.
func (s *sandbox) enterNamespaces() []spawn.Step {
	if s.kept == nil {
		return append([]spawn.Step{spawn.Call("new network and IPC namespaces", unix.SYS_UNSHARE,
			unix.CLONE_NEWNET|unix.CLONE_NEWIPC)}, s.loopback()...)
	}
	return []spawn.Step{
		spawn.Call("enter the network namespace", unix.SYS_SETNS, s.kept.network, unix.CLONE_NEWNET),
		spawn.Call("enter the IPC namespace", unix.SYS_SETNS, s.kept.ipc, unix.CLONE_NEWIPC),
	}
}

// reusesNamespaces reports whether the namespaces of a tier are reused.
func (h *host) reusesNamespaces(t tier) bool { return t.reuseNamespaces && h.notifyFilter != nil }

// filterFor is the filter of what a tier's zygote forks.
func (h *host) filterFor(t tier) *unix.SockFprog {
	if h.reusesNamespaces(t) {
		return h.notifyFilter
	}
	return h.filter
}

// notifyRules are those of calls that make what a namespace remembers. What they
// allow is reported to the executor first.
var notifyRules = []argumentRule{
	{unix.SYS_SOCKET, notify(socketRule())},
	{unix.SYS_SOCKETPAIR, notify(socketPairRule())},
	{unix.SYS_SEMGET, unconditional(notifyExecutor)},
	{unix.SYS_SHMGET, notify(hugeSegments())},
	{unix.SYS_MQ_OPEN, unconditional(notifyExecutor)},
}

// notifies reports whether a notification is of such a call.
func notifies(nr int32) bool {
	return slices.ContainsFunc(notifyRules, func(r argumentRule) bool { return r.nr == uint32(nr) })
}

// notify turns what a rule allows into a notification to the executor.
func notify(rule []bpf.Instruction) []bpf.Instruction {
	for i := range rule {
		if rule[i] == allow {
			rule[i] = notifyExecutor
		}
	}
	return rule
}
