package executor

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// NeededCapabilities are the capabilities for creating and ending sandboxes. The rest are dropped
// before the first request, including those for modules, raw devices, raw sockets,
// clocks, device nodes and BPF.
var NeededCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, // workspaces, whatever their modes
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, // to drop privilege in a child
	unix.CAP_SYS_ADMIN,                 // namespaces and mounts
	unix.CAP_SYS_CHROOT,                // to enter a mount namespace
	unix.CAP_NET_ADMIN,                 // loopback of a new network namespace
	unix.CAP_KILL, unix.CAP_SYS_PTRACE, // to end sandboxes and to measure their memory
	unix.CAP_SYS_RESOURCE, // limits, which may exceed the executor's own
}

// confined marks an executor that has dropped the other capabilities.
const confined = "confined"

// setLoginUID sets the login user of the kernel's audit if none is set. It can be set
// only once, and a program could set it to any user: the host's records would then
// attribute the program's actions to root.
func setLoginUID() {
	uid := firstUID
	if inUserNamespace() {
		uid = userUIDs.First
	}
	// It fails if the login user is set already, or if this kernel has none.
	_ = os.WriteFile("/proc/thread-self/loginuid", []byte(strconv.Itoa(uid)), 0)
}

// reexecute drops all capabilities except needed and executes this program again, so
// that all of its threads lose them at once.
func reexecute(args []string) error {
	runtime.LockOSThread()
	setLoginUID()
	setSlice(ShortSlice)
	var kept uint64
	for _, c := range NeededCapabilities {
		kept |= 1 << c
	}
	for c := 0; c <= LastCapability(); c++ {
		if kept&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range data {
		set := uint32(kept >> (32 * i))
		// Ambient capabilities must be inheritable: the executor of an ordinary user
		// gets its capabilities that way.
		have := data[i]
		data[i] = unix.CapUserData{Effective: have.Permitted & set, Permitted: have.Permitted & set,
			Inheritable: have.Inheritable & set}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return syscall.Exec("/proc/self/exe", append([]string{"airlock", "executor"}, append(args, confined)...), os.Environ())
}

// LastCapability returns the number of the kernel's last capability.
func LastCapability() int {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			return n
		}
	}
	return unix.CAP_LAST_CAP
}

// ShortSlice is the shortest slice that the kernel accepts.
const ShortSlice = 100 * time.Microsecond

// setSlice requests a slice for the calling thread and its children; 0 is the
// default. Older kernels ignore the request.
func setSlice(slice time.Duration) {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil {
		attr.Runtime = uint64(slice)
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}
