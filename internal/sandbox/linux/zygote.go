package linux

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
)

// A zygote is a Python process that has imported what a tier of programs
// needs. Sandboxes forked from it start where a cold interpreter arrives after
// a second. It makes the same system calls as a cold sandbox, out of the same
// list; see zygote.py for its side.

//go:embed zygote.py
var zygoteProgram []byte

//go:embed rehearsal.py
var rehearsalProgram []byte

const (
	zygotePath    = runtimesPath + "/zygote.py"
	rehearsalPath = runtimesPath + "/rehearsal.py"
)

type zygote struct {
	tier tier
	link *link

	mu   sync.Mutex // one fork at a time
	dead bool
}

// zygoteHello is what a zygote needs to know before it imports anything.
type zygoteHello struct {
	Filter  string   `json:"filter"` // the system-call filter, hexadecimal
	Unshare int      `json:"unshare"`
	Setns   int      `json:"setns"`
	Finish  int      `json:"finish"`
	Reaper  string   `json:"reaper"` // machine code for pid 1 of what it forks; may be empty
	Rseq    int      `json:"rseq"`
	Preload []string `json:"preload"`
	Env     []string `json:"env"` // of most programs

	Confine []remoteStep `json:"confine"` // for itself and all that it forks
}

// zygoteReady is its answer.
type zygoteReady struct {
	LeftOut map[string]string // packages that could not be imported, and why
	Threads int
}

// startZygote starts a zygote and waits until it has imported its packages.
func (p *pool) startZygote() (*zygote, error) {
	ours, theirs, err := newLinkPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := p.launchZygote(theirs); err != nil {
		ours.close()
		return nil, err
	}
	z := &zygote{tier: p.tier, link: ours}
	if err := z.greet(p.executor.host, p.executor.config.Weaken); err != nil {
		ours.close()
		return nil, err
	}
	return z, nil
}

// launchZygote makes the process: in the image, with the executor's rights.
func (p *pool) launchZygote(socket *os.File) error {
	p.launching.Lock()
	defer p.launching.Unlock()
	if p.isClosed() {
		return errors.New("the executor ends")
	}
	e := p.executor
	tmp, err := newTmpfs(tmpSize, tmpInodes, e.host.uids.first, "1777")
	if err != nil {
		return err
	}
	defer tmp.Close()
	s := &sandbox{host: e.host, tmp: tmp, uid: e.host.uids.first, group: p.group}
	if err := s.linkFontCache(); err != nil {
		return err
	}
	null, err := os.OpenFile(imagePath+"/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	reports, report, err := reportPipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	defer report.Close()
	high, err := unix.FcntlInt(socket.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
	if err != nil {
		return err
	}
	control := os.NewFile(uintptr(high), "zygote")
	defer control.Close()
	python, _ := language.Find("python")
	argv := []string{python.Run[0], zygotePath}
	env := append([]string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}, python.Env...)
	script := &script{
		group: s.bornIn(), flags: unix.CLONE_NEWNS, report: int(report.Fd()),
		setup: join(s.joinGroup(), []step{
			moveMount("mount /tmp", tmp, imagePath+"/tmp"),
			mount("mount /proc", "proc", imagePath+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		}, s.enter()),
		init: []step{closeFrom(0, int(report.Fd())-1), closeFrom(int(report.Fd())+1, lastFile)},
		main: join([]step{
			call("place stdin", unix.SYS_DUP3, null, 0, 0),
			call("place stdout", unix.SYS_DUP3, null, 1, 0),
			call("place the socket", unix.SYS_DUP3, control, 3, 0),
			closeFrom(4, int(report.Fd())-1), closeFrom(int(report.Fd())+1, lastFile),
		}, forgetRuntime(), []step{
			call("execute "+argv[0], unix.SYS_EXECVE, argv[0], cstrings(argv), cstrings(env)),
		}),
	}
	pid, pidfd, err := script.start()
	if err != nil {
		return err
	}
	unix.Close(pidfd)
	report.Close()
	go func() { // its keeper ends when the zygote does, and both at the latest with this process
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	r, ok := readReport(reports)
	if ok && r.kind != reportStarted {
		return script.stepError(r)
	}
	return nil // whether it executes Python shows when it is greeted
}

// greet tells a zygote what it needs and waits until it is ready.
func (z *zygote) greet(h *host, weaken []string) error {
	namespace, err := os.Open(procPath + "/self/ns/pid")
	if err != nil {
		return err
	}
	defer namespace.Close()
	// Not before it is executed: root's capabilities would not outlive that.
	confine := &script{setup: (&sandbox{host: h}).dropBounding()}
	confine.weaken(weaken)
	hello := zygoteHello{
		Confine: (&remoteScript{}).steps(confine.setup),
		Filter:  hex.EncodeToString(filterBytes(h.filter)), Unshare: unix.SYS_UNSHARE, Setns: unix.SYS_SETNS, Finish: finishCall,
		Reaper: hex.EncodeToString(reaperCode()), Rseq: unix.SYS_RSEQ,
		Preload: z.tier.preload, Env: usualEnvironment(),
	}
	if err := z.link.send(hello, namespace); err != nil {
		return err
	}
	var ready zygoteReady
	files, err := z.link.receive(&ready)
	closeAll(files)
	if err != nil {
		return fmt.Errorf("the %s zygote ended while it imported its packages: %w", z.tier.name, err)
	}
	for name, reason := range ready.LeftOut {
		fmt.Fprintf(os.Stderr, "airlock executor: the %s zygote goes without %s: %s\n", z.tier.name, name, reason)
	}
	if ready.Threads != 1 {
		return fmt.Errorf("the %s zygote has %d threads", z.tier.name, ready.Threads)
	}
	return nil
}

// filterBytes is a filter's program as the kernel reads it.
func filterBytes(f *unix.SockFprog) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(f.Filter)), int(f.Len)*int(unsafe.Sizeof(unix.SockFilter{})))
}

// forkRequest asks a zygote for a sandbox. The numbers are of files that come
// with it.
type forkRequest struct {
	Setup, Init, Main []remoteStep
	Report, Control   int
	Listener          int // name of the result that is sent back when the sandbox stands
	Prepare           int
}

// How much a sandbox does before its program comes, so that it need not be
// done then. One that somebody waits for does nothing.
const (
	prepareNothing = iota
	preparePython
	preparePlots
)

// remoteStep is a step as a zygote makes it: the number of the call, a list of
// arguments, names of the call's result and of an earlier one's to begin the
// arguments with (0: none), and an argument, an offset in it, and the name of a
// result to put there. What is not needed is left out at the end.
type remoteStep []any

// An argument is a number, the bytes of a string in hexadecimal, an open file
// as a list of its number, or null for the filter.

// remoteScript turns lists of steps into what is sent.
type remoteScript struct {
	files   []*os.File
	results map[*int32]int
}

func (r *remoteScript) file(f *os.File) int {
	for i, known := range r.files {
		if known == f {
			return i
		}
	}
	r.files = append(r.files, f)
	return len(r.files) - 1
}

func (r *remoteScript) result(cell *int32) int {
	if cell == nil {
		return 0
	}
	if r.results[cell] == 0 {
		r.results[cell] = len(r.results) + 1
	}
	return r.results[cell]
}

func (r *remoteScript) steps(list []step) []remoteStep {
	remote := make([]remoteStep, len(list))
	for i, s := range list {
		args := make([]any, len(s.given))
		for j, given := range s.given {
			args[j] = r.argument(given)
		}
		remote[i] = remoteStep{int(s.nr), args}
		if s.result != nil || s.from != nil || s.filled.with != nil {
			remote[i] = append(remote[i], r.result(s.result), r.result(s.from), s.filled.argument, s.filled.offset, r.result(s.filled.with))
		}
	}
	return remote
}

func (r *remoteScript) argument(given any) any {
	switch given := given.(type) {
	case int:
		return given
	case uintptr:
		return int64(given)
	case string:
		return hex.EncodeToString([]byte(given)) // what reads it sees a NUL behind it
	case []byte:
		return hex.EncodeToString(given)
	case *unix.Rlimit:
		raw := binary.NativeEndian.AppendUint64(nil, given.Cur)
		return hex.EncodeToString(binary.NativeEndian.AppendUint64(raw, given.Max))
	case *unix.SockFprog:
		return nil
	case *os.File:
		return []int{r.file(given)}
	}
	panic(fmt.Sprintf("a zygote cannot be sent a %T", given))
}

func (z *zygote) isDead() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dead
}

// fork makes a sandbox that waits for its program. Its pid 1 is the zygote's
// child; the pidfd is how we know of it.
func (z *zygote) fork(script *script, report, control *os.File, prepare int) (pid int, pidfd *os.File, err error) {
	r := &remoteScript{results: map[*int32]int{}}
	request := forkRequest{
		Setup: r.steps(script.setup), Init: r.steps(script.init), Main: r.steps(script.main),
		Report: r.file(report), Control: r.file(control), Listener: r.result(script.listener), Prepare: prepare,
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.dead {
		return 0, nil, errors.New("the zygote is dead")
	}
	if err := z.link.send(request, r.files...); err != nil {
		z.dead = true
		return 0, nil, fmt.Errorf("the %s zygote died: %w", z.tier.name, err)
	}
	var answer struct{ Pid int }
	files, err := z.link.receive(&answer)
	if err != nil || len(files) != 1 {
		closeAll(files)
		z.dead = true
		return 0, nil, fmt.Errorf("the %s zygote died in a fork: %w", z.tier.name, errors.Join(err, errors.New("no answer")))
	}
	return answer.Pid, files[0], nil
}
