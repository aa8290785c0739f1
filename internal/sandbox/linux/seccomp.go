package linux

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// The system-call filter is an allow list. Other calls return ENOSYS, as on a kernel
// without them. Language runtimes then fall back by themselves, and calls of future
// kernels are blocked from the start. A few calls that every runtime probes return
// EPERM instead, and some are allowed for certain arguments only.

// argumentRule allows a call for certain arguments. Its program ends in allow or in an
// error.
type argumentRule struct {
	nr      uint32
	program []bpf.Instruction
}

// Offsets into struct seccomp_data. A rule reads an argument's lower half, and also the
// upper half if the kernel uses it.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func argument(i uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offsetArgs + 8*i, Size: 4} }

// upperHalf loads the upper half of an argument. Pointers need both halves.
func upperHalf(i uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArgs + 8*i + 4, Size: 4}
}

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

var (
	allow    = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	kill     = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	noSyscal = refuse(unix.ENOSYS)

	notifyExecutor = bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}
)

// unconditional returns the program of a call whose result does not depend on its arguments.
func unconditional(i bpf.Instruction) []bpf.Instruction { return []bpf.Instruction{i} }

// oneOf allows the call if the argument is one of values.
func oneOf(arg uint32, errno unix.Errno, values ...uint32) []bpf.Instruction {
	program := []bpf.Instruction{argument(arg)}
	for _, v := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, allow)
	}
	return append(program, refuse(errno))
}

// noneOf rejects the call if the argument is one of values.
func noneOf(arg uint32, errno unix.Errno, values ...uint32) []bpf.Instruction {
	program := []bpf.Instruction{argument(arg)}
	for _, v := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, refuse(errno))
	}
	return append(program, allow)
}

// fileTypes allows regular files and FIFOs, by the mode argument of mknod.
func fileTypes(arg uint32) []bpf.Instruction {
	program := []bpf.Instruction{argument(arg), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.S_IFMT}}
	for _, t := range []uint32{0, unix.S_IFREG, unix.S_IFIFO} {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: t, SkipTrue: 1}, allow)
	}
	return append(program, refuse(unix.EPERM))
}

// socketRule allows unix sockets, and TCP and UDP for the sandbox's own loopback: its
// network namespace has no other device. Every other family has had exploitable kernel
// bugs.
func socketRule() []bpf.Instruction {
	const typeMask = 0xf // SOCK_CLOEXEC and SOCK_NONBLOCK are above
	return []bpf.Instruction{
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_UNIX, SkipTrue: 1}, allow,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1},
		refuse(unix.EAFNOSUPPORT),
		argument(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: typeMask},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1},
		refuse(unix.EPERM),
		argument(2),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_IP, SkipTrue: 1}, allow,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 1}, allow,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 1}, allow,
		refuse(unix.EPROTONOSUPPORT),
	}
}

// socketPairRule allows pairs of unix sockets. The kernel creates two sockets of a
// family before it rejects the pair. TIPC sockets can be paired.
func socketPairRule() []bpf.Instruction { return oneOf(0, unix.EAFNOSUPPORT, unix.AF_UNIX) }

// cloneRule allows threads and processes, but no new namespaces.
func cloneRule() []bpf.Instruction {
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME
	return []bpf.Instruction{
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipFalse: 1},
		refuse(unix.EPERM),
		allow,
	}
}

// fakeSuccess returns success without executing the call.
var fakeSuccess = refuse(0)

// noBits rejects the call if any of bits is set in the argument.
func noBits(arg, bits uint32) []bpf.Instruction {
	return []bpf.Instruction{argument(arg), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1}, refuse(unix.EPERM),
		allow}
}

func hugeSegments() []bpf.Instruction { return noBits(2, shmHugetlb) }

// Constants that x/sys lacks.
const (
	fsIocFiemap = 0xc020660b
	shmHugetlb  = 0o4000
)

// sharedFileCommands are the commands of fcntl that leave state on a file shared by
// sandboxes. A lease blocks the next open of the file, and a hint about the lifetime of
// its content stays on it as a covert message.
var sharedFileCommands = []uint32{
	unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETDELEG, unix.F_SET_RW_HINT, unix.F_SET_FILE_RW_HINT,
}

// maxPipe is the size of a new pipe. Larger ones use up what one user's pipes may have
// together: without root that is the service's user, and the pipes of a program's output
// belong to it in any case.
const maxPipe = 64 << 10

// fcntlRule refuses sharedFileCommands, and pipes that are larger than new ones, as the
// kernel does when a user has too many.
func fcntlRule() []bpf.Instruction {
	const command, size = 1, 2
	return append([]bpf.Instruction{
		argument(command), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.F_SETPIPE_SZ, SkipTrue: 4},
		argument(size), bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: maxPipe, SkipFalse: 1},
		refuse(unix.EPERM),
		allow,
	}, noneOf(command, unix.EPERM, sharedFileCommands...)...)
}

// priorityRule returns the rule of setpriority. If a thread sets its own priority, as
// nice does, the rule ends in own. Groups and users are refused, because pid 1 has the
// program's user and must get a processor when it is killed. A raised priority fails
// with the kernel's own error.
func priorityRule(own bpf.Instruction) []bpf.Instruction {
	const which, who, priority, negative = 0, 1, 2, 1 << 31
	return []bpf.Instruction{
		argument(which), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PRIO_PROCESS, SkipTrue: 5},
		argument(who), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
		argument(priority), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: negative, SkipTrue: 2},
		own,
		refuse(unix.EPERM),
		refuse(unix.EACCES),
	}
}

// limitRule returns the rule of a call that sets a limit. resource is the argument that
// selects the limit. For prlimit64, arguments 2 and pid are the new limit and the
// process. Two uses are rejected.
//
// The limit of core files is one byte. With a limit of 0 the kernel would run the
// host's core-dump handler for a crash, so setting 0 only pretends to succeed. Pid 1
// has the same user, but is not the program's: a CPU time limit set on it would end the
// sandbox.
func limitRule(resource uint32, prlimit bool) (program []bpf.Instruction) {
	if prlimit {
		const pid, limit = 0, 2
		program = []bpf.Instruction{
			argument(limit), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
			upperHalf(limit), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
			allow, // it only reads the limit
			argument(pid), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 1, SkipTrue: 1},
			refuse(unix.EPERM),
		}
	}
	return append(program,
		argument(resource), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.RLIMIT_CORE, SkipTrue: 1},
		fakeSuccess,
		allow)
}

// optionRule rejects socket options that load code into the kernel: packet filters, and
// protocols on top of TCP.
func optionRule() []bpf.Instruction {
	const level, option = 1, 2
	filters := noneOf(option, unix.EPERM, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF,
		unix.SO_ATTACH_REUSEPORT_EBPF)
	return slices.Concat(
		[]bpf.Instruction{argument(level), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOL_SOCKET,
			SkipTrue: uint8(len(filters))}}, filters,
		[]bpf.Instruction{argument(level), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOL_TCP, SkipTrue: 1}, allow},
		noneOf(option, unix.ENOPROTOOPT, unix.TCP_ULP),
	)
}

// argumentRules are the rules common to all architectures.
var argumentRules = []argumentRule{
	{unix.SYS_SOCKET, socketRule()},
	{unix.SYS_SOCKETPAIR, socketPairRule()},
	{unix.SYS_SETSOCKOPT, optionRule()},
	{unix.SYS_PRLIMIT64, limitRule(1, true)},
	{unix.SYS_SETRLIMIT, limitRule(0, false)},
	{unix.SYS_FCNTL, fcntlRule()},
	// No file that a program can write is on a disk, but for those of volumes, and a
	// program must not wait for the host's disks.
	{unix.SYS_SYNC, unconditional(fakeSuccess)},
	{unix.SYS_FSYNC, unconditional(fakeSuccess)},
	{unix.SYS_FDATASYNC, unconditional(fakeSuccess)},
	{unix.SYS_SYNC_FILE_RANGE, unconditional(fakeSuccess)},
	{unix.SYS_FADVISE64, noneOf(3, 0, unix.FADV_DONTNEED)},
	{unix.SYS_MADVISE, noneOf(2, unix.EINVAL, unix.MADV_MERGEABLE, unix.MADV_PAGEOUT, unix.MADV_COLLAPSE)},
	{unix.SYS_SETPRIORITY, priorityRule(allow)},
	// No memory limit counts the huge pages that the host has reserved.
	{unix.SYS_MMAP, noBits(3, unix.MAP_HUGETLB)},
	{unix.SYS_MEMFD_CREATE, noBits(1, unix.MFD_HUGETLB)},
	{unix.SYS_SHMGET, hugeSegments()},
	{unix.SYS_CLONE, cloneRule()},
	// Rejects typing into a terminal that the caller may have passed down, and flushing
	// a shared file to its disk before listing its extents.
	{unix.SYS_IOCTL, noneOf(1, unix.EPERM, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, fsIocFiemap)},
	{unix.SYS_MKNODAT, fileTypes(2)},
	{unix.SYS_PERSONALITY, oneOf(0, unix.EPERM, 0, 0xffffffff)},
	// The flags of clone3 are behind a pointer; without clone3 libc falls back to clone.
	{unix.SYS_CLONE3, unconditional(noSyscal)},
	// Runtimes probe this call at start. They accept EPERM, but not ENOSYS.
	{unix.SYS_IO_URING_SETUP, unconditional(refuse(unix.EPERM))},
	{unix.SYS_UNSHARE, unconditional(refuse(unix.EPERM))},
	{finishCall, unconditional(notifyExecutor)},
	{unix.SYS_FTRUNCATE, handoffRule()},
	{unix.SYS_PTRACE, unconditional(refuse(unix.EPERM))},
}

// filter builds the program: a check of the architecture, then a binary search over all
// call numbers for the action. The kernel compiles it for each sandbox, so it must be
// short.
func filter(arch uint32, allowed []uint32, rules []argumentRule) ([]bpf.RawInstruction, error) {
	search, err := search(pieces(allowed, rules))
	if err != nil {
		return nil, err
	}
	return bpf.Assemble(append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		kill, // another architecture's calls have other numbers
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}, search...))
}

// piece is a range of call numbers with the same action. It extends to the start of the
// next piece.
type piece struct {
	first uint32
	rule  *argumentRule // nil: all of the calls are allowed, or none
	open  bool
}

// pieces divides all numbers. Calls with a rule need not be in allowed.
func pieces(allowed []uint32, rules []argumentRule) []piece {
	does := map[uint32]piece{}
	for _, n := range allowed {
		does[n] = piece{first: n, open: true}
	}
	for i := range rules {
		does[rules[i].nr] = piece{first: rules[i].nr, rule: &rules[i]}
	}
	var list []piece
	add := func(p piece) {
		last := len(list) - 1
		if last >= 0 && list[last].first == p.first {
			list = list[:last]
			last--
		}
		if last < 0 || p.rule != nil || list[last].rule != nil || list[last].open != p.open {
			list = append(list, p)
		}
	}
	add(piece{})
	for _, n := range slices.Sorted(maps.Keys(does)) {
		add(does[n])
		add(piece{first: n + 1})
	}
	return list
}

// mostPieces bounds the pieces of one searchFew: its conditional jumps have a one-byte
// offset, and the actions follow the comparisons.
const mostPieces = 48

// search emits a binary search for the piece of the number, and the action of each piece.
func search(list []piece) ([]bpf.Instruction, error) {
	if len(list) <= mostPieces {
		return searchFew(list)
	}
	half := len(list) / 2
	low, err := search(list[:half])
	if err != nil {
		return nil, err
	}
	high, err := search(list[half:])
	program := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: list[half].first, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(low))},
	}
	return append(append(program, low...), high...), err
}

// searchFew emits one comparison for each end of a piece, and then the actions.
func searchFew(list []piece) ([]bpf.Instruction, error) {
	comparisons := len(list) - 1
	bodies := []bpf.Instruction{noSyscal, allow}
	places := make([]int, len(list)) // position of each piece's action
	for i, p := range list {
		switch {
		case p.rule != nil:
			places[i] = comparisons + len(bodies)
			bodies = append(bodies, p.rule.program...)
		case p.open:
			places[i] = comparisons + 1
		default:
			places[i] = comparisons
		}
	}
	var program []bpf.Instruction
	far := false
	skip := func(from, to int) uint8 {
		far = far || to-from-1 > 255
		return uint8(to - from - 1)
	}
	// compare appends the search among the pieces from first to last, and returns its
	// start.
	var compare func(first, last int) int
	compare = func(first, last int) int {
		if first == last {
			return places[first]
		}
		here, half := len(program), (first+last+1)/2
		program = append(program, nil)
		below := compare(first, half-1)
		above := compare(half, last)
		program[here] = bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: list[half].first, SkipTrue: skip(here, above),
			SkipFalse: skip(here, below)}
		return here
	}
	compare(0, len(list)-1)
	if far {
		return nil, errors.New("the rules for system calls are too long")
	}
	if comparisons == 0 {
		return bodies[places[0]:], nil
	}
	return append(program, bodies...), nil
}

// withoutGroups are rules for calls whose resources only control groups limit.
//
// The poller would not count memory that belongs to no process: files without a name,
// segments, and large shared anonymous mappings. Programs can use /tmp and /dev/shm
// instead, which have a size. Socket buffers are limited too, while no program enlarges
// them: see socketMemory.
//
// A program of low priority would take long to die on a busy machine, so setting one
// only pretends to succeed.
var withoutGroups = []argumentRule{
	{unix.SYS_MEMFD_CREATE, unconditional(noSyscal)},
	{unix.SYS_SHMGET, unconditional(noSyscal)},
	{unix.SYS_MMAP, append(smallShared(1, 3), noBits(3, unix.MAP_HUGETLB)...)},
	{unix.SYS_SETSOCKOPT, append(sameBuffers(), optionRule()...)},
	{unix.SYS_SETPRIORITY, priorityRule(fakeSuccess)},
}

// smallShared rejects large shared anonymous mappings.
func smallShared(length, flags uint32) []bpf.Instruction {
	const both = unix.MAP_SHARED | unix.MAP_ANONYMOUS
	return []bpf.Instruction{
		argument(flags), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: both},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: both, SkipTrue: 5},
		upperHalf(length), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
		argument(length), bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: executor.MostShared, SkipTrue: 1},
		refuse(unix.ENOMEM),
	}
}

// sameBuffers pretends to set the size of a socket's buffers.
func sameBuffers() []bpf.Instruction {
	const level, option = 1, 2
	return []bpf.Instruction{
		argument(level), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOL_SOCKET, SkipTrue: 4},
		argument(option),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SO_SNDBUF, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SO_RCVBUF, SkipTrue: 1}, fakeSuccess,
	}
}

// hostFilter returns the filter for this machine, in the kernel's format. The rules in
// others replace those for the same calls.
func hostFilter(groups bool, others ...argumentRule) (*unix.SockFprog, error) {
	rules := replaceRules(hostRules(), others)
	if !groups {
		rules = replaceRules(rules, withoutGroups)
	}
	raw, err := filter(hostArch, hostAllowed(), rules)
	if err != nil {
		return nil, err
	}
	program := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		program[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}, nil
}

func replaceRules(rules, others []argumentRule) []argumentRule {
	replaced := slices.DeleteFunc(rules, func(r argumentRule) bool {
		return slices.ContainsFunc(others, func(o argumentRule) bool { return o.nr == r.nr })
	})
	return append(replaced, others...)
}
