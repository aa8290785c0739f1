package main

import (
	"context"
	"errors"
	"fmt"
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
func newSessions(name string, s *lab.Service) contestant {
	return contestant{name, func(context.Context) (call, func(), error) {
		c := newCaller(s.URL)
		return func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			path, err := c.session(ctx)
			if err != nil {
				return 0, err
			}
			_, err = c.cell(ctx, path, "1+1", `"text/plain":"2"`)
			took := time.Since(began)
			if err == nil {
				_, err = c.do(ctx, "DELETE", path, nil)
			}
			lab.Pause(ctx, refillTime)
			return took, err
		}, c.close, nil
	}}
}

// cells runs the same cell of one session again and again.
func cells(name string, s *lab.Service, prepare, code, wanted string) contestant {
	return contestant{name, func(ctx context.Context) (call, func(), error) {
		c := newCaller(s.URL)
		path, err := c.session(ctx)
		if err == nil {
			_, err = c.cell(ctx, path, prepare)
		}
		return func(ctx context.Context) (time.Duration, error) { return c.cell(ctx, path, code, wanted) },
			func() { _, _ = c.do(context.WithoutCancel(ctx), "DELETE", path, nil); c.close() }, err
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

func (b *bench) measureLive(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	took, err := b.compare(ctx, "new session and first cell", b.full(100, 40),
		airlock("one-shot print(1)", b.warm, &printing), newSessions(nameLive, b.warm))
	if err != nil {
		return err
	}
	b.goal("new live session and 1+1, against print(1)", "x", 2, 1.3, took[1]/took[0])
	next := []contestant{cells(nameLive, b.warm, nextBefore, nextCode, nextWanted)}
	figure := []contestant{cells(nameLive, b.warm, figureBefore, figureCode, `"image/png"`)}
	jupyter, err := b.startJupyter(ctx)
	if err != nil {
		b.missing(nameKernel, err)
	} else {
		defer func() { _ = jupyter.Stop() }() // it takes its time
		next = append(next, kernelCells(jupyter, nextBefore, nextCode, "execute_result"))
		figure = append(figure, kernelCells(jupyter, figureBefore, figureCode, "display_data"))
	}
	if took, err = b.compare(ctx, "next cell", b.full(100, 60), next...); err != nil {
		return err
	}
	if len(took) > 1 {
		b.goal("next cell over HTTP against ipykernel", "x", 0.15, 0.08, took[0]/took[1])
	}
	if took, err = b.compare(ctx, "a cell that draws a figure of a table", b.full(20, 10), figure...); err != nil {
		return err
	}
	if len(took) > 1 {
		b.goal("a cell that draws a figure, against ipykernel", "x", 0.8, 0.6, took[0]/took[1])
	}
	return b.interrupts(ctx)
}

// interrupts has cells that never end interrupted.
func (b *bench) interrupts(ctx context.Context) error {
	c := newCaller(b.warm.URL)
	defer c.close()
	path, err := c.session(ctx)
	if err != nil {
		return err
	}
	var times lab.Sample
	for range b.full(100, 20) {
		var cell made
		if _, err := c.decode(ctx, "POST", path+"/cells", map[string]any{"code": "print('begun')\nwhile True: pass",
			"wait": false}, &cell); err != nil {
			return err
		}
		look := c.again("GET", path+"/cells/"+cell.ID, nil, "begun")
		if !lab.Until(ctx, lab.StartTime, func() bool { _, err := look(ctx); return err == nil }) {
			return errors.New("the cell to interrupt does not begin")
		}
		took, err := c.do(ctx, "POST", path+"/interrupt", nil)
		if err != nil {
			return err
		}
		times = append(times, took)
		if _, err := c.do(ctx, "GET", path+"/cells/"+cell.ID, nil, `"status":"interrupted"`, `"KeyboardInterrupt"`); err != nil {
			return err
		}
	}
	b.row("interrupt of a cell that computes", nameLive, times)
	b.goal("p99 of an interrupt of a cell that computes", "ms", 200, 50, times.P99())
	_, err = c.do(ctx, "DELETE", path, nil)
	return err
}

// drainDelay is how long a service has to make its pools what they were, and to give memory back that it does not use.
const drainDelay = 6 * time.Second

// measureIdle has many interpreters do nothing, and then looks at what many cells and sessions leave.
func (b *bench) measureIdle(ctx context.Context) error {
	s, err := b.startWarm(ctx, "--live=1000", "--owner-live=1000", "--owner-rate=100000")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // nothing is measured any more
	if err := b.growth(ctx, s); err != nil {
		return err
	}
	alone, err := turns(ctx, b.full(100, 40), airlock("without them", s, &printing))
	if err != nil {
		return err
	}
	c := newCaller(s.URL)
	defer c.close()
	before := lab.Processes()
	crowd := b.full(500, 50)
	for range crowd {
		path, err := c.session(ctx)
		if err == nil {
			_, err = c.cell(ctx, path, "1+1")
		}
		if err != nil {
			return err
		}
	}
	lab.Pause(ctx, drainDelay)
	var pids []int
	for _, p := range lab.Processes().Below(s.Cmd.Process.Pid) {
		if _, was := before[p.PID]; !was {
			pids = append(pids, p.PID)
		}
	}
	used := lab.Used(pids...)
	lab.Pause(ctx, time.Duration(b.full(30, 10))*time.Second)
	b.value(fmt.Sprintf("processor time of %d idle interpreters in %d s", crowd, b.full(30, 10)), nameLive, "s",
		lab.Used(pids...)-used)
	own := lab.Private(pids...) / float64(crowd)
	b.value("private memory of an idle interpreter", nameLive, "MB", own)
	b.goal("private memory of an idle interpreter", "MB", 8, 4, own)
	beside, err := turns(ctx, b.full(100, 40), airlock("beside them", s, &printing))
	if err != nil {
		return err
	}
	b.row("print(1) and idle interpreters", "without them", alone[0])
	b.row("print(1) and idle interpreters", fmt.Sprint("beside ", crowd), beside[0])
	b.goal(fmt.Sprintf("print(1) beside %d idle interpreters", crowd), "x", 1.2, 1.05, beside[0].P50()/alone[0].P50())
	return nil
}

// inventory is what a service has at rest: megabytes in use on its heap, files, processes and mounts.
type inventory struct{ heap, things float64 }

// growth runs many cells, and makes and ends many sessions, half of them before the first look: what is kept of the
// last ones is there then, pools are full, and tables have their size. Whatever a cell or a session leaves grows on in
// the second half.
func (b *bench) growth(ctx context.Context, s *lab.Service) error {
	c := newCaller(s.URL)
	defer c.close()
	path, err := c.session(ctx)
	if err != nil {
		return err
	}
	manyCells, manySessions := b.full(10_000, 1000), b.full(2000, 400)
	var looks [2]inventory
	for i := range looks {
		for range manyCells / 2 {
			if _, err := c.cell(ctx, path, "1+1"); err != nil {
				return err
			}
		}
		for range manySessions / 2 {
			one, err := c.session(ctx)
			if err == nil {
				_, err = c.cell(ctx, one, "1+1")
			}
			if err == nil {
				_, err = c.do(ctx, "DELETE", one, nil)
			}
			if err != nil {
				return err
			}
		}
		if looks[i], err = c.inventory(ctx, s); err != nil {
			return err
		}
	}
	of := fmt.Sprintf("left by the second half of %d cells and %d sessions", manyCells, manySessions)
	b.value(of, "heap of the service in use", "MB", looks[1].heap-looks[0].heap)
	b.value(of, "files, processes, mounts", "things", looks[1].things-looks[0].things)
	b.goal("growth in the second half of 10,000 cells and 2,000 sessions", "MB", 0.3, 0, looks[1].heap-looks[0].heap)
	b.goal("files, processes and mounts left by them", "things", 0, 0, looks[1].things-looks[0].things)
	_, err = c.do(ctx, "DELETE", path, nil)
	return err
}

func (c *caller) inventory(ctx context.Context, s *lab.Service) (v inventory, err error) {
	// More sessions at once than sandboxes may wait: as many as may wait do so after it.
	errs := make(chan error, 40)
	for range cap(errs) {
		go func() {
			_, err := turns(ctx, 0, newSessions(nameLive, s))
			errs <- err
		}()
	}
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	lab.Pause(ctx, drainDelay)
	if _, e := zygotesReady(ctx, s); err != nil || e != nil {
		return v, errors.Join(err, e)
	}
	before, err := c.heap(ctx)
	for v.heap = before; err == nil && v.heap == before; { // asking for it makes garbage enough for a collection
		v.heap, err = c.heap(ctx)
	}
	executor := s.Executor()
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", executor))
	v.things = float64(len(lab.OpenFiles(s.Server())) + len(lab.OpenFiles(executor)) +
		strings.Count(string(mounts), "\n") + len(lab.Processes().Below(s.Cmd.Process.Pid)))
	return v, err
}

// heap is what the service's last garbage collection found in use, in MB.
func (c *caller) heap(ctx context.Context) (float64, error) {
	if _, err := c.do(ctx, "GET", "/metrics", nil); err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(c.body), "\ngo_gc_heap_live_bytes ")
	line, _, _ := strings.Cut(rest, "\n")
	bytes, err := strconv.ParseFloat(line, 64)
	return bytes / mebibyte, err
}
