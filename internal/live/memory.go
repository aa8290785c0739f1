package live

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Memory says whether variables and processes are wanted with the files of a session.
type Memory uint8

// The wishes.
const (
	MemoryIfKept Memory = iota // if its wall keeps memory
	WithMemory                 // else the request is refused
	WithoutMemory
)

// of reports whether the memory of a session is kept as wanted.
func (m Memory) of(session engine.Session, op string) (bool, error) {
	kept := keepsMemory(session)
	switch {
	case m != WithMemory || kept:
		return m != WithoutMemory && kept, nil
	case session.Wall.KeepsMemory():
		return false, &engine.Error{Op: op, Kind: engine.ErrInvalid, ID: "memory",
			Err:  errors.New("a session with secrets is not kept in memory: what stands for them there would be of no use"),
			Hint: `Ask for the files alone, with "memory": false.`}
	}
	return false, engine.RefuseMemory(op)
}

// keepsMemory reports whether a session can be stored with its memory. One with secrets has their placeholders there,
// which are others each time.
func keepsMemory(session engine.Session) bool {
	return session.Wall.KeepsMemory() && len(Secrets(session.Live)) == 0
}

// remember stores the session with its memory. Its interpreter has ended then, for the reason why, and goes on with the
// next use; without a reason it goes on at once. A session without an interpreter is as it was.
func (at *session) remember(ctx context.Context, op, why string) error {
	at.mu.Lock()
	it := at.interpreter
	switch {
	case it == nil || it.ending != "":
		at.mu.Unlock()
		return nil
	case !it.began || at.current != nil || len(at.orders) > 0 || it.keeping != nil:
		at.mu.Unlock()
		return &engine.Error{Op: op, Kind: engine.ErrBusy, ID: at.id.String(), RetryAfter: time.Second,
			Err:  errors.New("the session is busy"),
			Hint: "The session runs a cell, or starts: wait until it has ended, or interrupt it"}
	}
	done := make(chan struct{})
	it.keeping, it.kept = done, why != ""
	if why != "" {
		it.ending, it.vacate = why, true // nothing else ends it, and no order reaches it
	}
	controls := it.controls
	at.mu.Unlock()
	defer close(done)
	saved, err := at.service.engine.SaveMemory(ctx, at.record, controls, why == "")
	at.mu.Lock()
	defer at.mu.Unlock()
	it.keeping = nil
	at.stored = at.service.changes.Add(1)
	at.note(&saved, nil)
	if err == nil {
		return nil
	}
	if it.kept = false; why != "" {
		it.ending, it.vacate = "", false // it goes on, unless the attempt has ended it
		it.call()
	}
	return err
}

// addMemory adds the memory of a session that runs to its stored files, if it is wanted, until forget is called. A
// session that does not run has what it was stored with.
func (s *Service) addMemory(
	ctx context.Context, caller engine.Caller, id engine.ID, op string, memory Memory,
) (keep bool, forget func(), err error) {
	forget = func() {}
	of, err := s.engine.GetSession(ctx, caller, id)
	if err == nil {
		keep, err = memory.of(of, op)
	}
	if err != nil || !keep || of.Kind != engine.SessionLive {
		return keep, forget, err
	}
	at, err := s.find(ctx, caller, id)
	if err == nil {
		err = at.remember(ctx, op, "")
	}
	if err != nil || !at.alive() {
		return keep, forget, err
	}
	return keep, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if err := s.engine.ForgetMemory(ctx, at.record); err != nil {
			s.log.Error("a session goes on, and its stored memory is still there", "session", id, "error", err)
		}
	}, nil
}

// doze stores an idle session with its memory. If that fails, its interpreter ends without. An error says that it is no
// longer idle.
func (at *session) doze(why string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	err := at.remember(ctx, "pause", why)
	if err == nil || engine.KindOf(err) == engine.ErrBusy {
		return err
	}
	at.service.log.Warn("a session ends without its memory, which could not be stored", "session", at.record.ID,
		"error", err)
	at.endNow(why)
	return nil
}

// PauseAll stores the sessions with their memory, where that can be, before a service stops. Their processes go on with
// them. Cells that run have until ctx ends.
func (s *Service) PauseAll(ctx context.Context) {
	var all sync.WaitGroup
	storing := make(chan struct{}, runtime.GOMAXPROCS(0)) // as many at once as there are processors
	for _, at := range s.all() {
		if at.id == at.record.ID && keepsMemory(at.record) {
			all.Go(func() { at.rememberIdle(ctx, storing) })
		}
	}
	all.Wait()
}

// rememberIdle stores a session with its memory once it is idle. If it is not before ctx ends, or has a question to a
// client, it ends without.
func (at *session) rememberIdle(ctx context.Context, storing chan struct{}) {
	look := time.NewTicker(busyLook)
	defer look.Stop()
	for {
		busy, asks := at.isBusy()
		if !busy {
			storing <- struct{}{}
			err := at.doze(shutDown)
			<-storing
			if err == nil {
				return
			}
		}
		select {
		case <-look.C:
			if !asks {
				continue
			}
		case <-ctx.Done():
		}
		at.service.log.Warn("a session ends without its memory: it was busy when the service had to stop", "session",
			at.record.ID, "asks", asks)
		return
	}
}

// shutDown is why a session ends that is stored as its service stops.
const shutDown = "The service was shut down."

// busyLook is how often a service that stops looks for sessions that run a cell.
const busyLook = 50 * time.Millisecond

// isBusy reports whether the interpreter of a session has something to do, and whether that waits for a client.
func (at *session) isBusy() (busy, asks bool) {
	at.mu.Lock()
	defer at.mu.Unlock()
	it := at.interpreter
	if it == nil || it.ending != "" {
		return false, false
	}
	return !it.began || at.current != nil || len(at.orders) > 0, it.asks.First() != nil
}

// goOn notes that the interpreter has gone on as it was stored: it has been set up, and has its variables. What it
// has in common with other copies it is told to forget.
func (it *interpreter) goOn(ctx context.Context) {
	at := it.at
	if err := at.service.engine.ForgetMemory(ctx, at.record); err != nil {
		at.service.log.Error("a session goes on, and its stored memory is still there", "session", at.record.ID, "error", err)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	it.fresh, at.why = false, ""
	at.orders = slices.DeleteFunc(at.orders, func(o *order) bool { return o.do == setupOrder })
	at.orders = slices.Insert(at.orders, 0, &order{do: reseedOrder, reply: make(chan reply, 1), text: struct {
		Do string `json:"do"`
	}{reseedOrder}})
}

// reseedOrder has an interpreter begin its random numbers anew.
const reseedOrder = "reseed"

// Forgot implements engine.Resident.
func (it *interpreter) Forgot(why error) {
	it.at.mu.Lock()
	defer it.at.mu.Unlock()
	it.at.why = "It could not go on with its memory: " + why.Error()
}
