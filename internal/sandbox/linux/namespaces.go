package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/trick"
)

// Namespaces for the network and for inter-process communication take longer to create
// and delete than most other parts of a sandbox, and few programs use them. A pair is
// pooled for a later sandbox if it is pristine: it has never been used.
//
// A pair is pristine if no process in it has ever had a socket, a semaphore, shared
// memory or a message queue of it. All state of such a namespace is changed through one
// of these, through /proc/sys, which is read-only, or through capabilities over it. So
// the filter hands over the calls that create them to the executor, which marks the
// pair before it continues the call. Checking counters afterwards would cost more, and
// would miss late effects: after a process joins and leaves a multicast group, the
// kernel sends packets seconds after the socket is closed.
//
// For each of those calls a program waits a moment for the executor, and a signal can
// interrupt the call in that time. Tiers whose programs are likely to have sockets do
// not reuse namespaces: each sandbox has new ones, and no notifications
// (tier.rarelyConnects).

// namespaces are the reusable namespaces of one sandbox.
type namespaces struct{ network, ipc *os.File }

func (n *namespaces) close() { executor.CloseAll(n.network, n.ipc) }

// namespacePool holds pristine pairs.
type namespacePool struct {
	mu     sync.Mutex
	list   []*namespaces
	closed bool
}

// mostNamespaces bounds the pairs pooled for bursts, beside those of waiting sandboxes.
// Each takes about 0.1 MiB of kernel memory.
const mostNamespaces = executor.MostWaiting

// get returns a pair; nil if the pool is empty.
func (s *namespacePool) get() *namespaces {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	n := s.list[0]
	s.list = slices.Delete(s.list, 0, 1)
	return n
}

// put adds a pristine pair that has no process left, or closes it.
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

// openNamespaces opens the namespaces that a sandbox created for itself, before its
// program starts. Without open files they are deleted with the sandbox.
func (w *cell) openNamespaces(t executor.Tier) {
	if w.listener == nil || !w.wall.reusesNamespaces(t) {
		return // their use would not be reported
	}
	w.pristine.Store(true)
	if w.kept != nil {
		return
	}
	network, err := os.Open(fmt.Sprintf("%s/%d/ns/net", image.ProcPath, w.pid))
	if err != nil {
		return
	}
	ipc, err := os.Open(fmt.Sprintf("%s/%d/ns/ipc", image.ProcPath, w.pid))
	if err != nil {
		network.Close()
		return
	}
	w.kept = &namespaces{network, ipc}
}

// markDirty is called before the first use of the namespaces. A program with one socket
// creates more. From now on the kernel wakes the executor on the processor where the
// program has just stopped, which halves the cost of each call.
func (w *cell) markDirty() {
	if w.pristine.Load() {
		const here = unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, w.listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, here) // since Linux 6.6
	}
	w.pristine.Store(false)
}

// takeNamespaces takes a pooled pair. If there is none, the sandbox makes its own, but for one of
// an image, whose zygote cannot bring up the loopback device.
func (w *cell) takeNamespaces(t executor.Tier) (err error) {
	if w.wall.reusesNamespaces(t) {
		w.kept = w.pool().get()
	}
	if w.kept == nil && w.zygote != nil {
		w.kept, err = w.zygote.users.newNamespaces(w.loopback())
	}
	return err
}

// pool returns the pool of the sandbox's namespaces.
func (w *cell) pool() *namespacePool {
	if w.zygote != nil {
		return &w.zygote.users.namespaces
	}
	return &w.wall.namespaces
}

// recycleNamespaces pools the namespaces if the sandbox has ended, with all of its
// processes, and they are still pristine. Otherwise it closes them.
func (w *cell) recycleNamespaces(ended bool) {
	switch {
	case w.kept == nil:
	case ended && w.pristine.Load():
		w.pool().put(w.kept)
	default:
		w.kept.close()
	}
	w.kept = nil
}

// enterNamespaces enters the pooled namespaces, or creates new ones and brings up the
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
func (l *wall) reusesNamespaces(t executor.Tier) bool {
	return trick.On(trick.Namespaces) && t.RarelyConnects && l.notifyFilter != nil
}

// filterFor returns the filter of the sandboxes that a tier's zygote forks.
func (l *wall) filterFor(t executor.Tier) *unix.SockFprog {
	if l.reusesNamespaces(t) {
		return l.notifyFilter
	}
	return l.filter
}

// notifyRules are the rules of calls that create state in a namespace. The executor is
// notified of every allowed call first.
var notifyRules = []argumentRule{
	{unix.SYS_SOCKET, notify(socketRule())},
	{unix.SYS_SOCKETPAIR, notify(socketPairRule())},
	{unix.SYS_SEMGET, unconditional(notifyExecutor)},
	{unix.SYS_SHMGET, notify(hugeSegments())},
	{unix.SYS_MQ_OPEN, unconditional(notifyExecutor)},
}

// notifies reports whether nr is a call with such a rule.
func notifies(nr int32) bool {
	return slices.ContainsFunc(notifyRules, func(r argumentRule) bool { return r.nr == uint32(nr) })
}

// notify turns each allow of a rule into a notification to the executor.
func notify(rule []bpf.Instruction) []bpf.Instruction {
	for i := range rule {
		if rule[i] == allow {
			rule[i] = notifyExecutor
		}
	}
	return rule
}
