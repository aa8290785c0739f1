package linux

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// The processes that end a sandbox need little processor time, but must get it at once:
// the executor, and pid 1, whose death kills all others. Since Linux 6.12 the kernel
// prefers a waking process that has requested a shorter slice. Its share stays the
// same, and the request needs no privilege.
//
// Without control groups the kernel gives each session its own share (autogroup). There
// pid 1 has its own session, so it does not compete with its program's processes.

// sliceOfInit gives a process a short slice. Its children get the default one.
func sliceOfInit() []spawn.Step {
	return sliceSteps(executor.ShortSlice, unix.SCHED_FLAG_RESET_ON_FORK)
}

// usualSlice is for a program that the executor itself starts.
func usualSlice() []spawn.Step { return sliceSteps(0, 0) }

func sliceSteps(slice time.Duration, flags uint64) []spawn.Step {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return nil
	}
	attr.Size, attr.Flags, attr.Runtime = unix.SizeofSchedAttr, attr.Flags|flags, uint64(slice)
	encoded, err := binary.Append(nil, binary.NativeEndian, attr)
	if err != nil {
		return nil
	}
	return []spawn.Step{spawn.Call(sliceStep, unix.SYS_SCHED_SETATTR, 0, encoded, 0)}
}

const sliceStep = "short slice of pid 1"

// ownSession moves the program out of pid 1's session.
func (s *sandbox) ownSession() []spawn.Step {
	if s.Group != nil {
		return nil
	}
	return []spawn.Step{spawn.Call(ownSessionStep, unix.SYS_SETSID)}
}

const ownSessionStep = "session of its own"
