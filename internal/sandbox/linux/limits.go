package linux

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// Limits that are the same for every program.
const (
	maxOpenFiles = 1024
	maxPending   = 256 // signals queued
	maxMessages  = 0   // bytes in POSIX message queues
	maxLocked    = 64 << 10
)

// limit sets one of the kernel's limits of a process, which it cannot raise again.
func limit(name string, resource int, value uint64) spawn.Step {
	return limits(name, resource, value, value)
}

func limits(name string, resource int, soft, hard uint64) spawn.Step {
	return spawn.Call("limit "+name, unix.SYS_PRLIMIT64, 0, resource, &unix.Rlimit{Cur: soft, Max: hard}, 0)
}

// limitFiles must come after all steps that open a file: a cold start still has copies
// of all open files of the executor, which may exceed the limit.
func (s *sandbox) limitFiles() []spawn.Step {
	return []spawn.Step{limit("open files", unix.RLIMIT_NOFILE, openFiles())}
}

func (s *sandbox) limits() []spawn.Step {
	r := s.Request
	steps := []spawn.Step{
		// One byte, not none: the kernel starts a core-dump handler of the host
		// even at none, and only a limit of one stops it from doing so.
		limit("core files", unix.RLIMIT_CORE, 1),
		limit("file size", unix.RLIMIT_FSIZE, uint64(max(r.Workspace, executor.TmpSize, r.FileSize))),
		limit("pending signals", unix.RLIMIT_SIGPENDING, maxPending),
		limit("message queues", unix.RLIMIT_MSGQUEUE, maxMessages),
		limit("locked memory", unix.RLIMIT_MEMLOCK, maxLocked),
	}
	if r.CPUTime > 0 {
		// The soft limit's signal names its cause. SIGKILL, which follows a second
		// later if the program ignores that signal, does not.
		seconds := uint64((r.CPUTime + time.Second - 1) / time.Second)
		steps = append(steps, limits("CPU time", unix.RLIMIT_CPU, seconds, seconds+1))
	}
	if s.Group == nil {
		// Without control groups only these limits apply: the memory of each process,
		// and the processes of the sandbox's user, including pid 1.
		steps = append(steps,
			limit("data", unix.RLIMIT_DATA, uint64(r.Memory)),
			limit("processes", unix.RLIMIT_NPROC, uint64(r.Processes+1)))
		// Page tables are counted, but grow fast: this bounds one process between two
		// checks. Node reserves far more than it uses.
		if len(r.Argv) == 0 || r.Argv[0] != executor.NodePath {
			steps = append(steps, limit("address space", unix.RLIMIT_AS, uint64(max(mostAddresses, 4*r.Memory))))
		}
	}
	return steps
}

const mostAddresses = 64 << 30 // whose page tables take 128 MiB

// openFiles returns the limit of open files of a program. It is lower if the service
// was started with a lower limit, which only root could raise.
func openFiles() uint64 {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		return maxOpenFiles
	}
	return min(maxOpenFiles, own.Max)
}

// raiseOOMScore makes the kernel kill sandboxes before the service when the machine
// runs out of memory.
func raiseOOMScore() []spawn.Step {
	const badness = "500" // of 1000
	return writeTo("raise the out-of-memory score", nil, "/proc/self/oom_score_adj", badness)
}

// Buffers of connections, in bytes: minimum, default and maximum. The kernel's own
// maximum is several MiB for each.
const connectionBuffers = "4096 65536 131072"

// boundConnections limits each connection of a new network namespace to the buffer size
// of other sockets.
func boundConnections() []spawn.Step {
	return join(
		writeTo("bound what connections receive", nil, "/proc/sys/net/ipv4/tcp_rmem", connectionBuffers),
		writeTo("bound what connections send", nil, "/proc/sys/net/ipv4/tcp_wmem", connectionBuffers),
	)
}
