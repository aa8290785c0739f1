package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A process that is started inside a sandbox uses the list of system calls that creates
// sandboxes, but it enters existing namespaces. It begins as a copy of the executor,
// born in the sandbox's pid namespace. Processes of the sandbox can see it, but cannot
// inspect it: the kernel forbids that while it has privileges, and it is undumpable
// when it drops them. Killing or stopping it meanwhile gains nothing.
//
// It has its own landlock domain, because a process cannot join an existing one. So the
// process and the program can neither signal nor inspect each other. The service's
// signals reach both.

// enterRequest starts a process in the sandbox of the program in a held workspace. Its
// stdin, stdout and stderr come with it, unless it gets a terminal.
type enterRequest struct {
	Held     string
	Argv     []string
	Env      []string
	Dir      string
	Terminal *engine.TerminalSize `json:",omitempty"`
}

func (r *enterRequest) check() error {
	others := append([]string{r.Dir}, r.Argv...)
	if err := checkStrings(r.Env, others, "the arguments, the environment or the folder"); err != nil {
		return err
	}
	switch {
	case len(r.Argv) == 0 || r.Argv[0] == "":
		return errors.New("no command")
	case !path.IsAbs(r.Dir):
		return errors.New("the folder to start in is not absolute")
	}
	return nil
}

// candidates returns the paths to try for the command, like execvp(3).
func (r *enterRequest) candidates() (list []string) {
	if strings.Contains(r.Argv[0], "/") {
		return r.Argv[:1]
	}
	for _, entry := range r.Env {
		if folders, ok := strings.CutPrefix(entry, "PATH="); ok {
			list = nil
			for folder := range strings.SplitSeq(folders, ":") {
				list = append(list, path.Join(folder, r.Argv[0]))
			}
		}
	}
	return list
}

// processControl is a message of the service to a running process.
type processControl struct{ Signal int }

// processEnd describes how a process ended.
type processEnd struct {
	Status int32 // as wait(2) gives it
	CPU    time.Duration
}

// enterTime bounds the time until a process executes its command. Other processes of
// its sandbox could stop it forever.
const enterTime = 10 * time.Second

// enter starts a process and waits until it has ended. Cancelling the request kills its
// process group.
func (e *executor) enter(l *link, r *enterRequest, files []*os.File) error {
	if err := r.check(); err != nil {
		return newFailure(engine.ErrInvalid, err.Error())
	}
	if r.Terminal == nil && len(files) != 3 || r.Terminal != nil && len(files) != 0 {
		return newFailure(engine.ErrInvalid, "wrong number of open files")
	}
	at, leave, err := e.standingIn(r.Held)
	if err != nil {
		return err
	}
	defer leave()
	owner, shares := at.sandbox.request.Owner, e.host.shares
	room, err := shares.pipes.take(owner, pipePages)
	if r.Terminal != nil {
		room, err = shares.terminals.take(owner, 1)
	}
	if err != nil {
		return err
	}
	defer room.release()
	open, err := shares.files.take(owner, filesOfProcess)
	if err != nil {
		return err
	}
	defer open.release()
	var passed []*os.File
	if r.Terminal != nil {
		t, err := openTerminal(at.sandbox.uid, *r.Terminal)
		if err != nil {
			return fmt.Errorf("open a terminal: %w", err)
		}
		defer t.close()
		if at.sandbox.ruleset != nil { // its names in /proc may be opened, like those of pipes
			if err := landlockAllow(at.sandbox.ruleset, int(t.root.Fd()), landlockDevice); err != nil {
				return err
			}
		}
		files, passed = []*os.File{t.slave, t.slave, t.slave}, []*os.File{t.master}
	}
	var pid, pidfd int
	err = e.gate.through(owner, func() (err error) {
		pid, pidfd, err = e.startInside(at, r, files)
		return err
	})
	closeAll(files...)
	if err != nil {
		return err
	}
	if err = l.send(answer{Accepted: true}, passed...); err == nil {
		closeAll(passed...) // else the end of the process would not close them
		err = at.entered.follow(l, pid, pidfd)
	}
	if err != nil {
		at.entered.signal(pid, unix.SIGKILL)
	}
	status, used := at.entered.reap(pid, pidfd)
	return l.send(answer{Ended: &processEnd{int32(status), used}})
}

// follow carries out the service's messages until a process has ended.
func (n *entered) follow(l *link, pid, pidfd int) error {
	service, err := l.number()
	if err != nil {
		return err
	}
	list := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(service), Events: unix.POLLIN}}
	polled, err := newPollSet(list)
	if err != nil {
		return err
	}
	defer polled.close()
	for {
		if _, err := polled.until(list, time.Time{}); err != nil || list[0].Revents != 0 {
			return err
		}
		var c processControl
		files, err := l.receive(&c)
		closeAll(files...)
		if err != nil {
			return err // it is abandoned
		}
		n.signal(pid, unix.Signal(c.Signal))
	}
}

// startInside starts a process and returns when it has executed its command.
func (e *executor) startInside(at *standing, r *enterRequest, files []*os.File) (pid, pidfd int, err error) {
	at.entered.starting.Lock()
	defer at.entered.starting.Unlock()
	if at.full() {
		return 0, 0, errTooMany
	}
	if err := at.still.refused(); err != nil { // its processes stand still, because they would be too many
		return 0, 0, err
	}
	reports, report, err := reportPipe()
	if err != nil {
		return 0, 0, err
	}
	defer reports.Close()
	r.Env = at.sandbox.addProxy(r.Env)
	s := at.newcomer(r)
	s.report = report
	defer s.closeFiles()
	if err := s.placeFiles(files); err != nil {
		return 0, 0, err
	}
	script := s.enteringScript(at.pidfd, r)
	weaken(script, e.config.Weaken)
	pid, pidfd, err = at.entered.make(func() (int, int, error) { return startIn(script, at.pidfd) })
	if err != nil {
		return 0, 0, err
	}
	report.Close()
	if err := executed(script, reports); err != nil {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		at.entered.reap(pid, pidfd)
		return 0, 0, err
	}
	return pid, pidfd, nil
}

// full reports whether the sandbox has reached its process limit: the kernel does not
// apply the limit to a process that enters a control group or a user namespace.
func (s *standing) full() bool {
	running := int64(len(s.entered.among(s.pid))) + 1
	if g := s.sandbox.group; g != nil {
		running = g.Processes()
	}
	return running > int64(s.sandbox.request.Processes)
}

// newcomer returns the sandbox adapted to a process that enters it.
func (s *standing) newcomer(r *enterRequest) *sandbox {
	request := *s.sandbox.request
	request.Argv, request.Env, request.Root = r.Argv, r.Env, r.Dir
	return &sandbox{host: s.sandbox.host, request: &request, uid: s.sandbox.uid, group: s.sandbox.group,
		ruleset: s.sandbox.ruleset}
}

// enteringScript returns the script of a process that enters the sandbox of an init.
func (s *sandbox) enteringScript(init int, r *enterRequest) *spawn.Script {
	namespaces := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !s.host.root {
		namespaces |= unix.CLONE_NEWUSER
	}
	var terminal []spawn.Step
	if r.Terminal != nil {
		terminal = []spawn.Step{spawn.Call("take the terminal", unix.SYS_IOCTL, s.files[0], unix.TIOCSCTTY, 0)}
	}
	return &spawn.Script{
		Alone: true,
		Group: s.group.Folder(),
		Setup: join(s.closeOthers(init), s.joinGroup(), usualSlice(), raiseOOMScore(),
			[]spawn.Step{forbidInspection(), spawn.Call("enter the namespaces", unix.SYS_SETNS, init, namespaces),
				leaveTerminal()}, terminal,
			s.limits(), s.dropBounding(), s.dropPrivilege(), s.landlock(), s.limitFiles()),
		Main:   s.becomeAnother(r.candidates()),
		Report: int(s.report.Fd()),
	}
}

// closeOthers closes the executor's other open files. Otherwise a program could stop
// the process and block a reader that waits for such a file to close.
func (s *sandbox) closeOthers(init int) (steps []spawn.Step) {
	keep := []int{init}
	if folder := s.group.Folder(); folder >= 0 {
		keep = append(keep, folder)
	}
	for _, f := range slices.Concat(s.files, s.group.Tasks(), []*os.File{s.report, s.ruleset}) {
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
	last := len(steps) - 1
	execute := steps[last]
	steps = steps[:last]
	for i, file := range files {
		step := spawn.Call(execute.Name, unix.SYS_EXECVE, file, spawn.Strings(s.request.Argv), spawn.Strings(s.request.Env))
		step.OrNext = i < len(files)-1
		steps = append(steps, step)
	}
	return steps
}

// startIn starts the script in the pid namespace of an init.
func startIn(s *spawn.Script, init int) (pid, pidfd int, err error) {
	err = inThread(func() (err error) {
		if err = unix.Setns(init, unix.CLONE_NEWPID); err == nil {
			pid, pidfd, err = s.Start()
		}
		return err
	})
	switch {
	case errors.Is(err, unix.EAGAIN): // the control group's limit
		err = errTooMany
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOMEM): // its init has ended, or is ending
		err = errNoProgram
	}
	return pid, pidfd, err
}

// executed waits until a process has executed its command.
func executed(s *spawn.Script, reports *os.File) error {
	list := []unix.PollFd{{Fd: int32(reports.Fd()), Events: unix.POLLIN}}
	if n, err := pollUntil(list, time.Now().Add(enterTime)); n == 0 || err != nil {
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
		return newFailure(engine.ErrInvalid, fmt.Sprintf("cannot %s: %v", step.Name, errno),
			"name a command that is installed, or a file of the workspace that may be executed")
	case unix.SYS_CHDIR:
		return newFailure(engine.ErrInvalid, fmt.Sprintf("cannot start in that folder: %v", errno))
	}
	return stepError(s, r)
}
