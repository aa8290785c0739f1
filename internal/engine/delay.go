package engine

import (
	"sync"
	"time"
)

// A delay calls a function once for several requests, a while after the first of them, in a
// goroutine of its own. Whoever has a delay ends it before the state that the function
// uses is closed.
type delay struct {
	call func()

	calls sync.WaitGroup // in progress
	mu    sync.Mutex
	timer *time.Timer
	due   bool // a call is to come
	ended bool
}

// start has the function called after wait, or earlier if it is due already. It reports false
// after end.
func (d *delay) start(wait time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended || d.due:
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, d.fire)
	default:
		d.timer.Reset(wait)
	}
	d.due = !d.ended
	return d.due
}

// stop cancels a call that is due.
func (d *delay) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.due {
		d.due = false
		d.timer.Stop()
	}
}

// end cancels a call that is due, and waits for those in progress. There are no more.
func (d *delay) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.stop()
	d.calls.Wait()
}

func (d *delay) fire() {
	d.mu.Lock()
	if !d.due {
		d.mu.Unlock()
		return
	}
	d.due = false
	d.calls.Add(1)
	d.mu.Unlock()
	defer d.calls.Done()
	d.call()
}
