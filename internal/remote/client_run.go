package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// How often a worker that holds a workspace and cannot be reached is tried.
const dialEvery = 100 * time.Millisecond

// Run implements engine.Sandbox. A worker that refuses, or that is lost before it has
// started the program, is followed by another; after that nothing is tried again.
func (s *Sandbox) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	spec, err := s.stored(ctx, spec)
	if err != nil {
		return nil, err
	}
	if !spec.Held.IsZero() && !spec.Make {
		return s.runHeld(ctx, spec, host)
	}
	patience := time.NewTimer(s.config.Patience)
	defer patience.Stop()
	attempt := s.scheduler.attempt(spec.Packages, spec.Language.Name)
	var last error
	for {
		t, changed := attempt.next()
		if t != nil {
			outcome, started, err := s.try(ctx, t, spec, host)
			if started || err == nil || !elsewhere(err) {
				return outcome, err
			}
			last = err
			continue
		}
		if errors.Is(last, engine.ErrNetwork) { // which no wait changes
			return nil, last
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &engine.Outcome{Cancelled: true, StartedAt: time.Now()}, nil
		case <-patience.C:
			return nil, s.noRoom(last)
		}
	}
}

// runHeld runs a program in a workspace that a worker holds. A worker that cannot be
// reached comes back soon, or the workspace is gone: with it, or for this api.
func (s *Sandbox) runHeld(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	t, err := s.worker(spec.Held)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(dialEvery)
	defer again.Stop()
	for began := time.Now(); ; {
		s.scheduler.enter(t)
		outcome, _, err := s.try(ctx, t, spec, host)
		if _, unseen := errors.AsType[unreached](err); !unseen {
			return outcome, err
		}
		if isDeadHere(began, err) {
			s.scheduler.leave(t, spec.Held)
			return nil, noWorkspace(spec.Held)
		}
		select {
		case <-t.gone.Done():
			return nil, noWorkspace(spec.Held)
		case <-ctx.Done():
			return &engine.Outcome{Cancelled: true, StartedAt: time.Now()}, nil
		case <-again.C:
		}
	}
}

// elsewhere reports whether another worker may do what one has not.
func elsewhere(err error) bool {
	_, unseen := errors.AsType[unreached](err)
	return unseen || !errors.Is(err, errLost) &&
		(errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrNetwork))
}

// noRoom says why no worker took a program.
func (s *Sandbox) noRoom(last error) error {
	e := &engine.Error{Op: "run", Kind: engine.ErrUnavailable, RetryAfter: time.Second, Hint: "try again later"}
	if len(s.scheduler.all()) == 0 {
		e.Err, e.Cause = errors.New("no worker is there"), "no worker is there"
		return e
	}
	e.Err, e.Cause = fmt.Errorf("no worker has a free slot (%w)", last), "no worker had a free slot"
	if last == nil {
		e.Err = errors.New("no worker has a free slot")
	}
	return e
}

// stored makes sure that workers can get the inputs by their digest.
func (s *Sandbox) stored(ctx context.Context, spec *engine.Spec) (*engine.Spec, error) {
	inputs, err := s.storedInputs(ctx, spec.Inputs)
	if err != nil {
		return nil, err
	}
	known := *spec
	known.Inputs = inputs
	return &known, nil
}

func (s *Sandbox) storedInputs(ctx context.Context, list []engine.Input) ([]engine.Input, error) {
	inputs := make([]engine.Input, len(list))
	for i, in := range list {
		if in.SHA256 == (engine.Digest{}) && in.File != nil {
			b, err := s.config.Blobs.Put(ctx, io.NewSectionReader(in.File, 0, in.Size), in.Size)
			if err != nil {
				return nil, err
			}
			in.SHA256 = b.SHA256 // it stays pinned: whoever has no digests has no index either
		}
		inputs[i] = in
	}
	return inputs, nil
}

// try runs a program on a worker, where it has a slot already in our books. It reports
// whether it may have started.
func (s *Sandbox) try(
	ctx context.Context, t *target, spec *engine.Spec, host engine.Host,
) (_ *engine.Outcome, started bool, err error) {
	x := &visit{sandbox: s, target: t, inputs: spec.Inputs, host: host, computes: true, placing: true,
		drains: map[uint64]chan struct{}{}}
	defer x.leave()
	if spec.Make {
		s.places.Store(spec.Held, t.Epoch)
	}
	r, err := x.do(ctx, "/worker/v1/run", newRunRequest(spec), func() {
		if f, ok := host.(engine.Freezable); ok {
			f.Freezer(x.freeze)
		}
		if l, ok := host.(engine.Led); ok && spec.Live {
			l.Lead(engine.Reins{Interrupt: func() error { return x.frames.send(kindInterrupt, nil) }, Drain: x.drain})
		}
	})
	if err != nil {
		if errors.Is(err, engine.ErrBusy) && !x.started {
			x.compute(false)
			x.heard(0)
		}
		return nil, x.started, err
	}
	if r.Outcome == nil {
		return nil, true, lostWorker(errors.New("an answer without an outcome"))
	}
	r.Outcome.Outputs = outputsOf(r.Outputs)
	r.Outcome.Cancelled = ctx.Err() != nil
	return r.Outcome, true, nil
}

func outputsOf(list []output) []engine.Output {
	var outputs []engine.Output
	for _, o := range list {
		outputs = append(outputs, engine.Output{Path: o.Path, Blob: o.Blob, Head: o.Head, Size: o.Blob.Size, Input: o.Input,
			Respelled: o.Respelled})
	}
	return outputs
}

// Hold implements engine.Sandbox.
func (s *Sandbox) Hold(ctx context.Context, id engine.ID, inputs []engine.Input, limits engine.Limits) error {
	inputs, err := s.storedInputs(ctx, inputs)
	if err != nil {
		return err
	}
	err = s.noRoom(nil)
	attempt := s.scheduler.attempt(id.String(), "")
	for t, _ := attempt.next(); t != nil; t, _ = attempt.next() {
		x := &visit{sandbox: s, target: t, inputs: inputs, computes: true, placing: true}
		_, err = x.do(ctx, "/worker/v1/hold", holdRequest{ID: id, Inputs: newInputs(inputs), Limits: limits}, nil)
		x.leave()
		if err == nil {
			s.places.Store(id, t.Epoch)
			return nil
		}
		if !elsewhere(err) {
			return err
		}
	}
	return err
}

// Changes implements engine.Sandbox.
func (s *Sandbox) Changes(ctx context.Context, id engine.ID, limits engine.FileLimit) (*engine.Changes, error) {
	t, err := s.worker(id)
	if err != nil {
		return nil, err
	}
	x := &visit{sandbox: s, target: t}
	r, err := x.do(ctx, "/worker/v1/changes", changesRequest{id, limits}, nil)
	if err != nil {
		return nil, err
	}
	if r.Changes == nil {
		return nil, lostWorker(errors.New("an answer without changes"))
	}
	r.Changes.Outputs = outputsOf(r.Outputs)
	return r.Changes, nil
}

// visit is a request at a worker in which bytes of files come and go.
type visit struct {
	sandbox *Sandbox
	target  *target
	inputs  []engine.Input
	host    engine.Host
	frames  *frames
	started bool
	placing bool                 // it has a slot in our books, and the worker does not know of it yet
	pinned  []engine.Digest      // of blobs that came on the stream
	mark    string               // of what the worker stores in the bucket
	direct  map[engine.Blob]bool // the worker was to store it there
	stored  map[engine.Blob]bool // it has shown that it has it

	mu       sync.Mutex
	computes bool // it has a slot in our books
	drains   map[uint64]chan struct{}
	lastID   uint64
	calls    sync.WaitGroup
}

// leave gives the slot back.
func (x *visit) leave() {
	x.heard(unknown)
	x.compute(false)
}

// heard notes what the worker has free, as it says, and that it has let this one in or
// will not do so.
func (x *visit) heard(free int) {
	answered := 0
	if x.placing {
		answered, x.placing = 1, false
	}
	if answered > 0 || free != unknown {
		x.sandbox.scheduler.heard(x.target, free, answered)
	}
}

func (x *visit) compute(yes bool) {
	x.mu.Lock()
	change := 0
	switch {
	case yes && !x.computes:
		change = +1
	case !yes && x.computes:
		change = -1
	}
	x.computes = yes
	x.mu.Unlock()
	if change != 0 {
		x.sandbox.scheduler.count(x.target, change)
	}
}

func (x *visit) freeze(motion engine.Motion) error {
	x.compute(motion == engine.GoOn)
	return x.frames.send(kindFreeze, []byte{byte(motion)})
}

// drain returns when all has come that the program wrote until now.
func (x *visit) drain() {
	done := make(chan struct{})
	x.mu.Lock()
	if x.drains == nil {
		x.mu.Unlock()
		return
	}
	x.lastID++
	id := x.lastID
	x.drains[id] = done
	x.mu.Unlock()
	if x.frames.send(kindDrain, binary.BigEndian.AppendUint64(nil, id)) == nil {
		<-done
	}
}

// drained ends waits, all of them once nothing more comes.
func (x *visit) drained(id uint64, all bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for known, done := range x.drains {
		if all || known == id {
			close(done)
			delete(x.drains, known)
		}
	}
	if all {
		x.drains = nil
	}
}

// cancelTime is how long a worker has to end what was cancelled, and to store what it
// left.
const cancelTime = 30 * time.Second

// do sends a request, and does what the worker asks until it is done. begun is called
// when it has said that it starts.
func (x *visit) do(ctx context.Context, path string, request any, begun func()) (r result, err error) {
	if err := ctx.Err(); err != nil {
		return r, &engine.Error{Op: "run", Kind: engine.ErrCanceled, Err: err}
	}
	whole, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	defer context.AfterFunc(x.target.gone, func() { abandon(errSilent) })()
	read, write := io.Pipe()
	defer write.Close()
	// A request that waits for more of its body does not look at its context.
	defer context.AfterFunc(whole, func() { read.CloseWithError(context.Cause(whole)) })()
	var first bytes.Buffer
	if err := (&frames{w: &first}).sendJSON(kindRequest, request); err != nil {
		return r, err
	}
	x.frames = &frames{w: write}
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(cancelTime, func() { abandon(context.Cause(ctx)) })
		context.AfterFunc(whole, func() { timer.Stop() })
		_ = x.frames.send(kindCancel, nil)
	})
	defer stop()
	sent := &body{io.MultiReader(&first, read), read}
	answer, err := x.sandbox.request(whole, x.sandbox.streams, x.target, path, nil, sent)
	if err != nil {
		read.Close()
		return r, err
	}
	defer answer.Body.Close()
	defer read.Close()
	defer x.drained(0, true)
	defer x.calls.Wait()
	calling, end := context.WithCancel(ctx)
	defer end()
	x.frames.r = answer.Body
	for {
		k, payload, err := x.frames.receive()
		if err == nil {
			var done bool
			if done, err = x.react(ctx, calling, k, payload, &r, begun); done {
				return x.finished(whole, r)
			}
		}
		if err != nil {
			x.unpin()
			if cause := context.Cause(whole); cause != nil {
				err = cause
			}
			return result{}, lostWorker(unexpected(err))
		}
	}
}

// body is a request's body. Closing it ends a Read that waits: a connection that ends
// tells its streams only then.
type body struct {
	io.Reader
	io.Closer
}

// finished checks what a worker has said at the end.
func (x *visit) finished(ctx context.Context, r result) (result, error) {
	var err error
	if r.Error != nil {
		err = r.Error.err()
	} else {
		err = x.verify(ctx, r.Outputs)
	}
	if err != nil {
		x.unpin()
		return result{}, err
	}
	return r, nil
}

func (x *visit) unpin() {
	for _, d := range x.pinned {
		x.sandbox.config.Blobs.Unpin(d)
	}
	x.pinned = nil
}

// react does what one frame asks. It reports whether that was the last one.
func (x *visit) react(
	ctx, calling context.Context, k kind, payload []byte, r *result, begun func(),
) (done bool, err error) {
	switch k {
	case kindStdout, kindStderr:
		stream := engine.Stdout
		if k == kindStderr {
			stream = engine.Stderr
		}
		x.host.Output(stream, payload)
	case kindStarted:
		x.started = true
		if free, err := decodeJSON[int](payload); err == nil {
			x.heard(free)
		}
		if begun != nil {
			begun()
		}
	case kindNeed:
		b, err := decodeJSON[engine.Blob](payload)
		if err != nil {
			return false, err
		}
		return false, x.give(ctx, b)
	case kindOutputs:
		list, err := decodeJSON[[]engine.Blob](payload)
		if err != nil {
			return false, err
		}
		return false, x.takeOver(context.WithoutCancel(ctx), list)
	case kindCall:
		c, err := decodeJSON[call](payload)
		if err != nil {
			return false, err
		}
		x.calls.Go(func() { x.answer(calling, c) })
	case kindRest:
		n, err := decodeJSON[rest](payload)
		if err != nil {
			return false, err
		}
		x.compute(!n.Resting)
		if h, ok := x.host.(engine.Restful); ok && n.Resting {
			h.Rest(n.Memory)
		} else if ok {
			h.Wake()
		}
	case kindContact:
		return false, x.contacted(payload)
	case kindDrain:
		if len(payload) == 8 {
			x.drained(binary.BigEndian.Uint64(payload), false)
		}
	case kindDone:
		if err := json.Unmarshal(payload, r); err != nil {
			return false, err
		}
		if r.Free != nil && x.host != nil { // of a program: what is free now is free without it
			x.compute(false)
			x.heard(*r.Free)
		}
		return true, nil
	default:
		return false, fmt.Errorf("a frame %q", k)
	}
	return false, nil
}

// contacted hands on what the program has contacted.
func (x *visit) contacted(payload []byte) error {
	c, err := decodeJSON[contacts](payload)
	if h, ok := x.host.(engine.Contacted); ok && err == nil {
		h.Contacted(c.List, c.Fault)
	}
	return err
}

func (x *visit) answer(ctx context.Context, c call) {
	answer, err := x.host.Call(ctx, c.Name, c.Input)
	a := callAnswer{ID: c.ID, Answer: answer}
	if err != nil {
		a.Error = err.Error()
	}
	_ = x.frames.sendJSON(kindAnswer, a) // a worker that is gone has noticed
}
