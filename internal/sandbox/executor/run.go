package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Run runs one program; see engine.Sandbox.
func (s *Sandbox) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	if err := available(spec); err != nil {
		return nil, err
	}
	p, err := newProgram(spec)
	if err != nil {
		return nil, err
	}
	defer p.close()
	l, err := s.submit(ctx, p)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	p.closeTheirs()
	moves := newMover(l)
	if spec.Memory != nil && p.calls != nil {
		moves.resumed = p.calls.GoOn
	}
	host.SetControls(p.controls(l, moves, host, spec.Live))

	// Cancelling closes the service's half of the socket: the executor kills the
	// program and still answers. The service abandons an executor that does not answer.
	stop := context.AfterFunc(ctx, func() {
		l.closeWrite()
		l.SetReadDeadline(time.Now().Add(endTime))
	})
	defer stop()
	l.SetReadDeadline(time.Now().Add(spec.Limits.Timeout + stageTime + endTime))

	var reading sync.WaitGroup
	reading.Go(func() { p.outputs.pump(host) })
	calls, endCalls := context.WithCancel(ctx)
	if p.calls != nil {
		reading.Go(func() { p.calls.Serve(calls, host) })
	}
	outcome, _, err := collectAnswers(l, host, moves)
	close(moves.ended)
	if err != nil {
		p.close() // a program cannot outlive its executor, but a reader can
	}
	endCalls()
	if p.calls != nil {
		p.calls.Close()
	}
	reading.Wait()
	if err != nil {
		return nil, err
	}
	outcome.Cancelled = ctx.Err() != nil
	return outcome, nil
}

// submit hands a program to the executor. If the executor dies before it has accepted the
// program, the next executor gets it: the effects of the program are lost with its sandbox.
func (s *Sandbox) submit(ctx context.Context, p *program) (*Link, error) {
	defer s.lend(p)()
	var err error
	for try := range mostTries {
		var l *Link
		if l, err = s.open(ctx, request{Run: &p.request}, p.theirs...); err != nil {
			return nil, err
		}
		sent := l.sendInputs(p.list, p.files)
		var a answer
		l.SetReadDeadline(time.Now().Add(stageTime))
		files, received := l.Receive(&a)
		if received == nil && a.Accepted && sent == nil {
			p.meter = files
			return l, nil
		}
		CloseAll(files...)
		switch {
		case received == nil && a.Accepted:
			l.Close()
			return nil, lost(sent)
		case received == nil && a.Error != nil && a.Error.Again:
			l.Close()
			err = fromFailure("run", a.Error)
			continue
		case received == nil:
			l.Close()
			return nil, fromFailure("run", a.Error)
		}
		l.Close()
		if err = lost(errors.Join(sent, received)); try > 0 {
			break
		}
	}
	return nil, err
}

// mostTries bounds the attempts to submit a program. It exceeds the number of waiting
// Nodes, all of which may have just died.
const mostTries = MostNodes + 2

// collectAnswers reads up to the executor's last answer: how a program ended, or a live
// interpreter's usage. It passes on that the program was thawed, or stored.
func collectAnswers(l *Link, host engine.Host, moves *mover) (_ *engine.Outcome, _ *used, err error) {
	o := &engine.Outcome{}
	defer func() {
		if err != nil {
			for _, o := range o.Outputs {
				o.File.Close()
			}
		}
	}()
	for {
		var a answer
		files, err := l.Receive(&a)
		if err != nil {
			return nil, nil, lost(err)
		}
		if a.Error != nil {
			CloseAll(files...)
			return nil, nil, fromFailure("run", a.Error)
		}
		if a.Rest != nil && host != nil {
			host.Rest(a.Rest.Resting, a.Rest.Memory)
		}
		if a.Thawed && moves != nil {
			select {
			case moves.thawed <- struct{}{}: // one is asked for at a time
			default:
			}
		}
		if a.Resumed && moves != nil && moves.resumed != nil {
			moves.resumed()
			moves.resumed = nil
		}
		if a.Stored != nil && moves != nil {
			select {
			case moves.stored <- a.Stored: // the same
			default:
			}
		}
		if a.Network && len(files) == 1 && host != nil {
			host.Listener(files[0])
			continue
		}
		if len(files) != len(a.Outputs) {
			CloseAll(files...)
			return nil, nil, lost(errors.New("outputs and their files do not match"))
		}
		for i, out := range a.Outputs {
			if err := out.check(files[i]); err != nil {
				CloseAll(files[i:]...)
				return nil, nil, lost(err)
			}
			o.Outputs = append(o.Outputs, engine.Output{Path: out.Path, File: files[i], Size: out.Size, Input: out.Input,
				Respelled: out.Respelled})
		}
		o.Deleted = append(o.Deleted, a.Deleted...)
		for _, d := range a.Dropped {
			o.Dropped = append(o.Dropped, engine.DroppedFile(d))
		}
		if len(o.Outputs)+len(o.Deleted)+len(o.Dropped) > maxAnswers {
			return nil, nil, lost(errors.New("more files than a workspace can hold"))
		}
		if a.Done != nil {
			a.Done.fill(o)
		}
		if a.Done != nil || a.Used != nil {
			return o, a.Used, nil
		}
	}
}

// maxAnswers bounds what an executor can make the service store.
const maxAnswers = 1 << 16

// fill copies a program's outcome into an engine.Outcome.
func (d *outcome) fill(o *engine.Outcome) {
	o.TimedOut, o.OOM, o.StartedAt, o.Duration = d.TimedOut, d.OOM, d.Started, d.Duration
	o.CPU, o.MemoryPeak, o.Refused, o.Start = d.CPU, d.MemoryPeak, d.Refused, engine.StartCold
	if d.Warm {
		o.Start = engine.StartWarm
	}
	status := unix.WaitStatus(d.Status)
	code := status.ExitStatus()
	switch {
	case d.Lost && !d.OOM:
		return // killed by the executor: timeout or cancelled
	case d.Lost:
		code, o.Signal = 128+int(unix.SIGKILL), "SIGKILL"
	case status.Signaled():
		code, o.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	}
	if o.Signal == "SIGXCPU" { // as for every program that a limit kills
		code = 128 + int(unix.SIGKILL)
	}
	o.ExitCode = &code
}

// program is a run on the service's side: its request, and the files at both its ends.
type program struct {
	request RunRequest
	list    []input
	files   []*os.File // of list; owned by the caller, except for the code

	outputs *outputs
	calls   *guest.Channel // nil without calls
	theirs  []*os.File
	code    *os.File
	meter   []*os.File // usage files of a live program; see cgroup.Group.Meter
}

// controls returns the controls of a program.
func (p *program) controls(l *Link, moves *mover, host engine.Host, live bool) engine.Controls {
	controls := engine.Controls{Freeze: moves.freeze}
	if !live {
		return controls
	}
	controls.Interrupt, controls.Drain = l.interrupt, func() { p.outputs.await(host) }
	if p.calls != nil {
		controls.Store = func(to *os.File) error {
			if err := p.calls.WriteNote(to); err != nil {
				return err
			}
			return moves.store(to)
		}
		controls.Settle = moves.settle
	}
	if len(p.meter) == 2 {
		controls.Usage = func() (time.Duration, int64) { return cgroup.ReadMeter(p.meter) }
	}
	return controls
}

func newProgram(spec *engine.Spec) (_ *program, err error) {
	p := &program{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.list, p.files = fromInputs(spec.Inputs)
	entry, code := path.Join(spec.Root, spec.Entry), spec.Language.Source(spec.Code)
	python := spec.Language.Name == "python"
	echo, plots, globals := python && spec.EchoLast, python && spec.ShowPlots, spec.Globals
	if !python {
		globals = nil
	}
	inline := spec.Inline && spec.Language.Inline != nil && !echo && !plots && globals == nil || spec.Live
	long := !inline && len(code) > maxCode
	if long {
		if p.code, err = MemoryFile("code", []byte(code)); err != nil {
			return nil, err
		}
		p.list = append(p.list, input{Path: spec.Entry, Size: int64(len(code))})
		p.files = append(p.files, p.code)
	}
	l := spec.Limits
	p.request = RunRequest{
		Owner: string(spec.Owner), Packages: spec.Packages, python: pythonOf(spec),
		Argv: spec.Language.Command(language.Program{Entry: entry, Code: code, Inline: inline, Args: spec.Args,
			Memory: l.Memory}), Root: spec.Root,
		EchoLast: echo, ShowPlots: plots, Globals: globals, Folders: spec.Folders, Calls: spec.Calls, Inputs: len(p.list),
		Workspace: l.Workspace, Inodes: l.Inodes, Memory: l.Memory,
		Processes: l.Processes, CPUs: l.CPUs, CPUTime: l.CPUTime, Timeout: l.Timeout,
		Count: l.Files.Count, Bytes: l.Files.Bytes, Total: l.Files.Total,
	}
	if spec.Network != nil {
		p.request.Network, p.request.Authority = true, spec.Network.Certificate
	}
	if !python || spec.Network != nil || spec.Home != image.RootWorkspace || spec.Calls || len(spec.Env) > 0 ||
		spec.Locale != "" {
		p.request.Env = Variables(spec)
	}
	if !inline {
		p.request.Entry = spec.Entry
	}
	if !inline && !long {
		p.request.Code = []byte(code)
	}
	p.request.Mounts, p.request.Volumes, p.request.FileSize = spec.Mounts, spec.Volumes, spec.FileSize
	if spec.Image != nil {
		p.request.Image = spec.Image.ID
	}
	if !inline && python && spec.Held.IsZero() && startsAlike(spec) {
		modules := language.Imports(spec.Code)
		p.request.Tier, p.request.Imports = tierOf(modules), noteworthy(modules)
	}
	if spec.Live {
		p.request.live(spec)
	}
	if spec.Language.Run[0] == NodePath && spec.Image == nil && !spec.Live {
		p.request.Node = &nodeProgram{spec.Language.Name, spec.Args}
	}
	if !spec.Held.IsZero() {
		p.request.Held, p.request.Make = spec.Held.String(), spec.Make
	}
	return p, p.openFiles(spec)
}

// openFiles creates the program's stdin, stdout, stderr and channel for calls.
func (p *program) openFiles(spec *engine.Spec) error {
	var ours []*os.File
	for i := range streams {
		if spec.Merge && i > 0 {
			p.theirs = append(p.theirs, p.theirs[0])
			continue
		}
		pipe, err := newOutputEnds()
		if err != nil {
			CloseAll(ours...)
			return err
		}
		ours = append(ours, pipe.ours)
		p.theirs = append(p.theirs, pipe.theirs)
	}
	var err error
	if p.outputs, err = newOutputs(ours); err != nil {
		CloseAll(ours...)
		return err
	}
	if len(spec.Stdin) > 0 {
		stdin, err := MemoryFile("stdin", spec.Stdin)
		if err != nil {
			return err
		}
		p.request.Stdin = true
		p.theirs = append(p.theirs, stdin)
	}
	if !spec.Calls {
		return nil
	}
	calls, err := newPipeEnds(0)
	if err != nil {
		return err
	}
	p.theirs = append(p.theirs, calls.theirs)
	callsAt := len(p.theirs) - 1
	answers, err := newPipeEnds(1)
	if err != nil {
		calls.ours.Close()
		return err
	}
	p.theirs = slices.Insert(p.theirs, callsAt, answers.theirs)
	p.calls = guest.NewChannel(calls.ours, answers.ours, spec.Live)
	if spec.Memory != nil {
		p.request.Resumes = true
		p.theirs = append(p.theirs, spec.Memory)
		return p.calls.Resume(spec.Memory)
	}
	return nil
}

func (p *program) closeTheirs() {
	CloseAll(p.theirs...)
	p.theirs = nil
}

func (p *program) close() {
	p.closeTheirs()
	CloseAll(p.meter...)
	if p.code != nil {
		p.code.Close()
	}
	if p.outputs != nil {
		p.outputs.close()
	}
	if p.calls != nil {
		p.calls.Close()
	}
}

// MemoryFile returns a read-only file without a name that holds content.
func MemoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Variables returns all variables of a program. None is copied from the service.
func Variables(spec *engine.Spec) []string {
	env := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": spec.Home, "USER": "sandbox", "LOGNAME": "sandbox",
		"SHELL": "/bin/bash",
		"LANG":  localeOf(spec), "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache", "XDG_CONFIG_HOME": "/tmp/.config",
		"XDG_DATA_HOME": "/tmp/.local",
	}
	if spec.Network != nil {
		maps.Copy(env, proxyEnvironment(spec.Network))
	} else if spec.Language.Name != "python" {
		env["npm_config_fetch_retries"] = "0" // else npm asks for a minute until it says that there is no network
	}
	if spec.Calls {
		env["AIRLOCK_CALLS_FDS"] = fmt.Sprint(guest.AnswersFD, guest.CallsFD)
	}
	var ofImage []string
	if spec.Image != nil {
		ofImage = spec.Image.Env
		if shell, ok := spec.Image.Language("bash"); ok {
			env["SHELL"] = shell.Path
		}
	}
	return lastOfEach(slices.Concat(settings(env), spec.Language.Env, ofImage, settings(spec.Env)))
}

// localeOf returns the locale of a program: a shell would warn of one that is not there.
func localeOf(spec *engine.Spec) string {
	if spec.Locale == language.English && spec.Image == nil && hasEnglish() {
		return language.English
	}
	return language.Neutral
}

var hasEnglish = sync.OnceValue(func() bool { return language.HasEnglish(context.Background()) })

// settings returns the entries of an environment, sorted by name.
func settings(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// usualEnvironment returns the environment of a Python program, in an image or in none, whose
// request sets no variables.
func usualEnvironment(python language.Language, in *engine.Image) []string {
	return Variables(&engine.Spec{Language: python, Image: in, Root: image.RootWorkspace, Home: image.RootWorkspace})
}

// pythonOf returns the path of Python for a program.
func pythonOf(spec *engine.Spec) string {
	if spec.Image != nil {
		python, _ := spec.Image.Language("python")
		return python.Path
	}
	python, _ := language.Find("python")
	return python.Run[0]
}

// lastOfEach returns the last setting of each name.
func lastOfEach(list []string) []string {
	place := map[string]int{}
	var kept []string
	for _, entry := range list {
		name := entry[:max(0, slices.Index([]byte(entry), '='))]
		if i, ok := place[name]; ok {
			kept[i] = entry
			continue
		}
		place[name] = len(kept)
		kept = append(kept, entry)
	}
	return kept
}

// available returns ErrNoLanguage, with a remedy, if this host or the image lacks what the
// program needs.
func available(spec *engine.Spec) error {
	l := spec.Language
	if spec.Image != nil {
		if spec.Live && l.Name == "bash" && pythonOf(spec) == "" {
			return &engine.Error{Op: "run", Kind: engine.ErrNoLanguage,
				Err:  fmt.Errorf("the image %s has no Python, which a session in Bash needs", spec.Image.Name),
				Hint: "run programs there that are no sessions, or take an image with Python 3.11 to 3.14"}
		}
		return nil
	}
	command := l.Missing()
	if command == "" {
		return nil
	}
	return &engine.Error{
		Op: "run", Kind: engine.ErrNoLanguage, Err: fmt.Errorf("%s is not installed on this host: %s is missing", l.Title,
			command),
		Hint: fmt.Sprintf(
			"Install it there with `airlock setup --languages %s` (Debian: %s); `airlock doctor` tells what is missing.", l.Name,
			strings.Join(l.Packages, ", ")),
		Doctor: true,
	}
}
