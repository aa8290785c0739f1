package executor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

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
	Left   bool `json:",omitempty"` // what it started goes on, and another end without it follows
}

// EnterTime bounds the time until a process executes its command. Other processes of
// its sandbox could stop it forever.
const EnterTime = 10 * time.Second

// A Command is a process to start in a sandbox.
type Command struct {
	Paths     []string // to try for the program, one after the other
	Argv, Env []string
	Dir       string
	Terminal  *Terminal   // nil: it has none
	Files     []*os.File  // its stdin, stdout and stderr; of the terminal, if it has one
	Job       *cgroup.Job // nil without control groups
	Names     string      // without them Enter sets its namespace of host names, which it made for it
}

// An enteredProcess is a running process that entered a sandbox, with what it holds.
type enteredProcess struct {
	e          *executor
	at         *runningSandbox
	leave      func() // the sandbox
	room, open *holding
	job        *job
}

// enter starts a process and tells the service that it runs.
func (e *executor) enter(l *Link, r *enterRequest, files []*os.File) (_ *enteredProcess, err error) {
	if err := r.check(); err != nil {
		return nil, NewFailure(engine.ErrInvalid, err.Error())
	}
	if r.Terminal == nil && len(files) != 3 || r.Terminal != nil && len(files) != 0 {
		return nil, NewFailure(engine.ErrInvalid, "wrong number of open files")
	}
	at, leave, err := e.sandboxIn(r.Held)
	if err != nil {
		return nil, err
	}
	p := &enteredProcess{e: e, at: at, leave: leave}
	defer func() {
		if err != nil {
			p.release()
		}
	}()
	owner, shares := at.box.Request.Owner, e.machine.shares
	if r.Terminal != nil {
		p.room, err = shares.terminals.reserve(owner, 1)
	} else {
		p.room, err = shares.pipes.reserve(owner, pipePages)
	}
	if err != nil {
		return nil, err
	}
	if p.open, err = shares.files.reserve(owner, filesOfProcess); err != nil {
		return nil, err
	}
	c := &Command{Paths: r.candidates(), Argv: r.Argv, Env: at.box.addProxy(r.Env), Dir: r.Dir, Files: files}
	var passed []*os.File
	if r.Terminal != nil {
		t, err := at.openTerminal(*r.Terminal)
		if err != nil {
			return nil, fmt.Errorf("open a terminal: %w", err)
		}
		defer t.close()
		c.Terminal, c.Files, passed = t, []*os.File{t.slave, t.slave, t.slave}, []*os.File{t.master}
	}
	if err := e.gate.through(owner, func() (err error) {
		p.job, err = e.startInside(at, c)
		return err
	}); err != nil {
		return nil, err
	}
	if err := l.Send(answer{Accepted: true, PID: p.job.numberInside()}, passed...); err != nil {
		p.job.signal(unix.SIGKILL) // attend fails at once: the service has gone
	}
	return p, nil
}

// numberInside returns the number of the process in the sandbox.
func (p Entered) numberInside() int {
	if p.Inner != 0 {
		return p.Inner
	}
	status := kernelfile.Read(image.ProcPath+"/"+strconv.Itoa(p.PID), "status")
	_, numbers, _ := strings.Cut(status, "\nNSpid:")
	numbers, _, _ = strings.Cut(numbers, "\n")
	fields := strings.Fields(numbers)
	if len(fields) == 0 {
		return 0
	}
	return int(kernelfile.Int(fields[len(fields)-1]))
}

// attend waits until a process has ended, with all that it has started. Cancelling the
// request kills all of them.
func (p *enteredProcess) attend(l *Link) error {
	defer p.release()
	j := p.job
	err := j.follow(l)
	if err != nil {
		j.signal(unix.SIGKILL)
	}
	status, used := p.at.entered.reap(j.Entered)
	end := processEnd{int32(status), used, !j.empty()}
	if err := l.Send(answer{Ended: &end}); err != nil || !end.Left {
		return err
	}
	if err := j.outlast(l); err != nil {
		return err
	}
	end.Left = false
	return l.Send(answer{Ended: &end})
}

// release gives back what a process holds, and removes its group.
func (p *enteredProcess) release() {
	// If that is refused, or the sandbox has ended, the group goes with the sandbox's.
	if p.job != nil && !p.at.entered.isOver() {
		_ = p.e.gate.through(p.at.box.Request.Owner, func() error { p.job.close(); return nil })
	}
	p.open.release()
	p.room.release()
	p.leave()
}

// follow carries out the service's messages until a process has ended.
func (j *job) follow(l *Link) error {
	service, err := l.number()
	if err != nil {
		return err
	}
	list := []unix.PollFd{{Fd: int32(j.Pidfd), Events: unix.POLLIN}, {Fd: int32(service), Events: unix.POLLIN}}
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
		files, err := l.Receive(&c)
		CloseAll(files...)
		if err != nil {
			return err // it is abandoned
		}
		j.signal(unix.Signal(c.Signal))
	}
}

// startInside starts a process and returns when it has executed its command.
func (e *executor) startInside(at *runningSandbox, c *Command) (j *job, err error) {
	at.entered.starting.Lock()
	defer at.entered.starting.Unlock()
	if n, most := at.processes(); n > most {
		return nil, TooMany(fmt.Sprintf("%d of %d", n, most))
	}
	if err := at.freezer.refused(); err != nil { // its processes are frozen, because they would be too many
		return nil, err
	}
	if j, err = at.newJob(); err != nil {
		return nil, err
	}
	if c.Terminal == nil {
		at.box.ownPipes(c.Files)
	}
	c.Job = j.group
	defer c.Job.Close()
	var p Entered
	err = at.cell.Enter(c, func(create func() (Entered, error)) (err error) {
		p, err = at.entered.start(create)
		return err
	})
	if err != nil && p.Pidfd != 0 {
		_ = unix.PidfdSendSignal(p.Pidfd, unix.SIGKILL, nil, 0)
		at.entered.reap(p)
	}
	if err != nil {
		j.close()
		return nil, err
	}
	j.Entered, j.names = p, c.Names
	return j, nil
}

// processes returns how many processes the sandbox has, and its limit: the kernel does not apply it to a process that
// enters a control group or a user namespace.
func (s *runningSandbox) processes() (n, most int64) {
	most = int64(s.box.Request.Processes + s.box.Machine.can.Own.Processes)
	if g := s.box.Group; g != nil {
		return g.Processes(), most
	}
	return int64(len(s.entered.list(s.pid))) + 1, most
}
