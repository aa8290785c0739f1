package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

const (
	nameLive   = "airlock, live session"
	nameKernel = "ipykernel, jupyter_server"
)

// refillTime is more than it takes to make the next sandbox for an interpreter.
const refillTime = 150 * time.Millisecond

// newSessions makes a session in each call, and runs a cell.
func newSessions(name string, s *lab.Service, code string) lab.Contestant {
	return lab.Contestant{Name: name, Open: func(context.Context) (lab.Call, func()) {
		c := newCaller(s.URL)
		return func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			path := c.session(ctx)
			_, err := c.cell(ctx, path, code, `"text/plain":"2"`)
			took := time.Since(began)
			if err == nil {
				_, err = c.do(ctx, "DELETE", path, nil)
			}
			lab.Pause(ctx, refillTime)
			return took, err
		}, c.close
	}}
}

// cells runs the same cell of one session again and again.
func cells(name string, s *lab.Service, prepare, code, wanted string) lab.Contestant {
	return lab.Contestant{Name: name, Open: func(ctx context.Context) (lab.Call, func()) {
		c := newCaller(s.URL)
		path := c.session(ctx)
		lab.Must(c.cell(ctx, path, prepare))
		return func(ctx context.Context) (time.Duration, error) { return c.cell(ctx, path, code, wanted) },
			func() { _, _ = c.do(context.WithoutCancel(ctx), "DELETE", path, nil); c.close() }
	}}
}

// Cells that both run. A figure is drawn of a table that is there.
const (
	nextBefore, nextCode, nextWanted = "x = 41", "x + 1", `"text/plain":"42"`

	figureCode   = "t.plot(title='t');"
	figureBefore = `%matplotlib inline
import numpy, pandas
t = pandas.DataFrame({"a": numpy.arange(500) ** 0.5, "b": numpy.arange(500) % 7})
`
)

func (b *bench) measureLive(ctx context.Context) {
	s := b.service(ctx)
	took := b.compare(ctx, "new session and first cell", b.full(100, 40), airlock("one-shot print(1)", s, &printing),
		newSessions(nameLive, s, "1+1"))
	b.Goal("new live session and 1+1, against print(1)", "x", 2, 1.3, took[1]/took[0])
	jupyter, err := b.startJupyter(ctx)
	if err != nil {
		b.Missing(nameKernel, err)
	}
	for _, one := range []struct {
		of, prepare, code, wanted, message, goal string
		times, quick                             int
		must, aim                                float64
	}{
		{"next cell", nextBefore, nextCode, nextWanted, "execute_result", "next cell over HTTP against ipykernel",
			100, 60, 0.15, 0.08},
		{"a cell that draws a figure of a table", figureBefore, figureCode, `"image/png"`, "display_data",
			"a cell that draws a figure, against ipykernel", 20, 10, 0.8, 0.6},
	} {
		both := []lab.Contestant{cells(nameLive, s, one.prepare, one.code, one.wanted)}
		if jupyter != nil {
			both = append(both, kernelCells(nameKernel, jupyter.URL, one.prepare, one.code, one.message))
		}
		// What of a cell is the machine's: after a rest, each process that it wakes takes its time.
		both = append(both, lab.Ready("the service's health", newCaller(s.URL).again("GET", "/health", nil)))
		if took := b.compare(ctx, one.of, b.full(one.times, one.quick), both...); jupyter != nil {
			b.Goal(one.goal, "x", one.must, one.aim, took[0]/took[1])
		}
	}
	b.interrupts(ctx, s)
}

// interrupts has cells that never end interrupted.
func (b *bench) interrupts(ctx context.Context, s *lab.Service) {
	c := b.caller(s)
	path := c.session(ctx)
	var times lab.Sample
	for range b.full(100, 20) {
		var cell made
		c.decode(ctx, "POST", path+"/cells", map[string]any{"code": "print('begun')\nwhile True: pass", "wait": false}, &cell)
		look := c.again("GET", path+"/cells/"+cell.ID, nil, "begun")
		if !lab.Until(ctx, lab.StartTime, func() bool { _, err := look(ctx); return err == nil }) {
			lab.Fail("the cell to interrupt does not begin")
		}
		times = append(times, lab.Must(c.do(ctx, "POST", path+"/interrupt", nil)))
		lab.Must(c.do(ctx, "GET", path+"/cells/"+cell.ID, nil, `"status":"interrupted"`, `"KeyboardInterrupt"`))
	}
	b.Row("interrupt of a cell that computes", nameLive, times)
	b.Goal("p99 of an interrupt of a cell that computes", "ms", 200, 50, times.P99())
	lab.Must(c.do(ctx, "DELETE", path, nil))
}

// drainDelay is how long a service has to make its pools what they were, and to give memory back that it does not use.
const drainDelay = 6 * time.Second

// measureIdle looks at what many cells and sessions leave, and has many interpreters do nothing.
func (b *bench) measureIdle(ctx context.Context) {
	s := b.startWarm(ctx, many...)
	c := b.caller(s)
	b.leftovers(ctx, s, c)
	alone := lab.Turns(ctx, b.full(100, 40), airlock("without them", s, &printing))[0]
	before := lab.Processes()
	crowd := b.full(500, 50)
	for range crowd {
		lab.Must(c.cell(ctx, c.session(ctx), "1+1"))
	}
	lab.Pause(ctx, drainDelay)
	var pids []int
	for _, p := range lab.Processes().Below(s.Cmd.Process.Pid) {
		if _, was := before[p.PID]; !was {
			pids = append(pids, p.PID)
		}
	}
	used, length := lab.Used(pids...), b.full(30, 10)
	lab.Pause(ctx, time.Duration(length)*time.Second)
	b.Value(fmt.Sprintf("processor time of %d idle interpreters in %d s", crowd, length), nameLive, "s",
		lab.Used(pids...)-used)
	own := lab.Private(pids...) / float64(crowd)
	b.Value("private memory of an idle interpreter", nameLive, "MB", own)
	b.Goal("private memory of an idle interpreter", "MB", 8, 4, own)
	beside := lab.Turns(ctx, b.full(100, 40), airlock("beside them", s, &printing))[0]
	b.Row("print(1) and idle interpreters", "without them", alone)
	b.Row("print(1) and idle interpreters", fmt.Sprint("beside ", crowd), beside)
	b.Goal(fmt.Sprintf("print(1) beside %d idle interpreters", crowd), "x", 1.2, 1.05, beside.P50()/alone.P50())
}

// inventory is what a service has at rest: megabytes in use on its heap, files, processes and mounts.
type inventory struct{ heap, things float64 }

// leftovers runs many cells, and makes and ends many sessions, half of them before the first look: what is kept of the
// last ones is there then, pools are full, and tables have their size. Whatever a cell or a session leaves grows on in
// the second half.
func (b *bench) leftovers(ctx context.Context, s *lab.Service, c *caller) {
	path := c.session(ctx)
	manyCells, manySessions := b.full(10_000, 1000), b.full(2000, 400)
	var looks [2]inventory
	for i := range looks {
		for range manyCells / 2 {
			lab.Must(c.cell(ctx, path, "1+1"))
		}
		for range manySessions / 2 {
			one := c.session(ctx)
			lab.Must(c.cell(ctx, one, "1+1"))
			lab.Must(c.do(ctx, "DELETE", one, nil))
		}
		looks[i] = c.inventory(ctx, s)
	}
	of := fmt.Sprintf("left by the second half of %d cells and %d sessions", manyCells, manySessions)
	heap, things := looks[1].heap-looks[0].heap, looks[1].things-looks[0].things
	b.Value(of, "heap of the service in use", "MB", heap)
	b.Value(of, "files, processes, mounts", "things", things)
	b.Goal("growth in the second half of 10,000 cells and 2,000 sessions", "MB", 0.3, 0, heap)
	b.Goal("files, processes and mounts left by them", "things", 0, 0, things)
	lab.Must(c.do(ctx, "DELETE", path, nil))
}

func (c *caller) inventory(ctx context.Context, s *lab.Service) (v inventory) {
	// More sessions at once than sandboxes may wait: as many as may wait do so after it.
	errs := make(chan error, 40)
	for range cap(errs) {
		go func() { errs <- lab.Try(func() { lab.Turns(ctx, 0, newSessions(nameLive, s, "1+1")) }) }()
	}
	for range cap(errs) {
		lab.Check(<-errs)
	}
	lab.Pause(ctx, drainDelay)
	warmed(ctx, s)
	// The least of several collections, which buffers that wait for their next use do not outlive. Asking makes garbage
	// enough for them.
	v.heap = math.Inf(1)
	for last, collections := c.heap(ctx), 0; collections < 20; {
		if now := c.heap(ctx); now != last {
			last, v.heap = now, min(v.heap, now)
			collections++
		}
	}
	executor := s.Executor()
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", executor))
	v.things = float64(len(lab.OpenFiles(s.Server())) + len(lab.OpenFiles(executor)) +
		strings.Count(string(mounts), "\n") + len(lab.Processes().Below(s.Cmd.Process.Pid)))
	return v
}

// heap is what the service's last garbage collection found in use, in MB.
func (c *caller) heap(ctx context.Context) float64 {
	lab.Must(c.do(ctx, "GET", "/metrics", nil))
	_, rest, _ := strings.Cut(string(c.body), "\ngo_gc_heap_live_bytes ")
	line, _, _ := strings.Cut(rest, "\n")
	return lab.Must(strconv.ParseFloat(line, 64)) / mebibyte
}
