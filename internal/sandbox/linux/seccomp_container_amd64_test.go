package linux

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var updateProfile = flag.Bool("update-seccomp", false, "write deploy/seccomp.json anew")

// containerProfile is the seccomp profile of a container that runs Airlock.
const containerProfile = "../../../deploy/seccomp.json"

// supervisor are the calls of the service and of the executor that no program may
// make: namespaces, mounts, identities, and the filters themselves. None of them
// reaches beyond what the container's capabilities and namespaces allow.
var supervisor = []uint32{
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CLONE3, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_SETHOSTNAME,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_CAPSET, unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_SECCOMP,
	unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PROCESS_VM_READV,
	unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER,
	unix.SYS_IOPRIO_SET, unix.SYS_IOPRIO_GET, unix.SYS_PROCESS_MADVISE, unix.SYS_SPLICE,
}

// ownKernel are the calls of a program's own kernel, that of the wall gvisor, for its platform systrap.
var ownKernel = []uint32{unix.SYS_PTRACE, unix.SYS_MSEAL}

// neverOpen are in the programs' list only to fail with a specific error.
var neverOpen = []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_PTRACE}

// TestContainerProfile compares deploy/seccomp.json with the list of system calls
// that programs are held to, the supervisor's, and those of the wall gvisor.
func TestContainerProfile(t *testing.T) {
	want := profile(t)
	if *updateProfile {
		if err := os.WriteFile(containerProfile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(containerProfile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the lists make: go test ./internal/sandbox/linux -run TestContainerProfile -update-seccomp",
			filepath.Base(containerProfile))
	}
}

func profile(t *testing.T) []byte {
	numbers := slices.Concat(supervisor, ownKernel, hostAllowed())
	for _, rule := range hostRules() {
		if !slices.Contains(neverOpen, rule.nr) {
			numbers = append(numbers, rule.nr)
		}
	}
	known := callNames(t)
	var names []string
	for _, nr := range numbers {
		name, ok := known[nr]
		if !ok {
			t.Fatalf("system call %d has no name", nr)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	type rule struct {
		Names  []string `json:"names"`
		Action string   `json:"action"`
	}
	text, err := json.MarshalIndent(struct {
		Default string   `json:"defaultAction"`
		Errno   uint     `json:"defaultErrnoRet"`
		Arches  []string `json:"architectures"`
		Calls   []rule   `json:"syscalls"`
	}{
		Default: "SCMP_ACT_ERRNO", Errno: uint(unix.ENOSYS),
		Arches: []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"},
		Calls:  []rule{{slices.Compact(names), "SCMP_ACT_ALLOW"}},
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestUnitCalls compares the filter of the unit with the container's profile: a call
// missing in one would end programs only there. systemd resolves its groups.
func TestUnitCalls(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit, err := os.ReadFile("../../../deploy/airlock.service")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	var set func(name string, value bool)
	set = func(name string, value bool) {
		if !strings.HasPrefix(name, "@") {
			open[name] = value
			return
		}
		list, err := exec.Command("systemd-analyze", "syscall-filter", name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.Lines(string(list)) {
			member := strings.TrimSpace(line)
			if strings.HasPrefix(line, " ") && member != "" && !strings.HasPrefix(member, "#") {
				set(member, value)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllStringSubmatch(string(unit), -1) {
		for _, name := range strings.Fields(m[2]) {
			set(name, m[1] == "")
		}
	}
	var known struct{ Syscalls []struct{ Names []string } }
	if err := json.Unmarshal(profile(t), &known); err != nil {
		t.Fatal(err)
	}
	// Debian's libc does without the first two. The third was removed from kernels. The unit is not root's, and the
	// last are of a wall that needs root: docs/packages.md says what to add.
	ignored := []string{"futex_wait", "futex_wake", "nfsservctl", "ptrace", "mseal"}
	for _, name := range known.Syscalls[0].Names {
		if !open[name] && !slices.Contains(ignored, name) {
			t.Errorf("the unit refuses %s", name)
		}
	}
}

// callNames reads the names of system calls from the package that has their numbers.
func callNames(t *testing.T) map[uint32]string {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_amd64.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint32]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllStringSubmatch(string(source), -1) {
		nr, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		names[uint32(nr)] = strings.ToLower(m[1])
	}
	return names
}
