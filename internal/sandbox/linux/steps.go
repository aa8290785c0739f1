package linux

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// reportPipe creates the pipe over which a sandbox's first processes report. The
// descriptor of its write end is above those where a child puts its files.
func reportPipe() (reading, writing *os.File, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	reading = os.NewFile(uintptr(pipe[0]), "reports")
	high, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_DUPFD_CLOEXEC, firstFree)
	unix.Close(pipe[1])
	if err != nil {
		reading.Close()
		return nil, nil, err
	}
	return reading, os.NewFile(uintptr(high), "report"), nil
}

// stepError returns an error for the step of a child that failed. The last step
// executes the program: its failure is not a fault of the sandbox.
func stepError(s *spawn.Script, r spawn.Report) error {
	name, execute := s.Failed(r)
	if execute {
		return &executor.Failure{Kind: engine.ErrNoLanguage, Doctor: true,
			Text: fmt.Sprintf("cannot %s on this host: %v", name, syscall.Errno(r.Value)),
			Hint: "install it there with `airlock setup`; `airlock doctor` tells what is missing"}
	}
	return fmt.Errorf("%s: %w", name, syscall.Errno(r.Value))
}

// weaken removes protections, for tests.
func weaken(s *spawn.Script, names []string) {
	if slices.Contains(names, executor.WeakNetwork) {
		s.Flags &^= unix.CLONE_NEWNET
	}
	if slices.Contains(names, weakProcesses) {
		s.Flags &^= unix.CLONE_NEWPID
	}
	if slices.Contains(names, joinStep) {
		s.Group = -1 // otherwise the process would be born in the group
	}
	if slices.Contains(names, filterStep) && s.Wait != nil {
		s.Wait = awaitProgram(spawn.ReadyBare, s.Received)
	}
	for _, list := range []*[]spawn.Step{&s.Setup, &s.Init, &s.Main, &s.Beside} {
		*list = slices.DeleteFunc(*list, func(s spawn.Step) bool { return slices.Contains(names, s.Name) })
	}
}

// weakSpawn names the machine code with which a zygote creates sandboxes. Without it
// the zygote does that in Python, as on other processors.
const weakSpawn = "spawn"

// weakProcesses leaves out the pid namespace of sandboxes that start cold.
const weakProcesses = "pid namespace"

// weakZygote has zygotes end before they are ready, in tests.
const weakZygote = "zygote"

// joinStep names the step of entering the control group, which version 2 does not have.
const joinStep = "join control group"

// weakNotices names the notices of events in namespaces, and weakKept the reuse of
// namespaces. Neither is a step.
const (
	weakNotices = "notices"
	weakKept    = "kept namespaces"
)
