package linux

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// A sandbox begins as a copy of the executor. Between that copy and the
// program's first instruction nothing may allocate, lock or grow a stack,
// because only one of the executor's threads was copied. So everything the
// child does is prepared beforehand as a list of system calls, and the child
// only walks the list: no Go runtime, no helper binary, no parsing.
//
// The copy holds nothing of any tenant: the executor never reads file
// contents, code or output; those pass through it as open files.

// step is one system call of a child.
type step struct {
	name string // for the error, if it fails
	nr   uintptr
	args [6]uintptr
	// result, if set, receives what the call returned, and from, if set, gives
	// the first argument: how one step hands an open file to another.
	result, from *int32
	// orNext says that the next step is made in its place if what it names is not there.
	orNext bool
	// filled says where in what an argument points to an earlier result lies:
	// its step has put it there by itself.
	filled filled
	// given are the arguments as they were, for a process that makes the call
	// elsewhere; they also keep alive what args point to.
	given []any
	keep  []any
}

// filled is a place in the memory behind an argument.
type filled struct {
	argument, offset int
	with             *int32 // nil: nothing is filled in
}

// script is what the processes of one sandbox do.
type script struct {
	flags  uintptr // namespaces of pid 1
	group  int     // folder of the control group (version 2) that pid 1 is born in; -1: the executor's
	setup  []step  // pid 1: builds and enters the sandbox
	init   []step  // pid 1, after it forked pid 2: drops the rest
	main   []step  // pid 2: becomes the program; the last step is execve
	beside []step  // pid 3: the same for another process, if there is to be one
	report int     // pipe to the executor, close-on-exec
	alone  bool    // there is one process, which does setup and then main: the sandbox is there

	wait     []step // pid 2 of a zygote, in place of execve: waits for a program
	received *int32 // result of one of them

	pidfd *int32 // where the kernel puts it; here, so that it never moves
}

// report is what a child writes to the executor. Its size is far below
// PIPE_BUF, so that each arrives whole.
type report struct {
	kind  uint32
	index int32 // of the failed step
	value int32 // errno, or the wait status
}

const reportSize = int(unsafe.Sizeof(report{}))

const (
	reportStarted     = 1 + iota // pid 2 exists
	reportSetupError             // a step of setup failed
	reportInitError              // a step of init failed
	reportMainError              // a step of main failed
	reportExit                   // pid 2 ended; value is its wait status
	reportOwnError               // what a zygote's child begins with failed
	reportWaitError              // a step of wait failed
	reportBesideError            // a step of beside failed
)

// stepError says which step of a child failed. The last one executes the
// program: if it fails, nothing is wrong with the sandbox.
func (s *script) stepError(r report) error {
	if r.kind == reportMainError && int(r.index) == len(s.main)-1 {
		return &failure{
			Kind: string(engine.ErrNoLanguage),
			Text: fmt.Sprintf("cannot %s on this host: %v", s.main[r.index].name, syscall.Errno(r.value)),
			Hint: "install it there with `airlock setup`; `airlock doctor` tells what is missing",
		}
	}
	steps := map[uint32][]step{reportSetupError: s.setup, reportInitError: s.init, reportMainError: s.main,
		reportWaitError: s.wait, reportBesideError: s.beside}[r.kind]
	name := "unknown step"
	if int(r.index) < len(steps) && r.index >= 0 {
		name = steps[r.index].name
	}
	return fmt.Errorf("%s: %w", name, syscall.Errno(r.value))
}

// start makes pid 1 of a new sandbox. It returns its pid in the executor's
// namespace and a pidfd.
func (s *script) start() (pid, pidfd int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// No signal may reach the child while it still has Go's handlers, and none
	// may preempt this thread in the middle.
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return 0, 0, err
	}
	s.pidfd = new(int32)
	args := &cloneArgs{
		flags: uint64(s.flags | unix.CLONE_PIDFD), pidfd: uint64(uintptr(unsafe.Pointer(s.pidfd))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if s.group >= 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(s.group)
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
func (s *script) clone(args *cloneArgs) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	walk(s.setup, s.report, reportSetupError)
	if s.alone {
		walk(s.main, s.report, reportMainError)
		exit(1)
	}
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		tell(s.report, report{reportSetupError, int32(len(s.setup)), int32(errno)})
		exit(1)
	}
	if pid == 0 {
		walk(s.main, s.report, reportMainError)
		exit(1)
	}
	if len(s.beside) > 0 {
		other, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && other == 0 {
			walk(s.beside, s.report, reportBesideError)
			exit(1)
		}
	}
	tell(s.report, report{kind: reportStarted})
	walk(s.init, s.report, reportInitError)
	reap(pid, s.report)
	return 0, 0
}

// walk makes the system calls of a list; the first that fails ends the
// process, and with pid 1 the sandbox.
//
//go:norace
//go:noinline
//go:nosplit
func walk(steps []step, fd int, kind uint32) {
	for i := range steps {
		s := &steps[i]
		first := s.args[0]
		if s.from != nil {
			first = uintptr(*s.from)
		}
		r, _, errno := syscall.RawSyscall6(s.nr, first, s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		if errno != 0 && s.orNext && (errno == unix.ENOENT || errno == unix.EACCES || errno == unix.ENOTDIR) {
			continue
		}
		if errno != 0 {
			tell(fd, report{kind, int32(i), int32(errno)})
			exit(1)
		}
		if s.result != nil {
			*s.result = int32(r)
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
			tell(fd, report{reportExit, 0, status})
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
func tell(fd int, r report) {
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

// call makes a step. Arguments are integers, strings, or pointers to what the
// call reads; the step keeps alive what it points to.
func call(name string, nr uintptr, args ...any) step {
	s := step{name: name, nr: nr, given: args}
	var keep []any
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			s.args[i] = uintptr(arg)
		case uintptr:
			s.args[i] = arg
		case bufferOffset: // a zygote knows where that is
		case *os.File:
			s.args[i] = arg.Fd()
		case string:
			p := cstring(arg)
			s.args[i] = uintptr(unsafe.Pointer(p))
			keep = append(keep, p)
		case *unix.Rlimit:
			s.args[i] = uintptr(unsafe.Pointer(arg))
			keep = append(keep, arg)
		case *unix.SockFprog:
			s.args[i] = uintptr(unsafe.Pointer(arg))
			keep = append(keep, arg)
		case []*byte:
			s.args[i] = uintptr(unsafe.Pointer(unsafe.SliceData(arg)))
			keep = append(keep, arg)
		case []byte:
			s.args[i] = uintptr(unsafe.Pointer(unsafe.SliceData(arg)))
			keep = append(keep, arg)
		default:
			panic(fmt.Sprintf("%s: argument %d is a %T", name, i, arg))
		}
	}
	s.keep = keep
	return s
}

// cstring returns s with a NUL behind it. Callers have refused a NUL inside.
func cstring(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// cstrings returns a NULL-terminated array for execve.
func cstrings(list []string) []*byte {
	array := make([]*byte, 0, len(list)+1)
	for _, s := range list {
		array = append(array, cstring(s))
	}
	return append(array, nil)
}
