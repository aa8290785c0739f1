package linux

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
)

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
	handed := guest.Program{Argv: r.Argv, Root: r.Root, EchoLast: r.EchoLast, ShowPlots: r.ShowPlots, Globals: r.Globals,
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

func (w *waiting) hand(p guest.Program, code []byte, ends []*os.File) error {
	message, err := p.Encode()
	if err != nil {
		return err
	}
	body := binary.NativeEndian.AppendUint32(make([]byte, 0, 4+len(message)+len(code)), uint32(len(message)))
	return w.control.sendRaw(append(append(body, message...), code...), ends...)
}

// alone reports whether the program's file is the only one in its folder.
func (r *runRequest) alone() bool { return r.Inputs == 0 && r.Code != nil }
