package browser

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// task is one entry of the main thread's work, in milliseconds: how long it
// took by the clock, and how long the processor worked for it. On a machine
// that is busy with other things only the second says something of the page.
type task struct{ clock, processor float64 }

// trace records the tasks of this tab's main thread until the function that it
// returns is called.
func (b *tab) trace() func() []task {
	b.t.Helper()
	var mu sync.Mutex
	var raw [][]byte
	complete := make(chan struct{})
	ctx, stop := context.WithCancel(b.ctx)
	if err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, v := range e.Value {
				raw = append(raw, append([]byte(nil), v...))
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{
			IncludedCategories: []string{"toplevel", "disabled-by-default-devtools.timeline", "devtools.timeline", "__metadata"},
			ExcludedCategories: []string{"*"},
		}})
		return err
	}))
	return func() []task {
		b.t.Helper()
		defer stop()
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, tracing.End, cdp.Empty{})
			return err
		}))
		select {
		case <-complete:
		case <-b.ctx.Done():
			b.t.Fatal(b.ctx.Err())
		}
		mu.Lock()
		defer mu.Unlock()
		return mainTasks(raw)
	}
}

// unobserved has the browser keep no copies of what this tab loads, as it does
// for somebody who looks at its network: at the end of a stream it would decode
// all of it at once, in the tab's main thread.
func (b *tab) unobserved() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.Disable, cdp.Empty{})
		return err
	}))
}

// mainTasks finds the tasks of the busiest main thread: the tab that ran.
func mainTasks(raw [][]byte) []task {
	type event struct {
		Name      string
		Phase     string  `json:"ph"`
		Process   int     `json:"pid"`
		Thread    int     `json:"tid"`
		Clock     float64 `json:"dur"`
		Processor float64 `json:"tdur"`
		Args      struct{ Name string }
	}
	main := map[[2]int]bool{}
	var events []event
	for _, r := range raw {
		var e event
		if json.Unmarshal(r, &e) != nil {
			continue
		}
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			main[[2]int{e.Process, e.Thread}] = true
		}
		if e.Phase == "X" && (e.Name == "RunTask" || e.Name == "ThreadControllerImpl::RunTask") {
			events = append(events, e)
		}
	}
	tasks, total := map[[2]int][]task{}, map[[2]int]float64{}
	for _, e := range events {
		at := [2]int{e.Process, e.Thread}
		if main[at] {
			tasks[at] = append(tasks[at], task{e.Clock / 1000, e.Processor / 1000})
			total[at] += e.Processor
		}
	}
	var busiest [2]int
	for at := range tasks {
		if total[at] > total[busiest] {
			busiest = at
		}
	}
	return tasks[busiest]
}
