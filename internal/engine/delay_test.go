package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelay(t *testing.T) {
	const wait = time.Second
	for _, test := range []struct {
		name string
		do   func(d *delay)
		want int // calls
	}{
		{"not started", func(*delay) {}, 0},
		{"started", func(d *delay) { d.start(wait) }, 1},
		{"started again before the call", func(d *delay) { d.start(wait); d.start(wait) }, 1},
		{"started again after the call", func(d *delay) { d.start(wait); time.Sleep(2 * wait); d.start(wait) }, 2},
		{"stopped", func(d *delay) { d.start(wait); d.stop() }, 0},
		{"stopped and started", func(d *delay) { d.start(wait); d.stop(); d.start(wait) }, 1},
		{"ended", func(d *delay) { d.start(wait); d.end() }, 0},
		{"ended before it started", func(d *delay) { d.end(); d.start(wait) }, 0},
		{"ended twice", func(d *delay) { d.start(wait); time.Sleep(2 * wait); d.end(); d.end() }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				d := delay{call: func() { calls.Add(1) }}
				test.do(&d)
				time.Sleep(10 * wait)
				synctest.Wait()
				if n := int(calls.Load()); n != test.want {
					t.Errorf("%d calls, want %d", n, test.want)
				}
			})
		})
	}
}

// The first start decides when the call comes.
func TestDelayKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called time.Duration
		began := time.Now()
		d := delay{call: func() { called = time.Since(began) }}
		d.start(time.Second)
		time.Sleep(900 * time.Millisecond)
		d.start(time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if called != time.Second {
			t.Errorf("called after %v, want 1s", called)
		}
	})
}

// After end no call is in progress, and none begins.
func TestDelayEndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		d := delay{call: func() {
			time.Sleep(time.Minute)
			calls++
		}}
		d.start(time.Second)
		time.Sleep(2 * time.Second)
		if !d.start(time.Hour) { // for a second call, while the first is in progress
			t.Error("start reports false before end")
		}
		d.end()
		if calls != 1 {
			t.Errorf("%d calls when end returns, want 1", calls)
		}
		if d.start(time.Second) {
			t.Error("start reports true after end")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d calls after end, want 1", calls)
		}
	})
}
