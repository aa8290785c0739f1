package executor

import (
	"runtime"
	"testing"
	"time"
)

// More sandboxes wait after a burst that emptied the pool, fewer later, and one if
// memory is short.
func TestPoolSize(t *testing.T) {
	p := &pool{size: LeastWaiting, looked: time.Now().Add(time.Hour)}
	for i := range 2 * MostWaiting {
		p.noteMiss()
		if want := min(LeastWaiting+i+1, MostWaiting); p.enough() != want {
			t.Fatalf("after %d that found nothing %d are to wait, want %d", i+1, p.enough(), want)
		}
	}
	for want := MostWaiting - 1; want >= LeastWaiting; want-- {
		p.missed = time.Now().Add(-2 * longAgo)
		for range 3 { // once for each while
			if got := p.enough(); got != want {
				t.Fatalf("long after the burst %d are to wait, want %d", got, want)
			}
		}
	}
	p.missed = time.Now().Add(-2 * longAgo)
	if got := p.enough(); got != LeastWaiting {
		t.Errorf("%d are to wait, want never less than %d", got, LeastWaiting)
	}
	p.free = LittleMemory - 1
	if got := p.enough(); got != 1 {
		t.Errorf("with little memory %d are to wait", got)
	}
}

// A prewarmed sandbox takes memory and time that others may need, so there is only one.
func TestMayPrewarm(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *pool)
		may    bool
	}{
		"nothing runs":    {func(*pool) {}, true},
		"another tier":    {func(p *pool) { p.tier.plots = false }, false},
		"something runs":  {func(p *pool) { p.executor.running.Add(1) }, false},
		"memory is short": {func(p *pool) { p.free = 4 * LittleMemory }, false},
		"one is there":    {func(p *pool) { p.ready = []*waiting{{}, {prewarmed: true}} }, false},
		"only plain ones": {func(p *pool) { p.ready = []*waiting{{}, {}} }, true},
	} {
		p := &pool{executor: &executor{}, tier: Tier{plots: true}, free: 8 * LittleMemory}
		tt.change(p)
		if got := p.mayPrewarm(); got != tt.may {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The executor is not busy while few programs run, few sandboxes end, and short
// programs are rare.
func TestIsBusy(t *testing.T) {
	half := int32(runtime.NumCPU()+1) / 2
	often := func(e *executor, interval time.Duration) {
		for i := range e.pace.times {
			e.pace.note(time.Now().Add(-time.Duration(len(e.pace.times)-i) * interval))
		}
	}
	each := twiceShortest / time.Duration(runtime.NumCPU()) // keeps half of the processors busy
	for name, tt := range map[string]struct {
		change func(e *executor)
		busy   bool
	}{
		"nothing":     {func(*executor) {}, false},
		"programs":    {func(e *executor) { e.running.Add(half) }, true},
		"ends":        {func(e *executor) { e.ending.Add(half) }, true},
		"a few of it": {func(e *executor) { e.running.Add(half - 1) }, false},
		"a stream":    {func(e *executor) { often(e, each/2) }, true},
		"drops":       {func(e *executor) { often(e, 2*each) }, false},
		"the first":   {func(e *executor) { e.pace.note(time.Now()) }, false},
	} {
		e := &executor{}
		tt.change(e)
		if got := e.isBusy(); got != tt.busy {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// One of the sandboxes for programs that plot is prewarmed; the others have little of that memory.
func TestUsualMode(t *testing.T) {
	for name, tt := range map[string]struct {
		tier    Tier
		running int32
		want    StartMode
	}{
		"idle":           {Tier{}, 0, Background},
		"busy":           {Tier{}, 100, Eager},
		"plots":          {Tier{plots: true}, 0, Eager},
		"live, and busy": {Tier{Live: true}, 100, Background},
	} {
		p := &pool{executor: &executor{}, tier: tt.tier}
		p.executor.running.Store(tt.running)
		if got := p.usualMode(); got != tt.want {
			t.Errorf("%s: %d, not %d", name, got, tt.want)
		}
	}
}
