package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A worker may hold workspaces that nobody leads any more: their api has ended, was cut off, or has lost sight of the
// worker, and their sessions went on elsewhere. Such a workspace lacks what was stored since. So each workspace is
// made under a lease, which requests for it name, and a session that comes back to a worker gets a new workspace with
// what is stored.

// lease names one workspace among all that its session ever had. The zero lease is that of an api of an earlier
// version, which names none.
type lease struct {
	Holder     int64 // epoch of the api
	Generation int64 // of the place of the session
	Number     int64 // no other workspace of the api has it
}

// leased is a workspace of a worker, or one that is being made.
type leased struct {
	lease
	since  time.Time
	orphan time.Time    // since when no api is known that has it; zero: one is
	use    sync.RWMutex // read-locked while its changes are collected
}

// errSuperseded is the cause when an api wants a workspace of a session that another one leads.
var errSuperseded = errors.New("the session was taken over by another node")

// claim makes way for the workspace of a lease: one of another lease is released.
func (w *Worker) claim(ctx context.Context, id engine.ID, l lease) error {
	w.mu.Lock()
	former := w.leases[id]
	if former != nil && former.Generation > l.Generation && l != (lease{}) {
		w.mu.Unlock()
		return &engine.Error{Op: "run", Kind: engine.ErrConflict, ID: id.String(), Err: errSuperseded}
	}
	w.leases[id] = &leased{lease: l, since: time.Now()}
	w.mu.Unlock()
	if former == nil || former.lease == l {
		return nil
	}
	former.use.Lock() // what is being stored is stored
	defer former.use.Unlock()
	return w.config.Sandbox.Release(ctx, id, 0)
}

// maxClaims bounds how often a workspace is made that is there already.
const maxClaims = 3

// inNew calls do, which makes the workspace of a lease. If there is another one in spite of the claim, that was made
// for an api that no longer leads the session.
func (w *Worker) inNew(ctx context.Context, id engine.ID, l lease, do func() error) error {
	if err := w.claim(ctx, id, l); err != nil {
		return err
	}
	var err error
	for range maxClaims {
		if err = do(); l == (lease{}) || engine.KindOf(err) != engine.ErrConflict {
			return err
		}
		if _, err := w.leaseOf(id, l); err != nil {
			return &engine.Error{Op: "run", Kind: engine.ErrConflict, ID: id.String(), Err: errSuperseded}
		}
		if err := w.config.Sandbox.Release(ctx, id, 0); err != nil {
			return err
		}
	}
	return err
}

// leaseOf returns the workspace of a lease. It is nil for an api of an earlier version.
func (w *Worker) leaseOf(id engine.ID, l lease) (*leased, error) {
	if l == (lease{}) {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.leases[id]; at != nil && at.lease == l {
		return at, nil
	}
	return nil, noWorkspace(id)
}

// use returns the workspace of a lease, which stays until done is called.
func (w *Worker) use(id engine.ID, l lease) (done func(), err error) {
	at, err := w.leaseOf(id, l)
	if at == nil {
		return func() {}, err
	}
	at.use.RLock()
	if again, err := w.leaseOf(id, l); again != at {
		at.use.RUnlock()
		return nil, errors.Join(err, noWorkspace(id))
	}
	return at.use.RUnlock, nil
}

// release releases the workspace of a lease. Without a number, that is one of the generation of the lease, or of an
// earlier one.
func (w *Worker) release(ctx context.Context, id engine.ID, l lease) error {
	w.mu.Lock()
	at := w.leases[id]
	if at != nil && l != (lease{}) && at.lease != l && (l.Number != 0 || at.Generation > l.Generation) {
		w.mu.Unlock()
		return nil // it was released before another one was made
	}
	delete(w.leases, id)
	w.mu.Unlock()
	return w.config.Sandbox.Release(ctx, id, 0)
}

// orphanTime is how long a workspace stays whose api is not known to any other. An api may be new, or have been heard
// of late.
const orphanTime = 10 * time.Second

// sweep releases workspaces whose apis have ended, and forgets the leases of those that are not there. apis are the
// epochs of those that are alive, as one of them knows.
func (w *Worker) sweep(ctx context.Context, apis []int64, held map[engine.ID]int64) {
	alive := map[int64]bool{0: true} // of which there is no epoch
	for _, epoch := range apis {
		alive[epoch] = true
	}
	now, gone := time.Now(), map[engine.ID]lease{}
	w.mu.Lock()
	for id, at := range w.leases {
		_, there := held[id]
		switch {
		case alive[at.Holder] && (there || now.Sub(at.since) < orphanTime):
			at.orphan = time.Time{}
		case at.orphan.IsZero():
			at.orphan = now
		case now.Sub(at.orphan) >= w.orphanTime && there:
			gone[id] = at.lease
		case now.Sub(at.orphan) >= w.orphanTime:
			delete(w.leases, id)
		}
	}
	w.mu.Unlock()
	for id, l := range gone {
		w.config.Log.Info("a workspace is released whose api has ended", "session", id)
		if err := w.release(ctx, id, l); err != nil {
			w.config.Log.Error("a workspace could not be released", "session", id, "error", err)
		}
	}
}

// sweepSoon is sweep in the background, one at a time: a beat does not wait for programs to end.
func (w *Worker) sweepSoon(ctx context.Context, apis []int64, held map[engine.ID]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sweeping || w.draining {
		return
	}
	w.sweeping = true
	w.runs.Add(1)
	go func() {
		defer w.runs.Done()
		w.sweep(ctx, apis, held)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sweeping = false
	}()
}
