package linux

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A call that the filter hands over to the executor blocks until the executor responds.
// Meanwhile the executor may install open files in the calling process.

// handoffRule notifies the executor that Node asks for a program. A script can call
// ftruncate, and no file has that number.
func handoffRule() []bpf.Instruction {
	return []bpf.Instruction{
		argument(0), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: language.HandoffFD, SkipTrue: 1},
		notifyExecutor,
		allow,
	}
}

// readNotification waits for the next call.
func readNotification(listener *os.File) (n notification, err error) {
	return n, ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
}

// respond makes a call return 0 or an error. Its process may have exited.
func respond(listener *os.File, id uint64, errno unix.Errno) error {
	return sendResponse(listener, &response{id: id, errno: -int32(errno)})
}

// continueSyscall lets the kernel execute the call.
func continueSyscall(listener *os.File, id uint64) error {
	return sendResponse(listener, &response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

func sendResponse(listener *os.File, a *response) error {
	return ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(a))
}

// installFile opens one of the executor's files in a process that waits in a call. It
// replaces the process's file with that number.
func installFile(listener *os.File, id uint64, f *os.File, number int, open uint32) error {
	request := struct { // struct seccomp_notif_addfd
		id                               uint64
		flags, file, number, descriptors uint32
	}{id, unix.SECCOMP_ADDFD_FLAG_SETFD, uint32(f.Fd()), uint32(number), open}
	defer runtime.KeepAlive(f)
	return ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&request))
}

// sendingFile is a step that sends an open file over a socket to the executor.
type sendingFile struct {
	step spawn.Step
	file *int32 // where an earlier step puts the file
}

// sendFile returns such a step. Only the executor's own children may use it.
func sendFile(name string, socket int) sendingFile {
	body := []byte("{}")
	control := make([]byte, unix.CmsgSpace(4))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	header.Level, header.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	header.SetLen(unix.CmsgLen(4))
	part := &unix.Iovec{Base: &body[0]}
	part.SetLen(len(body))
	message := &unix.Msghdr{Iov: part, Control: &control[0]}
	message.SetIovlen(1)
	message.SetControllen(len(control))
	s := spawn.Call(name, unix.SYS_SENDMSG, socket, message, unix.MSG_NOSIGNAL)
	return sendingFile{s, (*int32)(unsafe.Pointer(&control[unix.CmsgLen(0)]))}
}

// A warm program that has finished makes a system call that the filter hands over to
// the executor. It blocks in that call, and the executor immediately learns its exit
// code. The program needs no open file for it, no other process is woken, and it stays
// blocked until it is killed. The only thing that a program can forge with the call is
// its own exit code.

// finishCall is a number that current kernels do not implement.
const finishCall = unix.SYS_NFSSERVCTL

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32 // of the thread, in the executor's namespace
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

func ioctl(f *os.File, request uint, argument unsafe.Pointer) error {
	defer runtime.KeepAlive(f)
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
