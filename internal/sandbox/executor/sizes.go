package executor

import (
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// shares are the parts of the kernel's pools that sandboxes may use.
type shares struct {
	tasks     share // processes and threads
	watches   share // of files: requests
	folders   share // of those watches
	terminals share
	pipes     share // pages of the pipes of processes beside programs
	files     share // open in the executor for calls

	mostTasks int64 // of sandboxes and the executor together
}

// Parts of a pool. An eighth is left to the rest of the machine, and one owner may have half
// of what sandboxes may have.
const (
	restOfPool  = 8
	ownersParts = 2
)

// Processes and threads that are left in a small pool to the service and to the executor,
// with its zygotes and waiting sandboxes.
const (
	serviceTasks  = 48
	ExecutorTasks = 80
)

// Bounds where the kernel's own are far larger.
const (
	mostWatches  = 4096
	OwnerWatches = 64 // requests
	mostFolders  = 1 << 19
)

// pipePages are the pages of the pipes of one process beside a program: see processPipes.
const pipePages = 1 + 4 + 1

// Files that a call has open in the executor: at most, of an upload or a watch, and of a process.
const (
	filesOfCall    = 4
	filesOfProcess = 8
)

// newShares sizes the shares by what this machine, container and user may have.
func newShares(groups, own string, root bool) *shares {
	s := &shares{}
	number := func(folder, name string) int64 {
		return kernelfile.Int(kernelfile.Read(image.ProcPath+"/sys/"+folder, name))
	}
	// A thread of the executor that cannot be created ends it.
	limit := min(number("kernel", "pid_max"), number("kernel", "threads-max"))
	if most, bounded := cgroup.TaskLimit(groups, own); bounded {
		limit = min(limit, most)
	}
	var user unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &user) == nil && !root && user.Cur < uint64(limit) {
		limit = int64(user.Cur)
	}
	rest := min(max(limit/restOfPool, serviceTasks+ExecutorTasks), limit/2)
	s.mostTasks = limit - rest*serviceTasks/(serviceTasks+ExecutorTasks)
	s.tasks = newShare("processes and threads", limit-rest,
		"raise the limit of processes of the container, the unit or the machine (--pids-limit, TasksMax=, kernel.pid_max)")
	s.watches = newShare("watches of files", mostWatches, "give other applications keys of their own")
	s.watches.each = OwnerWatches
	folders := number("fs/inotify", "max_user_watches")
	s.folders = newShare("watched folders", min(folders-folders/restOfPool, mostFolders),
		"raise fs.inotify.max_user_watches")
	terminals := number("kernel/pty", "max") - number("kernel/pty", "reserve")
	s.terminals = newShare("terminals", terminals-terminals/restOfPool, "raise kernel.pty.max")
	// The pipes of a user beyond this number are small, which is no error.
	s.pipes = newShare("pages of pipes", number("fs", "pipe-user-pages-soft"), "raise fs.pipe-user-pages-soft")
	s.pipes.total = 0
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err == nil {
		most := int64(min(open.Cur, 1<<30))
		s.files = newShare("open files", most-most/restOfPool, "raise the service's limit of open files (LimitNOFILE=)")
	}
	return s
}

func newShare(name string, total int64, cure string) share {
	total = max(total, 1)
	return share{name: name, cure: cure, total: total, each: max(total/ownersParts, 1)}
}

// Processes and threads of a sandbox beside the program's: pid 1, a process that enters,
// and threads of the executor that work for it.
const tasksBeside = 4

// tasksFor returns what a sandbox may have while its program runs, with what the wall needs for itself.
func (m *Machine) tasksFor(r *RunRequest) int64 {
	return int64(r.Processes+m.can.Own.Processes) + tasksBeside
}

// MostTasks returns how many processes and threads the sandboxes and the executor may have
// together.
func (m *Machine) MostTasks() int64 { return m.shares.mostTasks }
