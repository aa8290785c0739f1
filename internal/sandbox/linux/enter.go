package linux

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A process that is started inside a live session is a child of the sandbox's pid 1
// (newcomers.go): what confines pid 1 confines it, and in one landlock domain processes see
// and end one another, and look into one another, as on any machine. Their pid namespace
// keeps all others away.
//
// Where pid 1 starts none, a process uses the list of system calls that creates
// sandboxes, but it enters existing namespaces. It is born in the sandbox's pid namespace,
// as a child of the executor. It then has its own landlock domain, because a process cannot
// join an existing one: what takes the right to trace (memory, environment, open files)
// stops at the domain.
//
// In both cases processes of the sandbox can see it before it executes its command, but
// cannot inspect it: it is undumpable. Killing or stopping it meanwhile gains nothing.

// Enter implements Cell.
func (w *cell) Enter(c *executor.Command, create executor.Creator) error {
	w.pristine.Store(false)
	reports, report, err := reportPipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	s := w.newcomer(c)
	s.report = report
	defer s.closeFiles()
	if err := s.placeFiles(c.Files); err != nil {
		return err
	}
	s.inImage = w.zygote != nil
	script, begin, err := w.newcomerScript(s, c)
	if script == nil && err == nil {
		script = s.enteringScript(w.pidfd, c)
		weaken(script, w.wall.weaken)
		begin = func() (executor.Entered, error) { return startIn(script, w.pidfd, c) }
	}
	if err != nil {
		return err
	}
	if err := create(begin); err != nil {
		return err
	}
	report.Close()
	return executed(script, reports)
}

// ShowTerminals implements Cell. A thread of the executor enters the sandbox's mount namespace.
func (w *cell) ShowTerminals() error {
	return executor.InThread(func() error {
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(w.pidfd, unix.CLONE_NEWNS)); err != nil {
			return fmt.Errorf("enter the sandbox's mounts: %w", err)
		}
		return unix.Unmount("/dev/pts", unix.MNT_DETACH)
	})
}

// newcomer returns the sandbox adapted to a process that enters it.
func (w *cell) newcomer(c *executor.Command) *sandbox {
	box, request := *w.Box, *w.Request
	request.Argv, request.Env, request.Root = c.Argv, c.Env, c.Dir
	box.Request = &request
	return &sandbox{Box: &box, wall: w.wall, ruleset: w.ruleset}
}

// enteringScript returns the script of a process that enters the sandbox of an init.
func (s *sandbox) enteringScript(init int, c *executor.Command) *spawn.Script {
	namespaces := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	if s.Group != nil {
		namespaces |= unix.CLONE_NEWUTS // else it has its own
	}
	if !s.wall.Root || s.inImage {
		namespaces |= unix.CLONE_NEWUSER
	}
	var terminal []spawn.Step
	if c.Terminal != nil {
		terminal = []spawn.Step{spawn.Call("take the terminal", unix.SYS_IOCTL, s.files[0], unix.TIOCSCTTY, 0)}
	}
	return &spawn.Script{
		Alone: true,
		Group: c.Job.Folder(),
		Setup: join(s.closeOthers(init, c.Job), joinTasks(c.Job.Tasks()), usualSlice(), raiseOOMScore(),
			[]spawn.Step{forbidInspection(), spawn.Call("enter the namespaces", unix.SYS_SETNS, init, namespaces),
				leaveTerminal()}, terminal,
			s.limits(), s.dropBounding(), s.dropPrivilege(), s.landlock(), s.limitFiles()),
		Main:   s.becomeAnother(c.Paths),
		Report: int(s.report.Fd()),
	}
}

// newcomerScript returns the script of a process that pid 1 starts, and what asks for it. It
// returns nil if pid 1 does not start this one.
func (w *cell) newcomerScript(
	s *sandbox, c *executor.Command,
) (script *spawn.Script, begin func() (executor.Entered, error), err error) {
	if w.newcomers == nil {
		return nil, nil, nil
	}
	join, err := c.Job.Procs()
	if err != nil {
		return nil, nil, err
	}
	var steps []spawn.Step
	for _, f := range join {
		steps = append(steps, spawn.Call(joinStep, unix.SYS_WRITE, f, "0", 1))
	}
	steps = append(steps, leaveTerminal())
	for number, f := range s.files {
		steps = append(steps, spawn.Call("place the program's files", unix.SYS_DUP3, f, number, 0))
	}
	if c.Terminal != nil {
		steps = append(steps, spawn.Call("take the terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0))
	}
	steps = append(steps,
		spawn.Call("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, make([]byte, 8), 0, 8),
		spawn.Call("set umask", unix.SYS_UMASK, 0o022),
		spawn.Call("go to the workspace", unix.SYS_CHDIR, s.Request.Root))
	script = &spawn.Script{Main: append(steps, s.execute(c.Paths)...)}
	weaken(script, w.wall.weaken)
	message, files := spawn.EncodeNewcomer(s.report, script.Main)
	if message == nil {
		return nil, nil, nil
	}
	return script, func() (executor.Entered, error) { return w.newcomers.start(message, files) }, nil
}

// closeOthers closes the executor's other open files. Otherwise a program could stop
// the process and block a reader that waits for such a file to close.
func (s *sandbox) closeOthers(init int, j *cgroup.Job) (steps []spawn.Step) {
	keep := []int{init}
	if folder := j.Folder(); folder >= 0 {
		keep = append(keep, folder)
	}
	for _, f := range slices.Concat(s.files, j.Tasks(), []*os.File{s.report, s.ruleset}) {
		if f != nil {
			keep = append(keep, int(f.Fd()))
		}
	}
	slices.Sort(keep)
	next := 0
	for _, fd := range keep {
		if fd > next {
			steps = append(steps, closeFrom(next, fd-1))
		}
		next = fd + 1
	}
	return append(steps, closeFrom(next, lastFile))
}

// becomeAnother executes the first existing file of a list.
func (s *sandbox) becomeAnother(files []string) []spawn.Step {
	steps := slices.DeleteFunc(s.becomeProgram(), func(s spawn.Step) bool {
		return s.Name == ownSessionStep // it already has a session
	})
	return append(steps[:len(steps)-1], s.execute(files)...)
}

// execute executes the first existing file of a list.
func (s *sandbox) execute(files []string) (steps []spawn.Step) {
	argv, env := spawn.Strings(s.Request.Argv), spawn.Strings(s.Request.Env)
	for i, file := range files {
		step := spawn.Call("execute "+s.Request.Argv[0], unix.SYS_EXECVE, file, argv, env)
		step.OrNext = i < len(files)-1
		steps = append(steps, step)
	}
	return steps
}

// startIn starts the script of a command in the pid namespace of an init and, if no group
// tells what the command starts, in a namespace of host names of its own.
func startIn(s *spawn.Script, init int, c *executor.Command) (p executor.Entered, err error) {
	err = executor.InThread(func() (err error) {
		if c.Job == nil {
			if err := errors.Join(unix.Unshare(unix.CLONE_NEWUTS), unix.Sethostname([]byte(image.Hostname))); err != nil {
				return err
			}
			c.Names = executor.HostNamesOf("thread-self")
		}
		if err = unix.Setns(init, unix.CLONE_NEWPID); err == nil {
			p.PID, p.Pidfd, err = s.Start()
		}
		return err
	})
	return p, cloneError(err)
}

// cloneError returns the error for one of clone.
func cloneError(err error) error {
	switch {
	case errors.Is(err, unix.EAGAIN): // the limit of a control group or of the machine
		return executor.TooMany("the kernel makes no more")
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOMEM): // its init has ended, or is ending
		return executor.ErrNoProgram
	}
	return err
}

// executed waits until a process has executed its command.
func executed(s *spawn.Script, reports *os.File) error {
	list := []unix.PollFd{{Fd: int32(reports.Fd()), Events: unix.POLLIN}}
	if n, err := executor.PollUntil(list, time.Now().Add(executor.EnterTime)); n == 0 || err != nil {
		return errors.Join(errors.New("a process did not start in time"), err)
	}
	r, failed := spawn.ReadReport(reports)
	if !failed { // the pipe was closed: the command was executed, or the process was killed before that
		return nil
	}
	errno := unix.Errno(r.Value)
	if r.Kind != spawn.MainFailed || int(r.Index) >= len(s.Main) {
		return stepError(s, r)
	}
	switch step := s.Main[r.Index]; step.Nr {
	case unix.SYS_EXECVE:
		return &executor.Failure{Kind: engine.ErrInvalid, Field: "argv",
			Text: fmt.Sprintf("cannot %s: %v", step.Name, errno),
			Hint: "name a command that is installed, or a file of the workspace that may be executed"}
	case unix.SYS_CHDIR:
		return executor.NewFailure(engine.ErrInvalid, fmt.Sprintf("cannot start in that folder: %v", errno),
			"name a folder of the session to start in, or none for the workspace")
	}
	return stepError(s, r)
}
