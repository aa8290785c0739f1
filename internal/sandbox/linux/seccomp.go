package linux

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The system-call filter is an allow list. What is not on it answers ENOSYS,
// as on a kernel that does not have it yet, so that language runtimes fall
// back by themselves and calls that future kernels bring are closed from the
// start. A few calls that every runtime probes answer EPERM instead, and some
// are open for certain arguments only.

// argumentRule opens a call for certain arguments: build returns instructions
// that end in allow or in a refusal.
type argumentRule struct {
	nr    uint32
	build func() []bpf.Instruction
}

// Offsets into struct seccomp_data. An argument's low half is read; where the
// high half could smuggle something the rule reads it too.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func argument(i uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offsetArgs + 8*i, Size: 4} }

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

var (
	allow    = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	kill     = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	noSyscal = refuse(unix.ENOSYS)
)

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

// argumentRules are the same on every architecture.
var argumentRules = []argumentRule{
	{unix.SYS_SOCKET, socketRule},
	{unix.SYS_CLONE, cloneRule},
	// Typing into a terminal that the caller may have handed down.
	{unix.SYS_IOCTL, func() []bpf.Instruction {
		return noneOf(1, unix.EPERM, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD)
	}},
	{unix.SYS_MKNODAT, func() []bpf.Instruction { return fileTypes(2) }},
	{unix.SYS_PERSONALITY, func() []bpf.Instruction { return oneOf(0, unix.EPERM, 0, 0xffffffff) }},
	// Its flags are behind a pointer; without it libc falls back to clone.
	{unix.SYS_CLONE3, func() []bpf.Instruction { return []bpf.Instruction{noSyscal} }},
	// Runtimes ask for it at start and take a refusal, but not its absence.
	{unix.SYS_IO_URING_SETUP, func() []bpf.Instruction { return []bpf.Instruction{refuse(unix.EPERM)} }},
	{unix.SYS_UNSHARE, func() []bpf.Instruction { return []bpf.Instruction{refuse(unix.EPERM)} }},
	{unix.SYS_PTRACE, func() []bpf.Instruction { return []bpf.Instruction{refuse(unix.EPERM)} }},
}

// filter builds the program: the architecture, then the calls with argument
// rules, then a binary search over the ranges of allowed numbers.
func filter(arch uint32, allowed []uint32, rules []argumentRule) ([]bpf.RawInstruction, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		kill, // another architecture's calls have other numbers
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}
	for _, rule := range rules {
		body := rule.build()
		if len(body) > 255 {
			return nil, fmt.Errorf("rule for system call %d is too long", rule.nr)
		}
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: rule.nr, SkipTrue: uint8(len(body))})
		program = append(program, body...)
	}
	program = append(program, search(ranges(allowed))...)
	return bpf.Assemble(program)
}

// span is a run of consecutive call numbers.
type span struct{ first, last uint32 }

func ranges(numbers []uint32) []span {
	sorted := slices.Sorted(slices.Values(numbers))
	var spans []span
	for _, n := range slices.Compact(sorted) {
		if len(spans) > 0 && spans[len(spans)-1].last+1 == n {
			spans[len(spans)-1].last = n
			continue
		}
		spans = append(spans, span{n, n})
	}
	return spans
}

// search decides by halves whether the number lies in one of spans.
func search(spans []span) []bpf.Instruction {
	if len(spans) == 1 {
		return []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: spans[0].first, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: spans[0].last, SkipTrue: 1},
			noSyscal,
			allow,
		}
	}
	half := len(spans) / 2
	low, high := search(spans[:half]), search(spans[half:])
	program := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: spans[half].first, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(low))},
	}
	return append(append(program, low...), high...)
}

// hostFilter is the filter for this machine, in the form the kernel takes.
func hostFilter() (*unix.SockFprog, error) {
	raw, err := filter(hostArch, hostAllowed(), hostRules())
	if err != nil {
		return nil, err
	}
	program := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		program[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}, nil
}
