package linux

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Node takes far longer to start than most of its programs run. It cannot be
// forked, as it has threads; so a few wait, each in a sandbox of its own that
// was made as any other that starts cold, with the same command. The first file
// of ours that Node reads (waiting.cjs) asks for the program with a system call
// that the filter hands over to the executor. When there is a program, the
// executor puts its open files into the place of those that Node started with,
// and lets the call return: what then happens is what happens in a cold start.
//
// Once it has its program nobody listens to such calls any more.

// nodeProgram says that a program is one of Node's, which may wait for it. The
// executor makes the command itself, to see that it is what was asked for.
type nodeProgram struct {
	Language string
	Args     []string
}

// nodePath is the program of languages whose programs Node runs.
const nodePath = "/usr/bin/node"

// nodeShape is what a waiting Node is started for. Nothing in it is any
// caller's: what a caller gives comes with the program.
type nodeShape struct {
	shape
	root, home string
}

// warmNode is a Node that waits.
type warmNode struct {
	*waiting
	node         nodeShape
	notification uint64 // the call in which it stands
}

// A compiler beside a Node that waits for it takes more than one after the
// other: with less than this a program that is compiled starts cold.
const (
	compileMemory    = 256 << 20
	compileProcesses = 64
)

// shapeOf returns what a request's program may wait for, false if it is to
// start cold.
func (p *nodePool) shapeOf(r *runRequest) (nodeShape, bool) {
	l := p.language
	if r.Held != "" || r.Calls || r.Entry == "" || l.Compile == nil && r.Entry != l.Entry ||
		l.Compile != nil && (r.Memory < compileMemory || r.Processes < compileProcesses) {
		return nodeShape{}, false
	}
	program := language.Program{Entry: path.Join(r.Root, r.Entry), Args: r.Node.Args, Memory: r.Memory}
	if !slices.Equal(l.Command(program), r.Argv) {
		return nodeShape{}, false
	}
	s := nodeShape{shape: shapeOf(r), root: r.Root, home: r.Root}
	for _, entry := range r.Env {
		if home, ok := strings.CutPrefix(entry, "HOME="); ok {
			s.home = home
		}
	}
	if !slices.Contains([]string{"/", rootWorkspace, rootData}, s.home) {
		return nodeShape{}, false
	}
	usual := s.environment(l)
	for _, entry := range usual {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(r.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return nodeShape{}, false
		}
	}
	for _, entry := range r.Env {
		name, _, _ := strings.Cut(entry, "=")
		if readByNode(name) && !slices.Contains(usual, entry) {
			return nodeShape{}, false
		}
	}
	return s, true
}

// environment is what a Node of that shape starts with.
func (s nodeShape) environment(l language.Language) []string {
	return environment(&engine.Spec{Language: l, Root: s.root, Home: s.home})
}

// readByNode reports whether a variable of the environment has its effect when
// Node starts, or in the dynamic linker. All others are read when they are
// needed, and can be set before the program runs.
func readByNode(name string) bool {
	prefixes := []string{"NODE_", "UV_", "V8_", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "ICU_", "OPENSSL_", "SSL_",
		"TZ"}
	return name == "HOME" || slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// request is one for the Node itself, without a program.
func (s nodeShape) request(l language.Language) *runRequest {
	r := s.shape.request()
	r.Root, r.Env = s.root, s.environment(l)
	_, r.Argv = l.Steps(language.Program{Entry: path.Join(s.root, l.Entry), Memory: s.memory})
	return r
}

// nodeReadyTime is how long a Node may take to start. It does so while nobody
// else wants the processor.
const nodeReadyTime = time.Minute

// startNode makes a sandbox with a Node that waits in it.
func (e *executor) startNode(l language.Language, s nodeShape, how startMode) (_ *warmNode, err error) {
	uid, err := e.leaseUID()
	if err != nil {
		return nil, err
	}
	box := &sandbox{host: e.host, request: s.request(l), uid: uid}
	w := &warmNode{waiting: &waiting{sandbox: box, executor: e, shape: s.shape}, node: s}
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
	w.group.idle(how != onDemand)
	if err := w.launch(); err != nil {
		return nil, fmt.Errorf("start a Node that waits: %w", err)
	}
	if err := w.awaitQuestion(time.Now().Add(nodeReadyTime)); err != nil {
		return nil, fmt.Errorf("a Node that was to wait: %w", err)
	}
	return w, nil
}

// launch starts the sandbox, up to where Node is executed in it.
func (w *warmNode) launch() error {
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
	if w.reports, w.report, err = reportPipe(); err != nil {
		return err
	}
	if err := w.placeFiles([]*os.File{reading, writing, writing, theirs}); err != nil {
		return err
	}
	w.script = w.waitingScript()
	w.script.weaken(w.executor.config.Weaken)
	pid, pidfd, err := w.script.start()
	if err != nil {
		return err
	}
	w.pid, w.pidfd = pid, os.NewFile(uintptr(pidfd), "node")
	for _, f := range []**os.File{&w.stdin, &w.stdout, &w.stderr, &w.answers, &w.report} {
		(*f).Close()
		*f = nil
	}
	theirs.Close()
	if r, ok := readReport(w.reports); ok && r.kind != reportStarted {
		return w.script.stepError(r)
	}
	var nothing struct{}
	files, err := w.control.receive(&nothing)
	if err == nil && len(files) == 1 {
		w.listener = files[0]
		return nil
	}
	closeAll(files)
	if r, ok := readReport(w.reports); ok {
		return w.script.stepError(r)
	}
	return errors.Join(err, errors.New("it sent nothing to listen to"))
}

// waitingScript is the script of a cold start, but that the executor is notified of
// the calls that the filter hands over: the end of it that listens is sent to
// the executor, in the place of the channel for calls.
func (s *sandbox) waitingScript() *script {
	script := s.script()
	last := len(script.main) - 2 // the filter, and the program
	listen := call(filterStep, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		s.host.filter)
	send := sendFile("send what listens", answersFD)
	listen.result = send.file
	program := script.main[last+1]
	script.main = append(script.main[:last:last], listen, send.step, closeFrom(answersFD, answersFD), program)
	return script
}

// awaitQuestion waits until Node says that it waits.
func (w *warmNode) awaitQuestion(deadline time.Time) error {
	list := []unix.PollFd{{Fd: int32(w.listener.Fd()), Events: unix.POLLIN},
		{Fd: int32(w.pidfd.Fd()), Events: unix.POLLIN}}
	for {
		switch n, err := pollUntil(list, deadline); {
		case err != nil:
			return err
		case n == 0:
			return errors.New("it took too long")
		case list[0].Revents&unix.POLLIN == 0:
			if r, ok := readReport(w.reports); ok && r.kind == reportMainError {
				return w.script.stepError(r)
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

// handOver gives a program to the Node that waits for it. From here on nobody
// listens to its calls.
func (w *warmNode) handOver(r *runRequest, ends []*os.File) error {
	l, _ := language.Find(r.Node.Language)
	handed := language.NodeProgram{Args: r.Node.Args}
	handed.Compile, _ = l.Steps(language.Program{Entry: path.Join(r.Root, r.Entry), Memory: r.Memory})
	usual := w.node.environment(l)
	for _, entry := range r.Env {
		if name, value, _ := strings.Cut(entry, "="); !slices.Contains(usual, entry) {
			handed.Env = append(handed.Env, [2]string{name, value})
		}
	}
	text, err := json.Marshal(handed)
	if err != nil {
		return err
	}
	description, err := memoryFile("program", text)
	if err != nil {
		return err
	}
	defer description.Close()
	defer func() {
		w.listener.Close()
		w.listener = nil
	}()
	for number, f := range map[uint32]*os.File{0: ends[0], 1: ends[1], 2: ends[2], language.NodeHanded: description} {
		if err := installFile(w.listener, w.notification, f, number); err != nil {
			return fmt.Errorf("hand over a program's files: %w", err)
		}
	}
	return respond(w.listener, w.notification, 0)
}

// run is a run in a Node that waited for it.
func (w *warmNode) run(l *link, r *runRequest, files, ends []*os.File) error {
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
		timeout: r.Timeout, guard: w.executor.guard}
	done, err := watch.supervise(w.sandbox, w.reports)
	if err != nil {
		return err
	}
	return w.answer(l, done)
}
