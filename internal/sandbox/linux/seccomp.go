package linux

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The system-call filter is an allow list. What is not on it answers ENOSYS,
// as on a kernel that does not have it yet, so that language runtimes fall
// back by themselves and calls that future kernels bring are closed from the
// start. A few calls that every runtime probes answer EPERM instead, and some
// are open for certain arguments only.

// argumentRule opens a call for certain arguments: its program ends in allow or in a
// refusal.
type argumentRule struct {
	nr      uint32
	program []bpf.Instruction
}

// Offsets into struct seccomp_data. An argument's low half is read; where the
// high half could smuggle something the rule reads it too.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func argument(i uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offsetArgs + 8*i, Size: 4} }

// upperHalf is the other half of an argument; of pointers both count.
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

// unconditional is the program of a call that is answered alike whatever its arguments.
func unconditional(i bpf.Instruction) []bpf.Instruction { return []bpf.Instruction{i} }

// oneOf allows when the argument is one of values.
func oneOf(arg uint32, errno unix.Errno, values ...uint32) []bpf.Instruction {
	program := []bpf.Instruction{argument(arg)}
	for _, v := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, allow)
	}
	return append(program, refuse(errno))
}

// noneOf refuses when the argument is one of values.
func noneOf(arg uint32, errno unix.Errno, values ...uint32) []bpf.Instruction {
	program := []bpf.Instruction{argument(arg)}
	for _, v := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, refuse(errno))
	}
	return append(program, allow)
}

// fileTypes allows regular files and FIFOs, as the mode argument of mknod says.
func fileTypes(arg uint32) []bpf.Instruction {
	program := []bpf.Instruction{argument(arg), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.S_IFMT}}
	for _, t := range []uint32{0, unix.S_IFREG, unix.S_IFIFO} {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: t, SkipTrue: 1}, allow)
	}
	return append(program, refuse(unix.EPERM))
}

// socketRule opens unix sockets, and TCP and UDP for the sandbox's own
// loopback: its network namespace has no other device. Every other family has
// been a way into the kernel.
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

// socketPairRule opens pairs of unix sockets. The call makes two of the family
// before it finds that they cannot be a pair; of TIPC they can.
func socketPairRule() []bpf.Instruction { return oneOf(0, unix.EAFNOSUPPORT, unix.AF_UNIX) }

// cloneRule opens threads and processes, never a new namespace.
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

// fakeSuccess answers that a call was made which was not.
var fakeSuccess = refuse(0)

// noBits refuses when the argument has one of some bits.
func noBits(arg, bits uint32) []bpf.Instruction {
	return []bpf.Instruction{argument(arg), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1}, refuse(unix.EPERM),
		allow}
}

func hugeSegments() []bpf.Instruction { return noBits(2, shmHugetlb) }

// What x/sys does not have.
const (
	fsIocFiemap = 0xc020660b
	shmHugetlb  = 0o4000
)

// sharedFileCommands are those of fcntl that leave something on a file which
// everybody opens: a lease makes the next one who opens it wait, and a hint how
// long its contents will live stays on it as a message.
var sharedFileCommands = []uint32{
	unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETDELEG, unix.F_SET_RW_HINT, unix.F_SET_FILE_RW_HINT,
}

// priorityRule is for setpriority. A thread sets its own, as nice does, and that
// ends as the rule says. Groups and users are refused, because pid 1 belongs to the
// program's: nothing may keep it from the processor when it is killed. A raised priority
// is refused with the kernel's own error.
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

// limitRule is for calls that set a limit: which is argument resource, and
// arguments 2 and pid are the new limit and the process where the call has
// them (prlimit64). Two things are not to be had.
//
// The limit of core files is one byte. At none the kernel would hand a crashed
// program to the host's core-dump handler, so a program that asks for none is
// told that it has it. And pid 1 is the same user's, but not the program's: a
// limit of CPU time set on it would end the sandbox.
func limitRule(resource uint32, prlimit bool) (program []bpf.Instruction) {
	if prlimit {
		const pid, limit = 0, 2
		program = []bpf.Instruction{
			argument(limit), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
			upperHalf(limit), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
			allow, // it only asks
			argument(pid), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 1, SkipTrue: 1},
			refuse(unix.EPERM),
		}
	}
	return append(program,
		argument(resource), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.RLIMIT_CORE, SkipTrue: 1},
		fakeSuccess,
		allow)
}

// optionRule closes the options of sockets that bring code into the kernel:
// packet filters, and protocols on top of TCP.
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

// argumentRules are the same on every architecture.
var argumentRules = []argumentRule{
	{unix.SYS_SOCKET, socketRule()},
	{unix.SYS_SOCKETPAIR, socketPairRule()},
	{unix.SYS_SETSOCKOPT, optionRule()},
	{unix.SYS_PRLIMIT64, limitRule(1, true)},
	{unix.SYS_SETRLIMIT, limitRule(0, false)},
	{unix.SYS_FCNTL, noneOf(1, unix.EPERM, sharedFileCommands...)},
	// Nothing that a program can write is on a disk, and the host's disks are
	// not its to wait for.
	{unix.SYS_SYNC, unconditional(fakeSuccess)},
	{unix.SYS_FSYNC, unconditional(fakeSuccess)},
	{unix.SYS_FDATASYNC, unconditional(fakeSuccess)},
	{unix.SYS_SYNC_FILE_RANGE, unconditional(fakeSuccess)},
	{unix.SYS_FADVISE64, noneOf(3, 0, unix.FADV_DONTNEED)},
	{unix.SYS_MADVISE, noneOf(2, unix.EINVAL, unix.MADV_MERGEABLE, unix.MADV_PAGEOUT, unix.MADV_COLLAPSE)},
	{unix.SYS_SETPRIORITY, priorityRule(allow)},
	// Huge pages that the host has set aside are counted by no limit of memory.
	{unix.SYS_MMAP, noBits(3, unix.MAP_HUGETLB)},
	{unix.SYS_MEMFD_CREATE, noBits(1, unix.MFD_HUGETLB)},
	{unix.SYS_SHMGET, hugeSegments()},
	{unix.SYS_CLONE, cloneRule()},
	// Typing into a terminal that the caller may have handed down, and having a
	// file of everybody's written to its disk before its extents are listed.
	{unix.SYS_IOCTL, noneOf(1, unix.EPERM, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, fsIocFiemap)},
	{unix.SYS_MKNODAT, fileTypes(2)},
	{unix.SYS_PERSONALITY, oneOf(0, unix.EPERM, 0, 0xffffffff)},
	// Its flags are behind a pointer; without it libc falls back to clone.
	{unix.SYS_CLONE3, unconditional(noSyscal)},
	// Runtimes ask for it at start and take a refusal, but not its absence.
	{unix.SYS_IO_URING_SETUP, unconditional(refuse(unix.EPERM))},
	{unix.SYS_UNSHARE, unconditional(refuse(unix.EPERM))},
	{finishCall, unconditional(notifyExecutor)},
	{unix.SYS_FTRUNCATE, handoffRule()},
	{unix.SYS_PTRACE, unconditional(refuse(unix.EPERM))},
}

// filter builds the program: the architecture, then a binary search over all
// numbers for what is to be done. The kernel compiles it for each sandbox, so it
// is to be short.
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

// piece is a run of call numbers, up to where the next begins, for which the
// same is to be done.
type piece struct {
	first uint32
	rule  *argumentRule // nil: all of them are allowed, or none is
	open  bool
}

// pieces divides all numbers. Calls that have a rule need not be on the list.
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

// mostPieces are searched by instructions that reach, in a jump of a byte, what
// is to be done, which lies behind them.
const mostPieces = 48

// search decides by halves in which piece the number lies, and does it.
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

// searchFew begins with one comparison for each place where a piece ends.
func searchFew(list []piece) ([]bpf.Instruction, error) {
	comparisons := len(list) - 1
	bodies := []bpf.Instruction{noSyscal, allow}
	places := make([]int, len(list)) // of what is done for each piece
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
	// compare appends what finds a piece among those from first to last, and
	// returns where that begins.
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

// withoutGroups are the rules of calls that only control groups bound.
//
// Memory that is no process's would not be counted: files without a name,
// segments, and large shared mappings of no file. Programs that ask for it have /tmp
// and /dev/shm instead, which have a size. So has what waits in sockets, as long as
// no program makes it larger: see socketMemory.
//
// A program of low priority would take long to die on a machine that has others to
// run, so it is told that it has one.
var withoutGroups = []argumentRule{
	{unix.SYS_MEMFD_CREATE, unconditional(noSyscal)},
	{unix.SYS_SHMGET, unconditional(noSyscal)},
	{unix.SYS_MMAP, append(smallShared(1, 3), noBits(3, unix.MAP_HUGETLB)...)},
	{unix.SYS_SETSOCKOPT, append(sameBuffers(), optionRule()...)},
	{unix.SYS_SETPRIORITY, priorityRule(fakeSuccess)},
}

// smallShared refuses mappings that are shared and of no file, if they are large.
func smallShared(length, flags uint32) []bpf.Instruction {
	const both = unix.MAP_SHARED | unix.MAP_ANONYMOUS
	return []bpf.Instruction{
		argument(flags), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: both},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: both, SkipTrue: 5},
		upperHalf(length), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
		argument(length), bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: mostShared, SkipTrue: 1},
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

// hostFilter is the filter for this machine, in the form the kernel takes; with
// some rules in the place of those for the same calls.
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
