package linux

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// handedProgram is what a waiting sandbox gets, with the open files stdin,
// stdout, stderr and, if there are calls, the channel for them. It is sent as a
// length, 4 bytes, that much of text (see encode), and the program's source, if
// that came with the request: Python then need not read its file.
type handedProgram struct {
	Argv      []string
	Env       []string // nil: the usual one
	Root      string
	EchoLast  bool
	ShowPlots bool
	Globals   []string // modules
	Alone     bool     // the program's file is the only one in its folder
}

// warm takes a waiting sandbox for a request, nil if it is to start cold. One that waits
// has its workspace already: if another was made for the program, a sandbox is made with that.
func (e *executor) warm(r *runRequest, made *workspace) (*waiting, error) {
	p := e.poolOf(r)
	switch {
	case p == nil || !r.isScript():
		return nil, nil
	case r.Live:
		return p.forkLive(r)
	case r.Held != "":
		return nil, nil
	case made != nil:
		return p.forkWith(shapeOf(r), made)
	}
	return p.take(shapeOf(r)), nil
}

// run is a run in a sandbox that waited for it. The answer is given as soon as
// the program is done and its files are sent; the sandbox is ended after that,
// and then the next is made.
func (w *waiting) run(l *link, r *runRequest, files, ends []*os.File) error {
	if pool := w.executor.poolOf(r); r.Live {
		w.executor.work.Go(func() { pool.refillLater(w.shape) })
	} else {
		defer pool.refill(w.shape)
	}
	defer w.close()
	defer w.executor.running.Add(-1)
	w.request = r
	if err := w.receiveInputs(l); err != nil {
		return err
	}
	if ends[0] == nil {
		ends[0] = w.null
	}
	proxy, err := w.openNetwork(r)
	if err != nil {
		return err
	}
	handed := handedProgram{Argv: r.Argv, Root: r.Root, EchoLast: r.EchoLast, ShowPlots: r.ShowPlots, Globals: r.Globals,
		Alone: r.alone()}
	if !slices.Equal(r.Env, w.executor.usual) {
		handed.Env = r.Env
	}
	if err := w.hand(handed, r.Code, ends); err != nil {
		if proxy != nil {
			proxy.Close()
		}
		return &failure{Kind: string(engine.ErrUnavailable), Text: "the waiting sandbox died", Again: true}
	}
	var meter []*os.File
	if r.Live {
		meter = w.group.Meter()
	}
	err = errors.Join(l.send(answer{Accepted: true}, meter...), l.sendProxy(proxy))
	closeAll(meter)
	if err != nil {
		return err
	}
	closeAll(files)
	watch := &watch{
		script: w.script, link: l, pid: w.pid, pidfd: int(w.pidfd.Fd()), timeout: r.limit(),
		executor: w.executor, warm: w, guard: w.executor.guard,
	}
	began := time.Now()
	done, err := watch.supervise(w.sandbox, w.reports)
	if err != nil {
		return err
	}
	done.Started = began
	return w.answer(l, done)
}

func (w *waiting) hand(p handedProgram, code []byte, ends []*os.File) error {
	message, err := p.encode()
	if err != nil {
		return err
	}
	body := binary.NativeEndian.AppendUint32(make([]byte, 0, 4+len(message)+len(code)), uint32(len(message)))
	return w.control.sendRaw(append(append(body, message...), code...), ends...)
}

// encode writes fields with a zero byte between them, which none of them has; nothing
// if all is as usual.
func (p *handedProgram) encode() (string, error) {
	if p.isUsual() {
		return "", nil
	}
	flags := []byte("0000")
	for i, yes := range []bool{p.EchoLast, p.ShowPlots, p.Alone, p.Env != nil} {
		if yes {
			flags[i] = '1'
		}
	}
	arguments := p.Argv[1:] // but for the interpreter
	fields := slices.Concat([]string{string(flags), p.Root, strings.Join(p.Globals, " "), strconv.Itoa(len(arguments))},
		arguments, p.Env)
	if slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(f, "\x00") }) {
		return "", errors.New("a zero byte in what a program is handed")
	}
	return strings.Join(fields, "\x00"), nil
}

// isUsual reports whether nothing distinguishes it but its source; buffer.py knows
// the rest.
func (p *handedProgram) isUsual() bool {
	return len(p.Argv) == 2 && p.Argv[1] == rootWorkspace+"/main.py" && p.Env == nil && p.Root == rootWorkspace &&
		!p.EchoLast && !p.ShowPlots && len(p.Globals) == 0 && p.Alone
}

// alone reports whether the program's file is the only one in its folder.
func (r *runRequest) alone() bool { return r.Inputs == 0 && r.Code != nil }
