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
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// dialEvery is the interval in which an unreached worker that holds a workspace is tried.
const dialEvery = 100 * time.Millisecond

// Run implements engine.Sandbox. If a worker refuses, or fails before it has started the
// program, Run tries another one; a program that has started is not repeated.
func (s *Sandbox) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	if !spec.Held.IsZero() && !spec.Make {
		return s.runHeld(ctx, spec, host)
	}
	l, made, err := s.make(spec)
	if err != nil {
		return nil, err
	}
	defer made()
	timeout := time.NewTimer(s.config.QueueTime)
	defer timeout.Stop()
	search := s.scheduler.Search(environmentOf(spec), spec.Language.Name)
	var last error
	for {
		slot, changed := search.Next()
		if slot != nil {
			outcome, started, err := s.try(ctx, slot, spec, l, made, host)
			if err != nil && !started && ctx.Err() != nil {
				return &engine.Outcome{Cancelled: true, StartedAt: time.Now()}, nil
			}
			if started || err == nil || !elsewhere(err) {
				return outcome, err
			}
			last = err
			continue
		}
		if errors.Is(last, engine.ErrNetwork) || errors.Is(last, engine.ErrNoWall) { // waiting does not change that
			return nil, last
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &engine.Outcome{Cancelled: true, StartedAt: time.Now()}, nil
		case <-timeout.C:
			return nil, s.noRoom(last)
		}
	}
}

// make returns a lease for the workspace that a program makes, if it does. Until made is called, which is when the
// workspace is there, no other program makes one for the session.
func (s *Sandbox) make(spec *engine.Spec) (l lease, made func(), err error) {
	if !spec.Make {
		return l, func() {}, nil
	}
	made = s.places.lock(spec.Held)
	if _, at, err := s.worker(spec.Held); err == nil && at.Generation == spec.Generation {
		made()
		return l, nil, &engine.Error{Op: "run", Kind: engine.ErrConflict, ID: spec.Held.String(),
			Err: errors.New("another program has made the workspace")}
	}
	return s.places.newLease(s.config.Self(), spec.Generation), made, nil
}

// environmentOf returns the set of packages or the image of a program. Its runs prefer the same workers.
func environmentOf(spec *engine.Spec) string {
	if spec.Image != nil {
		return spec.Image.ID
	}
	return spec.Packages
}

// runHeld runs a program in a workspace that a worker holds. It waits for an unreached worker
// until the worker answers, is dead, or is dead for this api: then the workspace is lost.
func (s *Sandbox) runHeld(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	at, _ := s.places.get(spec.Held)
	if at.Generation != spec.Generation {
		s.places.drop(spec.Held, at)
	}
	t, l, err := s.worker(spec.Held)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(dialEvery)
	defer again.Stop()
	for began := time.Now(); ; {
		outcome, _, err := s.try(ctx, s.scheduler.takeSlot(t), spec, l, func() {}, host)
		if errors.Is(err, engine.ErrNotFound) {
			s.places.drop(spec.Held, at)
		}
		if _, unseen := errors.AsType[unreached](err); !unseen {
			return outcome, err
		}
		if isDeadHere(began, err) {
			s.scheduler.supersede(t, spec.Held, l)
			s.places.drop(spec.Held, at)
			return nil, noWorkspace(spec.Held)
		}
		select {
		case <-t.lost.Done():
			return nil, noWorkspace(spec.Held)
		case <-ctx.Done():
			return &engine.Outcome{Cancelled: true, StartedAt: time.Now()}, nil
		case <-again.C:
		}
	}
}

// elsewhere reports whether another worker may run the program after an error.
func elsewhere(err error) bool {
	_, unseen := errors.AsType[unreached](err)
	return unseen || !errors.Is(err, errLost) &&
		(errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrNetwork) ||
			errors.Is(err, engine.ErrNoWall))
}

// noRoom returns the error for a program that no worker admitted.
func (s *Sandbox) noRoom(last error) error {
	e := &engine.Error{Op: "run", Kind: engine.ErrUnavailable, RetryAfter: time.Second, Hint: "try again later"}
	if len(s.scheduler.all()) == 0 {
		e.Err, e.Cause = errors.New("no worker is there"), "no worker is there"
		return e
	}
	if own, ok := errors.AsType[*engine.Error](last); ok && own.Cause != "" {
		e.Err, e.Cause = last, own.Cause
		return e
	}
	e.Err, e.Cause = fmt.Errorf("no worker has a free slot (%w)", last), "no worker had a free slot"
	if last == nil {
		e.Err = errors.New("no worker has a free slot")
	}
	return e
}

// try runs a program in a slot of a worker. It reports whether the program may have started.
func (s *Sandbox) try(
	ctx context.Context, slot *Slot, spec *engine.Spec, l lease, made func(), host engine.Host,
) (_ *engine.Outcome, started bool, err error) {
	x := &visit{sandbox: s, target: slot.target, slot: slot, inputs: spec.Inputs, image: spec.Image, host: host,
		drains: map[uint64]chan struct{}{}}
	defer slot.release()
	if spec.Make {
		s.places.set(spec.Held, place{slot.Epoch(), l})
	}
	r, err := x.do(ctx, "/worker/v1/run", newRunRequest(spec, l), func() {
		controls := engine.Controls{Freeze: x.freeze}
		if spec.Live {
			controls.Interrupt = func() error { return x.frames.send(kindInterrupt, nil) }
			controls.Drain = x.drain
		}
		host.SetControls(controls)
		made()
	})
	if err != nil {
		if spec.Make && !x.started {
			s.places.drop(spec.Held, place{slot.Epoch(), l})
		}
		if errors.Is(err, engine.ErrBusy) && !x.started {
			slot.Refused()
		}
		return nil, x.started && !errors.Is(err, engine.ErrNoWall), err // without its wall no program starts
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
func (s *Sandbox) Hold(
	ctx context.Context, id engine.ID, generation int64, wall engine.Wall, inputs []engine.Input, limits engine.Limits,
) error {
	l := s.places.newLease(s.config.Self(), generation)
	err := s.noRoom(nil)
	search := s.scheduler.Search(id.String(), "")
	for slot, _ := search.Next(); slot != nil; slot, _ = search.Next() {
		x := &visit{sandbox: s, target: slot.target, slot: slot, inputs: inputs}
		q := holdRequest{ID: id, Lease: l, Wall: wall, Inputs: newInputs(inputs), Limits: limits}
		_, err = x.do(ctx, "/worker/v1/hold", q, nil)
		slot.release()
		if err == nil {
			s.places.set(id, place{slot.Epoch(), l})
			return nil
		}
		if !elsewhere(err) {
			return err
		}
	}
	return err
}

// Changes implements engine.Sandbox.
func (s *Sandbox) Changes(
	ctx context.Context, id engine.ID, limits engine.FileLimit, paths ...string,
) (*engine.Changes, error) {
	t, l, err := s.worker(id)
	if err != nil {
		return nil, err
	}
	x := &visit{sandbox: s, target: t}
	r, err := x.do(ctx, "/worker/v1/changes", changesRequest{id, l, limits, paths}, nil)
	if err != nil {
		return nil, err
	}
	if r.Changes == nil {
		return nil, lostWorker(errors.New("an answer without changes"))
	}
	r.Changes.Outputs = outputsOf(r.Outputs)
	return r.Changes, nil
}

// visit is a request to a worker whose stream carries files in both directions.
type visit struct {
	sandbox *Sandbox
	target  *target
	slot    *Slot // nil: the request needs none
	inputs  []engine.Input
	image   *engine.Image // of a program; nil: it has none
	fetches atomic.Bool   // the worker fetches the image
	host    engine.Host   // of a program; nil: the request runs none
	frames  *frames
	started bool
	pinned  []engine.Digest      // of blobs that came on the stream
	mark    string               // of objects that the worker stores in the bucket
	direct  map[engine.Blob]bool // the worker was told to store it in the bucket
	stored  map[engine.Blob]bool // the worker has proved that it has it

	mu     sync.Mutex
	drains map[uint64]chan struct{}
	lastID uint64
	calls  sync.WaitGroup
}

func (x *visit) freeze(motion engine.Motion) error {
	x.slot.setComputing(motion == engine.GoOn)
	return x.frames.send(kindFreeze, []byte{byte(motion)})
}

// drain returns once all output that the program has written until now has arrived.
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

// drained ends the wait for a drain, or all of them when the stream ends.
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

// cancelTime is how long a worker has to end a cancelled program and to store its files.
const cancelTime = 30 * time.Second

// do sends a request, and serves the frames of the worker until its result. It calls begun,
// which may be nil, when the worker reports that it starts.
func (x *visit) do(ctx context.Context, path string, request any, begun func()) (r result, err error) {
	if err := ctx.Err(); err != nil {
		return r, &engine.Error{Op: "run", Kind: engine.ErrCanceled, Err: err}
	}
	whole, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	defer context.AfterFunc(x.target.lost, func() { abandon(context.Cause(x.target.lost)) })()
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
		if x.fetches.Load() { // it does not listen, and nothing of the program is lost
			abandon(context.Cause(ctx))
			return
		}
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
			if !x.started && ctx.Err() != nil {
				return result{}, &engine.Error{Op: "run", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
			}
			if cause := context.Cause(whole); cause != nil {
				err = cause
			}
			return result{}, lostWorker(unexpected(err))
		}
	}
}

// body is the body of a request. Closing it ends a Read that waits: the transport closes it
// when the connection ends.
type body struct {
	io.Reader
	io.Closer
}

// finished checks the result of a worker.
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

// react handles one frame. It reports whether that was the last one.
func (x *visit) react(
	ctx, calling context.Context, k kind, payload []byte, r *result, begun func(),
) (done bool, err error) {
	if x.host == nil && k != kindNeed && k != kindOutputs && k != kindStarted && k != kindDone {
		return false, fmt.Errorf("a frame %q without a program", k)
	}
	switch k {
	case kindStdout, kindStderr:
		stream := engine.Stdout
		if k == kindStderr {
			stream = engine.Stderr
		}
		x.host.Output(stream, payload)
	case kindImage:
		return false, x.provideImage(ctx)
	case kindStarted:
		x.started = true
		x.fetches.Store(false)
		var free int
		if json.Unmarshal(payload, &free) == nil {
			x.slot.Started(free)
		}
		if begun != nil {
			begun()
		}
	case kindNeed:
		return false, decoded(payload, func(b engine.Blob) error { return x.provide(ctx, b) })
	case kindOutputs:
		return false, decoded(payload, func(list []engine.Blob) error {
			return x.accept(context.WithoutCancel(ctx), list)
		})
	case kindCall:
		return false, decoded(payload, func(c call) error {
			x.calls.Go(func() { x.answer(calling, c) })
			return nil
		})
	case kindRest:
		return false, decoded(payload, x.rest)
	case kindContact:
		return false, decoded(payload, func(c contacts) error {
			x.host.Contacted(c.List, c.Fault)
			return nil
		})
	case kindDrain:
		if len(payload) == 8 {
			x.drained(binary.BigEndian.Uint64(payload), false)
		}
	case kindDone:
		if err := json.Unmarshal(payload, r); err != nil {
			return false, err
		}
		if r.Free != nil && x.host != nil { // the worker does not count the program any more
			x.slot.Ended(*r.Free)
		}
		return true, nil
	default:
		return false, fmt.Errorf("a frame %q", k)
	}
	return false, nil
}

// rest notes that the program waits, or computes again.
func (x *visit) rest(r rest) error {
	x.slot.setComputing(!r.Resting)
	x.host.Rest(r.Resting, r.Memory)
	return nil
}

func (x *visit) answer(ctx context.Context, c call) {
	answer, err := x.host.Call(ctx, c.Name, c.Input)
	a := callAnswer{ID: c.ID, Answer: answer}
	if err != nil {
		a.Error = err.Error()
	}
	_ = x.frames.sendJSON(kindAnswer, a) // if it fails, do returns the error of the connection
}
