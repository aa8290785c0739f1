package linux

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// hideOpenat2 is the variable with which the test below starts its own process.
const hideOpenat2 = "AIRLOCK_TEST_HIDE_OPENAT2"

// Under systemd's RestrictSUIDSGID= openat2 does not exist: inputs and outputs still
// work.
func TestHiddenOpenat2(t *testing.T) {
	if os.Getenv(hideOpenat2) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestHiddenOpenat2$", "-test.v")
		command.Env = append(os.Environ(), hideOpenat2+"=1")
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	hide(t, unix.SYS_OPENAT2)
	if _, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{}); !errors.Is(err, unix.ENOSYS) {
		t.Fatalf("openat2 is there: %v", err)
	}
	for path, s := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarm(t)} {
		r := sandboxtest.Run(t, s, sandboxtest.Python(
			"import os\nos.makedirs('x/y')\nopen('x/y/z', 'w').write('1')\nos.symlink('/etc/passwd', 'link')"))
		if _, ok := r.Files["x/y/z"]; !ok || r.Code() != 0 || len(r.Files) != 1 {
			t.Errorf("%s: exit code %d, stderr %q, files %v", path, r.Code(), r.Stderr, r.Files)
		}
	}
}

// hide makes a system call return ENOSYS in this process and its children.
func hide(t *testing.T, nr uint32) {
	t.Helper()
	raw, err := bpf.Assemble([]bpf.Instruction{bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, noSyscal, allow})
	if err != nil {
		t.Fatal(err)
	}
	var program []unix.SockFilter
	for _, in := range raw {
		program = append(program, unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K})
	}
	filter := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil && os.Geteuid() != 0 {
		t.Fatal(err)
	}
	// It applies to all threads, one of which starts the executor.
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(filter))); errno != 0 {
		t.Fatal(errno)
	}
}
