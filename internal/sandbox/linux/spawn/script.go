// Package spawn creates the first processes of sandboxes from a list of system calls.
//
// A Script describes the work of these processes, and a Step is one call. The caller
// chooses the calls and their purpose. A list is executed either by a copy of this
// process (Start), or by a copy of a zygote. A Request carries it to the zygote in a
// form for machine code (request.go, spawn_amd64.s). The executing process reports
// failures and its end in a Report. The rest of the machine code waits in a sandbox:
// its init, and a process that executes a received command (command.go).
package spawn

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sandbox begins as a copy of the executor. Between the copy and the program's first
// instruction no code may allocate, lock or grow a stack, because only one of the
// executor's threads was copied. So all steps of the child are prepared beforehand as a
// list of system calls, and the child only executes the list: no Go runtime, no helper
// binary, no parsing.
//
// The copy holds no tenant data: the executor never reads file contents, code or
// output. They pass through it as open files.

// A Step is one system call of a child. Call creates one.
type Step struct {
	Name string // for the error, if it fails
	Nr   uintptr
	args [6]uintptr
	// Result, if set, receives the call's return value. From, if set, gives the first
	// argument: one step passes an open file to another this way.
	Result, From *int32
	// OrNext is set if the next step replaces this one when its file does not exist.
	OrNext bool
	// Filled is the place in an argument's memory that holds an earlier result: that
	// result's step stores it there.
	Filled Filled
	// Given are the original arguments, for a process that makes the call elsewhere.
	// They also keep the targets of args alive.
	Given []any
	keep  []*byte // NUL-terminated strings
}

// Filled is a place in the memory behind an argument.
type Filled struct {
	Argument, Offset int
	With             *int32 // nil: nothing is filled in
}

// A Script describes the work of a sandbox's processes.
type Script struct {
	Flags  uintptr // namespaces of pid 1
	Group  int     // folder of the control group (version 2) that pid 1 is born in; -1: the executor's
	Setup  []Step  // pid 1: builds and enters the sandbox
	Init   []Step  // pid 1, after it forked pid 2: drops the rest
	Main   []Step  // pid 2: becomes the program; the last step is execve
	Beside []Step  // pid 3: the same for another process, if there is one
	Report int     // pipe to the executor, close-on-exec
	Alone  bool    // one process executes setup and then main: the sandbox already exists

	Wait     []Step // pid 2 of a zygote, in place of execve: waits for a program
	Received *int32 // result of one of them

	pidfd *int32 // the kernel stores it here; a field, so that it never moves
}

// A Report is a message from a child to the executor. It is far smaller than PIPE_BUF,
// so each arrives whole.
type Report struct {
	Kind  uint32 // Started or a later constant
	Index int32  // of the failed step
	Value int32  // errno, or the wait status
}

const reportSize = int(unsafe.Sizeof(Report{}))

// Kinds of a Report. Machine code and buffer.py use the same numbers.
const (
	Started      = 1 + iota // pid 2 exists
	SetupFailed             // a step of setup failed
	InitFailed              // a step of init failed
	MainFailed              // a step of main failed
	Exited                  // pid 2 ended; value is its wait status
	OwnFailed               // a first step of a zygote's child failed
	WaitFailed              // a step of wait failed
	BesideFailed            // a step of beside failed
)

// Failed returns the name of the step that failed according to a report, and whether it
// is the last of main, which executes the program.
func (s *Script) Failed(r Report) (name string, execute bool) {
	steps := map[uint32][]Step{SetupFailed: s.Setup, InitFailed: s.Init, MainFailed: s.Main, WaitFailed: s.Wait,
		BesideFailed: s.Beside}[r.Kind]
	if int(r.Index) >= len(steps) || r.Index < 0 {
		return "unknown step", false
	}
	return steps[r.Index].Name, r.Kind == MainFailed && int(r.Index) == len(steps)-1
}

// ReadReport reads a child's report. It returns false if every holder of the pipe's
// other end has exited.
func ReadReport(f *os.File) (Report, bool) {
	var r Report
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(&r)), reportSize)
	n, err := f.Read(buffer)
	return r, err == nil && n == reportSize
}

// Start creates pid 1 of a new sandbox. It returns the pid in the executor's namespace
// and a pidfd.
func (s *Script) Start() (pid, pidfd int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// No signal may reach the child while it still has Go's handlers, or preempt this
	// thread meanwhile.
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return 0, 0, err
	}
	s.pidfd = new(int32)
	args := &cloneArgs{
		flags: uint64(s.Flags | unix.CLONE_PIDFD), pidfd: uint64(uintptr(unsafe.Pointer(s.pidfd))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if s.Group >= 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(s.Group)
	}
	n, errno := s.clone(args)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); err != nil {
		panic(err) // cannot fail with a mask that was in force before
	}
	if errno != 0 {
		return 0, 0, fmt.Errorf("clone: %w", errno)
	}
	return int(n), int(*s.pidfd), nil
}

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// clone returns in the parent only.
//
//go:norace
//go:noinline
//go:nosplit
func (s *Script) clone(args *cloneArgs) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	walk(s.Setup, s.Report, SetupFailed)
	if s.Alone {
		walk(s.Main, s.Report, MainFailed)
		exit(1)
	}
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		tell(s.Report, Report{SetupFailed, int32(len(s.Setup)), int32(errno)})
		exit(1)
	}
	if pid == 0 {
		walk(s.Main, s.Report, MainFailed)
		exit(1)
	}
	if len(s.Beside) > 0 {
		other, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && other == 0 {
			walk(s.Beside, s.Report, BesideFailed)
			exit(1)
		}
	}
	tell(s.Report, Report{Kind: Started})
	walk(s.Init, s.Report, InitFailed)
	reap(pid, s.Report)
	return 0, 0
}

// walk makes the system calls of a list; the first that fails ends the
// process, and with pid 1 the sandbox.
//
//go:norace
//go:noinline
//go:nosplit
func walk(steps []Step, fd int, kind uint32) {
	for i := range steps {
		s := &steps[i]
		first := s.args[0]
		if s.From != nil {
			first = uintptr(*s.From)
		}
		r, _, errno := syscall.RawSyscall6(s.Nr, first, s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		if errno != 0 && s.OrNext && (errno == unix.ENOENT || errno == unix.EACCES || errno == unix.ENOTDIR) {
			continue
		}
		if errno != 0 {
			tell(fd, Report{kind, int32(i), int32(errno)})
			exit(1)
		}
		if s.Result != nil {
			*s.Result = int32(r)
		}
	}
}

// reap is the life of pid 1: it collects whatever ends, and when the program
// itself has ended it says how and exits. The kernel then kills every other
// process of the namespace.
//
//go:norace
//go:noinline
//go:nosplit
func reap(main uintptr, fd int) {
	var status int32
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), 0, 0, 0, 0)
		if pid == main && errno == 0 {
			tell(fd, Report{Exited, 0, status})
			exit(0)
		}
		if errno != 0 && errno != unix.EINTR {
			exit(1)
		}
	}
}

//go:norace
//go:noinline
//go:nosplit
func tell(fd int, r Report) {
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&r)), unsafe.Sizeof(r))
}

//go:norace
//go:noinline
//go:nosplit
func exit(code uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// Call returns a step. Arguments are integers, strings, or pointers to the call's data.
// The step keeps their targets alive.
func Call(name string, nr uintptr, args ...any) Step {
	s := Step{Name: name, Nr: nr, Given: args}
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			s.args[i] = uintptr(arg)
		case uintptr:
			s.args[i] = arg
		case Offset: // a zygote knows its address
		case *os.File:
			s.args[i] = arg.Fd()
		case string:
			p := cstring(arg)
			s.args[i] = uintptr(unsafe.Pointer(p))
			s.keep = append(s.keep, p)
		default: // a slice, or a pointer to a kernel struct: Given keeps it alive
			s.args[i] = reflect.ValueOf(arg).Pointer()
		}
	}
	return s
}

// cstring returns s with a terminating NUL. Callers have rejected strings that contain NUL.
func cstring(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// Strings returns a NULL-terminated array for execve.
func Strings(list []string) []*byte {
	array := make([]*byte, 0, len(list)+1)
	for _, s := range list {
		array = append(array, cstring(s))
	}
	return append(array, nil)
}
