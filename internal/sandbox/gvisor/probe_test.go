package gvisor

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter of system calls that forbids what systrap needs is named, with the calls.
func TestProbeSystrap(t *testing.T) {
	for _, test := range []struct {
		name   string
		denied uint32
		errno  unix.Errno
		want   string
	}{
		{"all", 0, 0, ""},
		{"no ptrace", unix.SYS_PTRACE, unix.ENOSYS, "ptrace (function not implemented)"},
		{"Docker before Linux 4.8", unix.SYS_PTRACE, unix.EPERM, "ptrace (operation not permitted)"},
		{"no mseal", unix.SYS_MSEAL, unix.EPERM, "mseal (operation not permitted)"},
		{"an older kernel", unix.SYS_MSEAL, unix.ENOSYS, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			probed := make(chan error)
			go func() {
				runtime.LockOSThread() // the filter ends with the thread
				if test.denied != 0 {
					deny(t, test.denied, test.errno)
				}
				probed <- probeSystrap()
			}()
			err := <-probed
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// deny has a system call of this thread fail from now on.
func deny(t *testing.T, number uint32, errno unix.Errno) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Error(err)
	}
	at := uintptr(unsafe.Pointer(&program))
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, at, 0, 0); err != nil {
		t.Error(err)
	}
}
