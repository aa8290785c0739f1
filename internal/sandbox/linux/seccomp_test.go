package linux

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// judge runs the filter on one call, like the kernel.
func judge(t *testing.T, vm *bpf.VM, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	// The VM reads big-endian, as network filters do; the kernel reads
	// seccomp_data in its own order. So each field is written for the VM.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offsetNumber:], nr)
	binary.BigEndian.PutUint32(data[offsetArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offsetArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[offsetArgs+8*i+4:], uint32(a>>32))
	}
	verdict, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(verdict)
}

func hostVM(t *testing.T) *bpf.VM { return vmOf(t, hostRules()) }

func vmOf(t *testing.T, rules []argumentRule) *bpf.VM {
	t.Helper()
	raw, err := filter(hostArch, hostAllowed(), rules)
	if err != nil {
		t.Fatal(err)
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter does not disassemble")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

const errnoOf = unix.SECCOMP_RET_ERRNO

const addressNoRandomize = 0x0040000

// The test tries every number: calls on the list pass, calls with a rule follow it, and
// all others do not exist.
func TestFilterDecidesEveryNumber(t *testing.T) {
	vm := hostVM(t)
	allowed, ruled := hostAllowed(), map[uint32]bool{}
	for _, r := range hostRules() {
		ruled[r.nr] = true
	}
	for nr := range uint32(1024) {
		got := judge(t, vm, hostArch, nr)
		switch {
		case ruled[nr]:
		case slices.Contains(allowed, nr):
			if got != unix.SECCOMP_RET_ALLOW {
				t.Errorf("call %d is on the list and gives %#x", nr, got)
			}
		case got != errnoOf|uint32(unix.ENOSYS):
			t.Errorf("call %d is not on the list and gives %#x", nr, got)
		}
	}
	for _, nr := range []uint32{0x40000000, 0x40000000 + 59, 0xffffffff} {
		if got := judge(t, vm, hostArch, nr); got != errnoOf|uint32(unix.ENOSYS) {
			t.Errorf("call %#x gives %#x", nr, got)
		}
	}
	if got := judge(t, vm, unix.AUDIT_ARCH_I386, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("a call of another architecture gives %#x", got)
	}
}

const pass = uint32(unix.SECCOMP_RET_ALLOW)

func no(e unix.Errno) uint32 { return errnoOf | uint32(e) }

// ruleTest is a call and the filter's verdict.
type ruleTest struct {
	name string
	nr   uint32
	args []uint64
	want uint32
}

func testRules(t *testing.T, vm *bpf.VM, tests []ruleTest) {
	t.Helper()
	for _, tt := range tests {
		if got := judge(t, vm, hostArch, tt.nr, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

func TestFilterRules(t *testing.T) {
	testRules(t, hostVM(t), []ruleTest{
		{"unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, pass},
		{"unix socket of any type", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, pass},
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, pass},
		{"udp6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 0}, pass},
		{"raw", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, no(unix.EPERM)},
		{"ping", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, no(unix.EPROTONOSUPPORT)},
		{"mptcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, no(unix.EPROTONOSUPPORT)},
		{"netlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, no(unix.EAFNOSUPPORT)},
		{"alg", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, no(unix.EAFNOSUPPORT)},
		{"rxrpc", unix.SYS_SOCKET, []uint64{unix.AF_RXRPC, unix.SOCK_DGRAM, 0}, no(unix.EAFNOSUPPORT)},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, no(unix.EAFNOSUPPORT)},
		{"packet", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, no(unix.EAFNOSUPPORT)},
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, pass},
		{"thread", unix.SYS_CLONE, []uint64{
			unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD}, pass},
		{"new user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, no(unix.EPERM)},
		{"new mount namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, no(unix.EPERM)},
		{"new network namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNET}, no(unix.EPERM)},
		{"clone3", unix.SYS_CLONE3, []uint64{0, 88}, no(unix.ENOSYS)},
		{"unshare", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWUSER}, no(unix.EPERM)},
		{"io_uring", unix.SYS_IO_URING_SETUP, []uint64{8, 0}, no(unix.EPERM)},
		{"ptrace", unix.SYS_PTRACE, []uint64{unix.PTRACE_TRACEME}, no(unix.EPERM)},
		{"terminal size", unix.SYS_IOCTL, []uint64{1, unix.TIOCGWINSZ}, pass},
		{"typing into the terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, no(unix.EPERM)},
		{"the same with high bits", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, no(unix.EPERM)},
		{"line discipline", unix.SYS_IOCTL, []uint64{0, unix.TIOCSETD}, no(unix.EPERM)},
		{"fifo", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFIFO | 0o600}, pass},
		{"device", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFCHR | 0o600}, no(unix.EPERM)},
		{"personality query", unix.SYS_PERSONALITY, []uint64{0xffffffff}, pass},
		{"no address randomisation", unix.SYS_PERSONALITY, []uint64{addressNoRandomize}, no(unix.EPERM)},
		{"unix socket pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, pass},
		{"tipc socket pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, no(unix.EAFNOSUPPORT)},
		{"reuse of an address", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, pass},
		{"packet filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, no(unix.EPERM)},
		{"nodelay", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, pass},
		{"tls in the kernel", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_TCP, unix.TCP_ULP}, no(unix.ENOPROTOOPT)},
		{"an option of another level with that number", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_IP, unix.TCP_ULP}, pass},
		{"asking for a limit", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_CORE, 0, 0x7fff00000000}, pass},
		{"setting a limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0x7fff00000000, 0}, pass},
		{"setting one of init", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_CPU, 0x7fff00001000, 0}, no(unix.EPERM)},
		{"setting one of init with high bits", unix.SYS_PRLIMIT64, []uint64{1<<32 | 1, unix.RLIMIT_CPU, 0x7fff00001000, 0},
			no(unix.EPERM)},
		{"no core files", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x7fff00000000, 0}, no(0)},
		{"no core files, the old way", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 0x7fff00000000}, no(0)},
		{"a limit, the old way", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_STACK, 0x7fff00000000}, pass},
		{"file lock", unix.SYS_FCNTL, []uint64{3, unix.F_SETLK}, pass},
		{"a pipe as large as new ones", unix.SYS_FCNTL, []uint64{3, unix.F_SETPIPE_SZ, maxPipe}, pass},
		{"a small pipe", unix.SYS_FCNTL, []uint64{3, unix.F_SETPIPE_SZ, 4096}, pass},
		{"a large pipe", unix.SYS_FCNTL, []uint64{3, unix.F_SETPIPE_SZ, maxPipe + 1}, no(unix.EPERM)},
		{"a large pipe with high bits", unix.SYS_FCNTL, []uint64{3, 1<<32 | unix.F_SETPIPE_SZ, 1<<32 | 1<<20},
			no(unix.EPERM)},
		{"size of a pipe", unix.SYS_FCNTL, []uint64{3, unix.F_GETPIPE_SZ}, pass},
		{"lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE}, no(unix.EPERM)},
		{"directory notice", unix.SYS_FCNTL, []uint64{3, unix.F_NOTIFY}, no(unix.EPERM)},
		{"delegation", unix.SYS_FCNTL, []uint64{3, unix.F_SETDELEG}, no(unix.EPERM)},
		{"hint on a file", unix.SYS_FCNTL, []uint64{3, unix.F_SET_RW_HINT}, no(unix.EPERM)},
		{"hint on an open file", unix.SYS_FCNTL, []uint64{3, 1<<32 | unix.F_SET_FILE_RW_HINT}, no(unix.EPERM)},
		{"sync", unix.SYS_SYNC, nil, no(0)},
		{"fsync", unix.SYS_FSYNC, []uint64{3}, no(0)},
		{"fdatasync", unix.SYS_FDATASYNC, []uint64{3}, no(0)},
		{"sync_file_range", unix.SYS_SYNC_FILE_RANGE, []uint64{3, 0, 0, 7}, no(0)},
		{"throwing a file out of memory", unix.SYS_FADVISE64, []uint64{3, 0, 0, unix.FADV_DONTNEED}, no(0)},
		{"reading a file in order", unix.SYS_FADVISE64, []uint64{3, 0, 0, unix.FADV_SEQUENTIAL}, pass},
		{"giving memory back", unix.SYS_MADVISE, []uint64{0, 4096, unix.MADV_DONTNEED}, pass},
		{"merging memory with others", unix.SYS_MADVISE, []uint64{0, 4096, unix.MADV_MERGEABLE}, no(unix.EINVAL)},
		{"throwing out what is mapped", unix.SYS_MADVISE, []uint64{0, 4096, unix.MADV_PAGEOUT}, no(unix.EINVAL)},
		{"huge pages in a file", unix.SYS_MADVISE, []uint64{0, 4096, unix.MADV_COLLAPSE}, no(unix.EINVAL)},
		{"where a file lies", unix.SYS_IOCTL, []uint64{3, fsIocFiemap}, no(unix.EPERM)},
		{"yielding", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 19}, pass},
		{"going first", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 1<<64 - 5}, no(unix.EACCES)},
		{"priority of init", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 1, 19}, no(unix.EPERM)},
		{"priority of init with high bits", unix.SYS_SETPRIORITY, []uint64{1 << 32, 1<<32 | 1, 19}, no(unix.EPERM)},
		{"priority of its group", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PGRP, 0, 19}, no(unix.EPERM)},
		{"priority of its user", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0, 19}, no(unix.EPERM)},
		{"memory", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, pass},
		{"shared memory", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, pass},
		{"huge pages of the host", unix.SYS_MMAP, []uint64{0, 1 << 21, 3,
			unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, no(unix.EPERM)},
		{"huge pages of a size", unix.SYS_MMAP, []uint64{0, 1 << 30, 3,
			unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | 30<<26}, no(unix.EPERM)},
		{"a segment", unix.SYS_SHMGET, []uint64{0, 4096, 0o600}, pass},
		{"a segment of huge pages", unix.SYS_SHMGET, []uint64{0, 1 << 21, shmHugetlb | 0o600}, no(unix.EPERM)},
		{"a file in memory", unix.SYS_MEMFD_CREATE, []uint64{1, unix.MFD_CLOEXEC}, pass},
		{"a file of huge pages", unix.SYS_MEMFD_CREATE, []uint64{1, unix.MFD_HUGETLB}, no(unix.EPERM)},
		{"cutting a file", unix.SYS_FTRUNCATE, []uint64{3, language.NodeWaits}, pass},
		{"what a waiting Node asks", unix.SYS_FTRUNCATE, []uint64{language.HandoffFD, language.NodeWaits},
			unix.SECCOMP_RET_USER_NOTIF},
		{"mount", unix.SYS_MOUNT, nil, no(unix.ENOSYS)},
		{"bpf", unix.SYS_BPF, nil, no(unix.ENOSYS)},
		{"splice", unix.SYS_SPLICE, nil, no(unix.ENOSYS)},
		{"keyctl", unix.SYS_KEYCTL, nil, no(unix.ENOSYS)},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, nil, no(unix.ENOSYS)},
	})
}

// Without control groups the filter refuses a few calls that would get uncounted
// memory, or delay the end of a killed program.
func TestFilterRulesWithoutGroups(t *testing.T) {
	testRules(t, vmOf(t, replaceRules(hostRules(), withoutGroups)), []ruleTest{
		{"a file in memory", unix.SYS_MEMFD_CREATE, []uint64{1, unix.MFD_CLOEXEC}, no(unix.ENOSYS)},
		{"a segment", unix.SYS_SHMGET, []uint64{0, 4096, 0o600}, no(unix.ENOSYS)},
		{"memory", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, pass},
		{"a shared file", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED}, pass},
		{"much memory", unix.SYS_MMAP, []uint64{0, 1 << 33, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, pass},
		{"a large shared file", unix.SYS_MMAP, []uint64{0, 1 << 33, 3, unix.MAP_SHARED}, pass},
		{"shared memory", unix.SYS_MMAP, []uint64{0, executor.MostShared, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, pass},
		{"more shared memory", unix.SYS_MMAP, []uint64{0, executor.MostShared + 1, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS},
			no(unix.ENOMEM)},
		{"very much shared memory", unix.SYS_MMAP, []uint64{0, 1<<32 | 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS},
			no(unix.ENOMEM)},
		{"more of it that is not reserved", unix.SYS_MMAP, []uint64{
			0, executor.MostShared + 1, 3, 1<<32 | unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE}, no(unix.ENOMEM)},
		{"huge pages that are shared", unix.SYS_MMAP, []uint64{0, 4096, 3,
			unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, no(unix.EPERM)},
		{"huge pages of the host", unix.SYS_MMAP, []uint64{0, 1 << 21, 3,
			unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, no(unix.EPERM)},
		{"a larger buffer", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, no(0)},
		{"another larger buffer", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, no(0)},
		{"reuse of an address", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, pass},
		{"packet filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, no(unix.EPERM)},
		{"tls in the kernel", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_TCP, unix.TCP_ULP}, no(unix.ENOPROTOOPT)},
		{"an option of another level with that number", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_IP, unix.SO_SNDBUF}, pass},
		{"yielding", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 19}, no(0)},
		{"going first", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 1<<32 - 5}, no(unix.EACCES)},
		{"priority of init", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 1, 19}, no(unix.EPERM)},
	})
}

// If namespaces are pooled, the executor is notified of each call that could change
// their state, and no other such call is allowed.
func TestFilterTellsOfWhatIsRemembered(t *testing.T) {
	plain, told := hostVM(t), vmOf(t, replaceRules(hostRules(), notifyRules))
	sockets := []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR}
	makers := append([]uint32{unix.SYS_SEMGET, unix.SYS_SHMGET, unix.SYS_MQ_OPEN}, sockets...)
	for nr := range uint32(1024) {
		for family := range uint64(unix.AF_MAX) {
			for kind := range uint64(8) {
				for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_MPTCP} {
					want, got := judge(t, plain, hostArch, nr, family, kind, protocol),
						judge(t, told, hostArch, nr, family, kind, protocol)
					if slices.Contains(makers, nr) && want == unix.SECCOMP_RET_ALLOW {
						want = unix.SECCOMP_RET_USER_NOTIF
					}
					if got != want {
						t.Fatalf("call %d with %d, %d, %d gives %#x, want %#x", nr, family, kind, protocol, got, want)
					}
				}
			}
			if !slices.Contains(sockets, nr) {
				break
			}
		}
	}
}

func TestFilterBuildsOnEveryArchitecture(t *testing.T) {
	for name, arch := range map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64} {
		raw, err := filter(arch, allowed, argumentRules)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(raw) > 4096 {
			t.Errorf("%s: %d instructions", name, len(raw))
		}
	}
}
