package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/trick"
)

// Some processes wait for a program, each in its own sandbox, created like any other
// that starts cold. Such a process waits in a system call that the filter hands over to
// the executor. For a program, the executor replaces the process's open files with the
// program's, and lets the call return. From then on it runs as in a cold start. There
// are two kinds: a Node (waiting_node.go), and an internal program that executes the
// command it receives. Once the process has its program, the executor no longer
// receives its calls.
//
// Creating a sandbox takes longer than most commands run. So a few processes wait for a
// command of any language, each with one page of machine code (spawn.CommandProgram)
// that asks for the command as Node does. A process has the sandbox's limits and
// folders, and no data of a caller; that comes with the command.

// processReadyTime bounds the time until a process waits. It starts while no program
// wants the processor.
const processReadyTime = time.Minute

// Await implements Wall.
func (l *wall) Await(b *executor.Box, of language.Language) (_ executor.Cell, err error) {
	if of.Name == "" { // a request for the process itself
		b.Request.Root, b.Request.Env, b.Request.Argv = "/", []string{}, []string{commandPath}
	}
	w := &cell{sandbox: &sandbox{Box: b, wall: l}, waits: true, language: of, environment: b.Request.Env}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := w.makeRules(); err != nil {
		return nil, err
	}
	if err := w.launch(); err != nil {
		return nil, fmt.Errorf("start a process that waits: %w", err)
	}
	if err := w.awaitQuestion(time.Now().Add(processReadyTime)); err != nil {
		return nil, fmt.Errorf("a process that was to wait: %w", err)
	}
	return w, nil
}

// launch starts the sandbox, up to the execution of the process in it.
func (w *cell) launch() error {
	// These are its stdin, stdout and stderr until it gets the program's. Its output to
	// them is not read.
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reading.Close()
	defer writing.Close()
	control, theirs, err := executor.NewLinkPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	w.control = control
	nobodys := []*os.File{reading, writing, writing}
	if w.reports, w.report, err = reportPipe(); err != nil {
		return err
	}
	if err := w.placeFiles(append(nobodys, theirs)); err != nil {
		return err
	}
	w.reportNumber = int(w.report.Fd())
	w.script = w.waitingScript()
	if w.language.Compile != nil && trick.On(trick.Compiler) {
		if w.compiler, err = w.newCompiler(nobodys); err != nil {
			return err
		}
		defer w.compiler.sandbox.closeFiles()
		w.script.Beside = w.compiler.sandbox.becomeProgram()
	}
	weaken(w.script, w.wall.weaken)
	if w.pid, w.pidfd, err = w.script.Start(); err != nil {
		return err
	}
	w.closeFiles()
	theirs.Close()
	if r, ok := spawn.ReadReport(w.reports); ok && r.Kind != spawn.Started {
		return stepError(w.script, r)
	}
	var nothing struct{}
	files, err := w.control.Receive(&nothing)
	if err == nil && len(files) == 1 {
		w.listener = files[0]
		return nil
	}
	executor.CloseAll(files...)
	if r, ok := spawn.ReadReport(w.reports); ok {
		return stepError(w.script, r)
	}
	return errors.Join(err, errors.New("it sent nothing to listen to"))
}

// waitingScript returns the script of a cold start with a filter that notifies the
// executor. The script sends the filter's listener to the executor, in place of the
// channel for calls. Pid 1 executes a program of its own: otherwise it would keep a
// copy of the executor's memory as long as it waits.
func (s *sandbox) waitingScript() *spawn.Script {
	script := s.script()
	last := len(script.Main) - 2 // the filter, and the program
	listen := spawn.Call(filterStep, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		s.wall.filter)
	send := sendFile("send what listens", guest.AnswersFD)
	listen.Result = send.file
	program := script.Main[last+1]
	script.Main = append(script.Main[:last:last], listen, send.step, closeFrom(guest.AnswersFD, guest.AnswersFD))
	if s.Request.Argv[0] == commandPath { // the process closes it by itself
		keep := spawn.Call("keep the pipe for reports", unix.SYS_FCNTL, s.report, unix.F_SETFD, 0)
		script.Main = append(script.Main, keep)
	}
	script.Main = append(script.Main, program)
	if len(spawn.InitProgram()) > 0 {
		s.executeInit(script, nil)
	}
	return script
}

// executeInit has pid 1 execute a program of its own, which has a socket unless that is nil.
func (s *sandbox) executeInit(script *spawn.Script, socket *os.File) {
	place := []spawn.Step{spawn.Call("place the pipe for reports", unix.SYS_DUP3, s.report, spawn.ReportFile, 0)}
	last := spawn.ReportFile
	if socket != nil {
		place = append(place, spawn.Call("place the socket of pid 1", unix.SYS_DUP3, socket, spawn.NewcomersFile, 0))
		last = spawn.NewcomersFile
	}
	script.Setup = slices.Insert(script.Setup, 0, place...)
	script.Init = []spawn.Step{closeFrom(0, spawn.ReportFile-1), closeFrom(last+1, lastFile)}
	if last > spawn.ReportFile {
		script.Init = append(script.Init, closeFrom(spawn.ReportFile+1, last-1))
	}
	script.Init = append(script.Init, usualTimerSlack(), s.seccomp(), spawn.Call("execute init", unix.SYS_EXECVE, initPath,
		spawn.Strings([]string{initPath}), spawn.Strings(nil)))
}

// awaitQuestion waits until the process reports that it waits.
func (w *cell) awaitQuestion(deadline time.Time) error {
	list := []unix.PollFd{{Fd: int32(w.listener.Fd()), Events: unix.POLLIN},
		{Fd: int32(w.pidfd), Events: unix.POLLIN}}
	for {
		switch n, err := executor.PollUntil(list, deadline); {
		case err != nil:
			return err
		case n == 0:
			return errors.New("it took too long")
		case list[0].Revents&unix.POLLIN == 0:
			if r, ok := spawn.ReadReport(w.reports); ok && r.Kind == spawn.MainFailed {
				return stepError(w.script, r)
			}
			return errors.New("it ended")
		}
		n, err := readNotification(w.listener)
		if err != nil {
			return err
		}
		if n.nr == unix.SYS_FTRUNCATE && n.args[1] == language.NodeWaits {
			w.notification = n.id
			return nil
		}
		errno := unix.ENOSYS
		if n.nr == unix.SYS_FTRUNCATE && n.args[1] == language.NodeMayWait {
			errno = 0
		}
		if err := respond(w.listener, n.id, errno); err != nil {
			return err
		}
	}
}

// handOver gives a program to the process that waits for it. From here on its calls are
// not received.
func (w *cell) handOver(ends []*os.File) error {
	r := w.Request
	description, flags, err := w.describe(r)
	if err != nil {
		return err
	}
	defer description.Close()
	defer func() {
		w.listener.Close()
		w.listener = nil
	}()
	if w.compiler != nil {
		program := language.Program{Entry: path.Join(r.Root, r.Entry), Memory: r.Memory}
		w.compiler.compile(w.language, program, ends[2])
		if err := installFile(w.listener, w.notification, w.compiler.verdict, language.NodeCompiled, flags); err != nil {
			return err
		}
	}
	for number, f := range append(slices.Clone(ends), description) {
		if f == description {
			number = language.NodeHanded
		}
		if err := installFile(w.listener, w.notification, f, number, flags); err != nil {
			return fmt.Errorf("hand over a program's files: %w", err)
		}
	}
	return respond(w.listener, w.notification, 0)
}

// describe creates the file that describes the program to the process, and returns the
// flags for opening the program's own files in it. The files of a Node are not
// inherited by the programs that it executes.
func (w *cell) describe(r *executor.RunRequest) (description *os.File, flags uint32, err error) {
	if w.language.Name != "" {
		description, err = w.describeToNode(r)
		return description, unix.O_CLOEXEC, err
	}
	description, err = w.describeCommand(r)
	return description, 0, err
}

// commandSteps are the steps that such a process executes by itself, in the order of their numbers.
func commandSteps(file string) []spawn.Step {
	return []spawn.Step{{Name: "go to the workspace"}, {Name: "execute " + file}}
}

// describeCommand creates the file that holds a command.
func (w *cell) describeCommand(r *executor.RunRequest) (*os.File, error) {
	command, err := spawn.EncodeCommand(r.Root, r.Argv, r.Env, w.reportNumber)
	if err != nil {
		return nil, err
	}
	w.script = &spawn.Script{Main: commandSteps(r.Argv[0])}
	return executor.MemoryFile("command", command)
}
