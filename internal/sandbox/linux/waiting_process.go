package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// warmProcess is a process that waits for a program, in a sandbox of its own that was
// made as any other that starts cold. It waits in a system call that the filter hands
// over to the executor. When there is a program, the executor puts its open files into
// the place of those that the process started with, and lets the call return: what
// then happens is what happens in a cold start. There are two kinds: a Node
// (waiting_node.go), and a program of ours that executes whatever command it is handed
// (waiting_command.go).
//
// Once it has its program nobody listens to such calls any more.
type warmProcess struct {
	*waiting
	kind         processShape
	language     language.Language // of a Node; else none
	compiler     *warmCompiler     // beside a Node, of a language that is compiled; else nil
	notification uint64            // the call in which it waits
	reportNumber int               // of the pipe for reports, in it
}

// processShape is what a waiting process is started for. Nothing in it is any
// caller's: what a caller gives comes with the program.
type processShape struct {
	shape
	root, home string // of a Node
}

// request is one for the waiting process itself, without a program.
func (s processShape) request(l language.Language) *runRequest {
	if l.Name == "" {
		return s.commandRequest()
	}
	return s.nodeRequest(l)
}

// processReadyTime is how long a process may take until it waits. It does so while
// nobody else wants the processor.
const processReadyTime = time.Minute

// startProcess makes a sandbox with a process that waits in it.
func (e *executor) startProcess(l language.Language, s processShape, how startMode) (_ *warmProcess, err error) {
	uid, err := e.leaseUID()
	if err != nil {
		return nil, err
	}
	box := &sandbox{host: e.host, request: s.request(l), uid: uid}
	w := &warmProcess{waiting: &waiting{sandbox: box, executor: e, shape: s.shape}, kind: s, language: l}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.workspace, err = newWorkspace(s.workspace, s.inodes, uid); err != nil {
		return nil, err
	}
	if err := w.furnish(e.host); err != nil {
		return nil, err
	}
	w.group.Idle(how != onDemand)
	if err := w.launch(); err != nil {
		return nil, fmt.Errorf("start a process that waits: %w", err)
	}
	if err := w.awaitQuestion(time.Now().Add(processReadyTime)); err != nil {
		return nil, fmt.Errorf("a process that was to wait: %w", err)
	}
	return w, nil
}

// launch starts the sandbox, up to where the process is executed in it.
func (w *warmProcess) launch() error {
	// Its stdin, stdout and stderr until the program's come: what it says there
	// is nobody's to read.
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reading.Close()
	defer writing.Close()
	control, theirs, err := newLinkPair()
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
	if w.language.Compile != nil {
		if w.compiler, err = w.newCompiler(nobodys); err != nil {
			return err
		}
		defer w.compiler.closeTheirs()
		w.script.Beside = w.compiler.sandbox.becomeProgram()
	}
	weaken(w.script, w.executor.config.Weaken)
	pid, pidfd, err := w.script.Start()
	if err != nil {
		return err
	}
	w.pid, w.pidfd = pid, os.NewFile(uintptr(pidfd), "process")
	for _, f := range []**os.File{&w.stdin, &w.stdout, &w.stderr, &w.answers, &w.report} {
		(*f).Close()
		*f = nil
	}
	theirs.Close()
	if r, ok := spawn.ReadReport(w.reports); ok && r.Kind != spawn.Started {
		return stepError(w.script, r)
	}
	var nothing struct{}
	files, err := w.control.receive(&nothing)
	if err == nil && len(files) == 1 {
		w.listener = files[0]
		return nil
	}
	closeAll(files)
	if r, ok := spawn.ReadReport(w.reports); ok {
		return stepError(w.script, r)
	}
	return errors.Join(err, errors.New("it sent nothing to listen to"))
}

// waitingScript is the script of a cold start, but that the executor is notified of
// the calls that the filter hands over: the end of it that listens is sent to
// the executor, in the place of the channel for calls. And pid 1 executes a program of
// its own, or it would keep a copy of the executor's memory for as long as it waits.
func (s *sandbox) waitingScript() *spawn.Script {
	script := s.script()
	last := len(script.Main) - 2 // the filter, and the program
	listen := spawn.Call(filterStep, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		s.host.filter)
	send := sendFile("send what listens", guest.AnswersFD)
	listen.Result = send.file
	program := script.Main[last+1]
	script.Main = append(script.Main[:last:last], listen, send.step, closeFrom(guest.AnswersFD, guest.AnswersFD))
	if s.request.Argv[0] == commandPath { // which closes it by itself
		keep := spawn.Call("keep the pipe for reports", unix.SYS_FCNTL, s.report, unix.F_SETFD, 0)
		script.Main = append(script.Main, keep)
	}
	script.Main = append(script.Main, program)
	if len(spawn.InitProgram()) > 0 {
		place := spawn.Call("place the pipe for reports", unix.SYS_DUP3, s.report, spawn.ReportFile, 0)
		script.Setup = slices.Insert(script.Setup, 0, place)
		script.Init = append(s.becomeInit(spawn.ReportFile), spawn.Call("execute init", unix.SYS_EXECVE, initPath,
			spawn.Strings([]string{initPath}), spawn.Strings(nil)))
	}
	return script
}

// awaitQuestion waits until the process says that it waits.
func (w *warmProcess) awaitQuestion(deadline time.Time) error {
	list := []unix.PollFd{{Fd: int32(w.listener.Fd()), Events: unix.POLLIN},
		{Fd: int32(w.pidfd.Fd()), Events: unix.POLLIN}}
	for {
		switch n, err := pollUntil(list, deadline); {
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

// handOver gives a program to the process that waits for it. From here on nobody
// listens to its calls.
func (w *warmProcess) handOver(r *runRequest, ends []*os.File) error {
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

// describe makes the file that tells the process of its program, and says how the
// program's own files are opened in it. Those that Node starts with are not inherited
// by what that executes.
func (w *warmProcess) describe(r *runRequest) (description *os.File, flags uint32, err error) {
	if w.language.Name != "" {
		description, err = w.describeToNode(r)
		return description, unix.O_CLOEXEC, err
	}
	description, err = w.describeCommand(r)
	return description, 0, err
}

// close ends the sandbox.
func (w *warmProcess) close() {
	if w.compiler != nil {
		w.compiler.close()
	}
	w.waiting.close()
}

// run is a run in a process that waited for it.
func (w *warmProcess) run(l *link, r *runRequest, files, ends []*os.File) error {
	defer w.close()
	defer w.executor.running.Add(-1)
	w.request = r
	if err := w.receiveInputs(l); err != nil {
		return err
	}
	if err := w.handOver(r, ends); err != nil {
		return &failure{Kind: string(engine.ErrUnavailable), Text: "the waiting sandbox died", Again: true}
	}
	if err := l.send(answer{Accepted: true}); err != nil {
		return err
	}
	closeAll(files)
	watch := &watch{executor: w.executor, script: w.script, link: l, pid: w.pid, pidfd: int(w.pidfd.Fd()),
		timeout: r.limit(), guard: w.executor.guard, reaped: len(spawn.InitProgram()) > 0}
	done, err := watch.supervise(w.sandbox, w.reports)
	if err != nil {
		return err
	}
	return w.answer(l, done)
}
