package linux

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A warm program that has come to its end makes a system call that the filter
// hands over to the executor: it stands still inside that call, the executor
// knows at once, and with which exit code. The program has no open file for
// it, nobody else has to be woken, and it stays where it is until it is
// killed. All that a program can lie about with it is its own exit code.

// finishCall is a number that no kernel of today has a call for.
const finishCall = unix.SYS_NFSSERVCTL

func finishRule() []bpf.Instruction {
	return []bpf.Instruction{bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}}
}

// notice is struct seccomp_notif.
type notice struct {
	id    uint64
	pid   uint32 // of the thread, in the executor's namespace
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// readFinish reads who says that it has finished, and with which exit code;
// false if it thinks otherwise by now. Whoever is not the program is told that
// there is no such call.
func readFinish(listener *os.File, program int) (code int32, ok bool) {
	n, err := readNotice(listener)
	if err != nil {
		return 0, false
	}
	if int(n.pid) == program && n.nr == finishCall {
		return int32(n.args[0] & 0xff), true
	}
	_ = answerNotice(listener, n.id, unix.ENOSYS) // it may be gone
	return 0, false
}

func ioctl(f *os.File, request uint, argument unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(argument))
		switch {
		case errno == 0:
			return nil
		case !errors.Is(errno, unix.EINTR):
			return errno
		}
	}
}
