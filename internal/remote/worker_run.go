package remote

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// run runs a program. One stream carries its output, its calls and its files.
func (w *Worker) run(rw http.ResponseWriter, r *http.Request, request *runRequest) error {
	spec := request.spec()
	if spec.Network != nil {
		var err error
		if spec.Network, err = w.config.Network.Accept(r.Context(), spec.Network); err != nil {
			return err
		}
	}
	if err := w.enter(!spec.Held.IsZero() && !spec.Make); err != nil {
		return err
	}
	defer w.runs.Done()
	seat, err := w.admission.enter(spec.Limits.Memory)
	if err != nil {
		return err
	}
	defer seat.leave()
	x := w.exchange(rw, r)
	done, err := x.perform(r.Context(), spec, request, seat)
	seat.leave() // what is free then, the answer says
	x.done(done, err)
	return nil
}

// done reports the end of a request.
func (x *exchange) done(r result, err error) {
	if err != nil {
		r = result{Error: newFailure(err)}
	}
	free := x.worker.admission.free()
	r.Free = &free
	_ = x.frames.sendJSON(kindDone, r) // fails if the api has disconnected
}

// perform runs the program, and stores its files.
func (x *exchange) perform(
	ctx context.Context, spec *engine.Spec, request *runRequest, seat *seat,
) (r result, err error) {
	release, err := x.useImage(ctx, spec.Image, seat)
	if err != nil {
		return r, err
	}
	defer release()
	if spec.Inputs, err = x.open(ctx, request.Inputs); err != nil {
		return r, err
	}
	defer closeInputs(spec.Inputs)
	if err := x.frames.sendJSON(kindStarted, x.worker.admission.free()); err != nil {
		return r, err
	}
	x.answers = make(chan received, 1)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &host{exchange: x, seat: seat, cancel: cancel, live: spec.Live, calls: map[uint64]chan callAnswer{}}
	connected, disconnect := context.WithCancelCause(ctx)
	defer disconnect(nil)
	go func() { disconnect(h.listen()); cancel() }() // ends with the request's body
	defer func() { h.ended.Store(true); x.worker.setIdle(h, false) }()
	if spec.Network != nil {
		h.lease = engine.NewLease(x.worker.config.Network.Egress, spec.Network.Grant, h.contacted)
	}
	outcome, err := x.worker.runIn(running, spec, request.Lease, h)
	h.endLease()
	if err != nil {
		return r, err
	}
	defer closeOutputs(outcome.Outputs)
	seat.rest(0) // storing needs the network, not the processor
	stored, dropped, err := x.store(connected, outcome.Outputs, true)
	if err != nil {
		return r, err
	}
	left := *outcome
	left.Outputs, left.Dropped = nil, append(left.Dropped, dropped...)
	return result{Outcome: &left, Outputs: stored}, nil
}

// runIn runs a program in the workspace of a lease, or without one.
func (w *Worker) runIn(
	ctx context.Context, spec *engine.Spec, l lease, h engine.Host,
) (outcome *engine.Outcome, err error) {
	if spec.Make {
		err = w.inNew(ctx, spec.Held, l, func() error {
			outcome, err = w.config.Sandbox.Run(ctx, spec, h)
			return err
		})
		return outcome, err
	}
	if !spec.Held.IsZero() {
		if _, err := w.leaseOf(spec.Held, l); err != nil {
			return nil, err
		}
	}
	return w.config.Sandbox.Run(ctx, spec, h)
}

func closeOutputs(list []engine.Output) {
	for _, o := range list {
		o.File.Close()
	}
}

// host is the engine.Host of a program. It passes calls to that of the api.
type host struct {
	exchange *exchange
	seat     *seat
	cancel   func() // ends the program
	live     bool   // the program is an interpreter, which waits for cells when it is stopped
	ended    atomic.Bool
	lease    *engine.Lease // nil: the program has no network

	mu       sync.Mutex
	last     uint64
	calls    map[uint64]chan callAnswer
	controls engine.Controls
}

// listen handles frames from the api until the stream ends.
func (h *host) listen() error {
	for {
		k, payload, err := h.exchange.frames.receive()
		if err != nil {
			return err
		}
		h.mu.Lock()
		controls := h.controls
		h.mu.Unlock()
		switch k {
		case kindCancel:
			h.cancel()
		case kindAddresses:
			h.exchange.answers <- received{k, payload}
		case kindAnswer:
			var a callAnswer
			if err := json.Unmarshal(payload, &a); err != nil {
				return err
			}
			h.mu.Lock()
			waits := h.calls[a.ID]
			delete(h.calls, a.ID)
			h.mu.Unlock()
			if waits != nil {
				waits <- a
			}
		case kindFreeze:
			motion := engine.GoOn
			if len(payload) == 1 {
				motion = engine.Motion(payload[0])
			}
			if motion == engine.GoOn {
				h.seat.wake()
			} else {
				h.seat.park()
			}
			if controls.Freeze != nil {
				_ = controls.Freeze(motion) // fails if the program has ended
			}
			if h.live {
				h.exchange.worker.setIdle(h, motion != engine.GoOn)
			}
		case kindInterrupt:
			if controls.Interrupt != nil {
				_ = controls.Interrupt()
			}
		case kindDrain:
			if controls.Drain != nil {
				controls.Drain()
			}
			if err := h.exchange.frames.send(kindDrain, payload); err != nil {
				return err
			}
		}
	}
}

// Output implements engine.Host.
func (h *host) Output(stream engine.Stream, data []byte) {
	k := kindStdout
	if stream == engine.Stderr {
		k = kindStderr
	}
	if h.exchange.frames.send(k, data) != nil {
		h.cancel()
	}
}

// Call implements engine.CallHandler.
func (h *host) Call(ctx context.Context, name string, input []byte) ([]byte, error) {
	waits := make(chan callAnswer, 1)
	h.mu.Lock()
	h.last++
	id := h.last
	h.calls[id] = waits
	h.mu.Unlock()
	if err := h.exchange.frames.sendJSON(kindCall, call{id, name, input}); err != nil {
		return nil, err
	}
	select {
	case a := <-waits:
		if a.Error != "" {
			return nil, errors.New(a.Error)
		}
		return a.Answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Listener implements engine.Host.
func (h *host) Listener(file *os.File) {
	if h.lease == nil {
		file.Close()
		return
	}
	h.lease.Listener(file)
}

// Contacted implements engine.Host. The sandboxes of a worker are on its machine.
func (h *host) Contacted(list []engine.Contact, _ string) { h.contacted(list) }

// contacted reports the hosts that the program contacts to the api, for its log.
func (h *host) contacted(list []engine.Contact) {
	_ = h.exchange.frames.sendJSON(kindContact, contacts{List: list})
}

// endLease ends the grant, so that its contacts are reported before the end of the run.
func (h *host) endLease() {
	if h.lease == nil {
		return
	}
	if err := h.lease.End(); err != nil {
		h.exchange.worker.config.Log.Error("a program's network could not be opened", "error", err)
		_ = h.exchange.frames.sendJSON(kindContact, contacts{Fault: err.Error()})
	}
}

// SetControls implements engine.Host.
func (h *host) SetControls(controls engine.Controls) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.controls = controls
}

// Rest implements engine.Host.
func (h *host) Rest(resting bool, memory int64) {
	if resting {
		h.seat.rest(memory)
	} else {
		h.seat.wake()
	}
	_ = h.exchange.frames.sendJSON(kindRest, rest{resting, memory})
}

// admission bounds the programs that a worker runs at once.
type admission struct {
	slots, seats int
	memory       int64

	mu              sync.Mutex
	running, seated int
	taken           int64
}

// seat is the share of one program in a worker.
type seat struct {
	of      *admission
	limit   int64 // of its memory
	counted int64 // memory that is reserved for it now
	resting bool
	parked  bool
}

// enter admits a program. It returns ErrBusy if there is no room.
func (a *admission) enter(memory int64) (*seat, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fits := a.seated < a.slots || a.memory > 0 && a.taken+memory <= a.memory
	if a.running >= a.slots || a.seated >= a.seats || !fits {
		return nil, &engine.Error{Op: "run", Kind: engine.ErrBusy, RetryAfter: time.Second,
			Err: errors.New("all slots of the worker are taken")}
	}
	a.running++
	a.seated++
	a.taken += memory
	return &seat{of: a, limit: memory, counted: memory}, nil
}

// rest frees the slot, and keeps memory reserved: all of the program's if memory is 0.
func (s *seat) rest(memory int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if !s.resting {
		s.resting = true
		s.of.running--
	}
	if memory > 0 {
		s.of.taken += memory - s.counted
		s.counted = memory
	}
}

// park frees slot, seat and memory, since the program is stopped until its api has an answer for it: an interpreter
// that waits for a cell keeps no other program from starting.
func (s *seat) park() {
	s.rest(0)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.unseat()
}

// unseat frees the seat. The caller holds mu.
func (s *seat) unseat() {
	if s.parked {
		return
	}
	s.parked = true
	s.of.seated--
	s.of.taken -= s.counted
	s.counted = 0
}

// wake takes what the program had again, even if nothing is free: the program cannot wait.
func (s *seat) wake() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.parked {
		s.parked = false
		s.of.seated++
	}
	if s.resting {
		s.resting = false
		s.of.running++
	}
	s.of.taken += s.limit - s.counted
	s.counted = s.limit
}

func (s *seat) leave() {
	s.rest(0)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.unseat()
}

// free returns how many more programs the worker admits.
func (a *admission) free() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, min(a.slots-a.running, a.seats-a.seated))
}

// withoutAddress removes a presigned address from an error: everyone who has it can use it.
func withoutAddress(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
