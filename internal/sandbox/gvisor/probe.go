package gvisor

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// probeSystrap returns a failure if something forbids what gVisor's platform systrap consists of: to trace the
// processes that stand for the program's, and to seal their memory. gVisor itself ends without a word then. The calls
// change nothing: no process is traced, and the sealed range is empty.
func probeSystrap() error {
	var refused []string
	for _, call := range []struct {
		name    string
		number  uintptr
		request uintptr
		allowed []unix.Errno
	}{
		{"ptrace", unix.SYS_PTRACE, unix.PTRACE_CONT, []unix.Errno{unix.ESRCH}},
		{"mseal", unix.SYS_MSEAL, 0, []unix.Errno{0, unix.ENOSYS}}, // before Linux 6.10 there is none
	} {
		_, _, errno := unix.RawSyscall(call.number, call.request, 0, 0)
		if !slices.Contains(call.allowed, errno) {
			refused = append(refused, fmt.Sprintf("%s (%v)", call.name, errno))
		}
	}
	if len(refused) > 0 {
		return missing("its platform systrap makes system calls that are refused here: "+strings.Join(refused, ", "),
			"allow them in the seccomp profile of the container or unit: deploy/seccomp.json does")
	}
	if strings.TrimSpace(kernelfile.Read(image.ProcPath+"/sys/kernel/yama", "ptrace_scope")) == "3" {
		return missing("kernel.yama.ptrace_scope is 3, so that no process traces another until the next boot",
			"set it to less where it is set at boot")
	}
	return nil
}

// needed are the capabilities without which no sandbox starts, of those that executors keep.
var needed = []struct {
	number int
	name   string
}{
	{unix.CAP_CHOWN, "CHOWN"}, {unix.CAP_DAC_OVERRIDE, "DAC_OVERRIDE"}, {unix.CAP_SETUID, "SETUID"},
	{unix.CAP_SETGID, "SETGID"}, {unix.CAP_SYS_ADMIN, "SYS_ADMIN"},
}

// probeCapabilities returns a failure if this process lacks one.
func probeCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	var lacks []string
	for _, c := range needed {
		if have[c.number/32].Effective&(1<<(c.number%32)) == 0 {
			lacks = append(lacks, c.name)
		}
	}
	if len(lacks) > 0 {
		return missing("root lacks the capabilities "+strings.Join(lacks, ", ")+" here",
			"leave them to the container or unit (--cap-add, CapabilityBoundingSet=)")
	}
	return nil
}
