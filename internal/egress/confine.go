package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// confined is the argument of the process after it has left the host's files and user.
const confined = "confined"

// bundles are the files with the root certificates: Debian, Fedora, Alpine, SUSE.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
}

// keptFiles are the host's files that the resolver reads. The process has copies; the next
// process sees later changes.
var keptFiles = []string{"/etc/resolv.conf", "/etc/hosts"}

// confine leaves the host's file system, drops the user and all privileges, and executes
// this program again. It returns only with an error.
func confine() error {
	runtime.LockOSThread()
	self, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := leaveFiles(); err != nil {
		return err
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	argv := []*byte{cstring("airlock"), cstring(Name), cstring(confined), nil}
	envp := []*byte{cstring("GOMAXPROCS=" + strconv.Itoa(max(2, runtime.GOMAXPROCS(0)))), cstring("GOGC=50"), nil}
	empty := cstring("")
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(self), uintptr(unsafe.Pointer(empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0])), unix.AT_EMPTY_PATH, 0)
	return fmt.Errorf("execute this program again: %w", errno)
}

func cstring(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// leaveFiles moves to a file system that has only keptFiles and the certificates.
func leaveFiles() error {
	kept := map[string][]byte{"/etc/nsswitch.conf": []byte("hosts: files dns\n")}
	for _, name := range keptFiles {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		kept[name] = b
	}
	for _, name := range slices.Backward(bundles) {
		if b, err := os.ReadFile(name); err == nil {
			kept[bundles[0]] = b
		}
	}
	const scratch = "/tmp"
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("airlock", scratch, "tmpfs", flags, "size=2m,mode=755"); err != nil {
		return fmt.Errorf("mount scratch: %w", err)
	}
	for name, content := range kept {
		if err := os.MkdirAll(path.Join(scratch, path.Dir(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path.Join(scratch, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chdir(scratch); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return os.Chdir("/")
}

// dropPrivileges drops all capabilities, and root. It applies to this thread, which then
// executes the program.
func dropPrivileges() error {
	_ = unix.Sethostname([]byte("airlock"))
	for c := range unix.CAP_LAST_CAP + 1 {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		for _, call := range []struct {
			nr   uintptr
			args [3]uintptr
		}{
			{unix.SYS_SETGROUPS, [3]uintptr{}},
			{unix.SYS_SETRESGID, [3]uintptr{user, user, user}},
			{unix.SYS_SETRESUID, [3]uintptr{user, user, user}},
		} {
			if _, _, errno := unix.RawSyscall(call.nr, call.args[0], call.args[1], call.args[2]); errno != 0 {
				return fmt.Errorf("become a user without rights: %w", errno)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// seal reads the certificates and then allows only the system calls that the process
// needs. It fails if the process is root.
func seal() (*x509.CertPool, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("the process is root")
	}
	bundle, _ := os.ReadFile(bundles[0])
	roots := x509.NewCertPool() // of servers
	roots.AppendCertsFromPEM(bundle)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, err
	}
	return roots, installFilter()
}

// allowedCalls are the system calls of Go's runtime and network, the most frequent first.
var allowedCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EPOLL_PWAIT, unix.SYS_FUTEX, unix.SYS_CLOSE, unix.SYS_ACCEPT4,
	unix.SYS_CONNECT, unix.SYS_NANOSLEEP, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT, unix.SYS_GETSOCKNAME,
	unix.SYS_GETPEERNAME, unix.SYS_SHUTDOWN, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_CREATE1, unix.SYS_EVENTFD2,
	unix.SYS_PIPE2, unix.SYS_RECVMSG,
	unix.SYS_SENDMSG, unix.SYS_RECVFROM, unix.SYS_SENDTO, unix.SYS_WRITEV, unix.SYS_READV, unix.SYS_BIND, unix.SYS_FCNTL,
	unix.SYS_SCHED_YIELD, unix.SYS_GETRANDOM, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MINCORE,
	unix.SYS_PRCTL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_TGKILL, unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EXIT,
	unix.SYS_EXIT_GROUP, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME,
	unix.SYS_TIMER_DELETE, unix.SYS_RESTART_SYSCALL, unix.SYS_UNAME, unix.SYS_GETRLIMIT, unix.SYS_PRLIMIT64,
	unix.SYS_OPENAT, unix.SYS_NEWFSTATAT, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_PREAD64, unix.SYS_DUP3,
}

// installFilter allows allowedCalls, threads and internet sockets, and refuses everything
// else, on all threads.
func installFilter() error {
	const offsetNumber, offsetArch, offsetFirst = 0, 4, 16
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: hostArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}
	for _, nr := range append(allowedCalls, archCalls...) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, allow)
	}
	const threads = unix.CLONE_VM | unix.CLONE_THREAD
	program = append(program,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_SOCKET, SkipTrue: 4},
		bpf.LoadAbsolute{Off: offsetFirst, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_INET6, SkipTrue: 1},
		allow,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: offsetFirst, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: threads},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: threads, SkipTrue: 1},
		allow,
		refuse)
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("install the system-call filter: %w", errno)
	}
	return nil
}
