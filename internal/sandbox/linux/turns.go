package linux

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// What ends a sandbox needs little of the processor, but at once, whatever computes on
// the machine: the executor, and pid 1, whose death is that of all others. Since Linux
// 6.12 the kernel runs a process first when it wakes that has asked for a shorter slice;
// its share stays the same, and asking takes no rights.
//
// Where no control groups are set up, the kernel gives each session its own share
// (autogroup). There pid 1 has a session of its own, in which it competes with none of
// its program's processes.

// shortSlice is the shortest that the kernel takes.
const shortSlice = 100 * time.Microsecond

// askForSlice asks for a slice for the calling thread and what it starts; 0 is the
// usual one. It is a wish: older kernels do not know it.
func askForSlice(slice time.Duration) {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil {
		attr.Runtime = uint64(slice)
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// sliceOfInit gives a process a short slice, but none of its children: they get the
// usual one.
func sliceOfInit() []spawn.Step { return sliceSteps(shortSlice, unix.SCHED_FLAG_RESET_ON_FORK) }

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

// ownSession takes the program out of pid 1's session.
func (s *sandbox) ownSession() []spawn.Step {
	if s.group != nil {
		return nil
	}
	return []spawn.Step{spawn.Call(ownSessionStep, unix.SYS_SETSID)}
}

const ownSessionStep = "session of its own"
