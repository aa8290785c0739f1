package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Live is what live sessions take, beside what is among the latencies.
type Live struct {
	Private   float64 `json:"private_mb"`   // of an idle interpreter
	Interrupt Summary `json:"interrupt"`    // of "while True: pass", until the cell has ended
	Crowd     int     `json:"crowd"`        // of idle interpreters
	Idle      float64 `json:"idle_seconds"` // in which they used
	CPU       float64 `json:"cpu_seconds"`  // all of them
	Keeping   float64 `json:"keep_seconds"` // and the service with its executor and zygotes
	Alone     Summary `json:"alone"`        // a one-shot print(1) without them
	Beside    Summary `json:"beside"`       // and beside them
	Cells     int     `json:"cells"`        // in one session, and
	Sessions  int     `json:"sessions"`     // after which there is so much more than after a tenth of them:
	Growth    Growth  `json:"growth"`
}

// The names of contestants of live sessions.
const (
	nameRun    = "airlock, one-shot print(1)"
	nameLive   = "airlock, live session"
	nameKernel = "ipykernel, jupyter_server"
)

const sessionsPath = "/api/v1/sessions"

// liveSession is a client of one.
type liveSession struct {
	*connection
	host, path string
}

// createSession makes a live session.
func (c *connection) createSession(host string) (*liveSession, error) {
	body := []byte(`{"kind":"live","language":"python"}`)
	if err := c.do(newRequest("POST", sessionsPath, host, body, asJSON)); err != nil {
		return nil, err
	}
	var made struct{ ID string }
	if err := json.Unmarshal(c.body, &made); err != nil {
		return nil, err
	}
	return &liveSession{c, host, sessionsPath + "/" + made.ID}, nil
}

// cell is the request that runs some code, with further fields.
func (s *liveSession) cell(code, more string) []byte {
	text, _ := json.Marshal(code)
	return newRequest("POST", s.path+"/cells", s.host, fmt.Appendf(nil, `{"code":%s%s}`, text, more), asJSON)
}

// run runs a cell, whose answer must have some text in it.
func (s *liveSession) run(request []byte, wanted string) error {
	if err := s.do(request); err != nil {
		return err
	}
	if !bytes.Contains(s.body, []byte(`"status":"ok"`)) || !bytes.Contains(s.body, []byte(wanted)) {
		return fmt.Errorf("the cell's answer is %.400s", s.body)
	}
	return nil
}

func (s *liveSession) end() error { return s.do(newRequest("DELETE", s.path, s.host, nil)) }

// refillTime is more than it takes to make the next sandbox for an interpreter.
const refillTime = 150 * time.Millisecond

// newSessions makes a session in each attempt, and runs a cell.
func newSessions(s *server) contestant {
	return contestant{name: nameLive, open: func(ctx context.Context, w *workload) (*client, error) {
		c, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		var session *liveSession
		return &client{
			attempt: func(context.Context) (err error) {
				if session, err = c.createSession(s.address); err != nil {
					return err
				}
				return session.run(session.cell(w.code, ""), `"text/plain":"2"`)
			},
			after: func() error {
				err := session.end()
				pause(ctx, refillTime)
				return err
			},
			close: c.close,
		}, nil
	}}
}

// inSession runs the cells of one session.
func inSession(s *server, wanted string) contestant {
	return contestant{name: nameLive, open: func(_ context.Context, w *workload) (*client, error) {
		c, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		session, err := c.createSession(s.address)
		if err == nil {
			err = session.run(session.cell(w.prepare, ""), "")
		}
		if err != nil {
			c.close()
			return nil, err
		}
		request := session.cell(w.code, "")
		return &client{attempt: func(context.Context) error { return session.run(request, wanted) }, close: func() {
			_ = session.end() // the service ends too
			c.close()
		}}, nil
	}}
}

// run is a one-shot print(1).
func oneShot(s *server) contestant {
	c := airlock(nameRun, s)
	open := c.open
	c.open = func(ctx context.Context, _ *workload) (*client, error) { return open(ctx, &printing) }
	return c
}

// Cells that both run. A figure is drawn of a table that is there.
var (
	firstCell  = workload{name: "new", code: "1+1"}
	nextCell   = workload{name: "cell", prepare: "x = 41", code: "x + 1"}
	figureCell = workload{name: "figure", prepare: `%matplotlib inline
import numpy, pandas
t = pandas.DataFrame({"a": numpy.arange(500) ** 0.5, "b": numpy.arange(500) % 7})
`, code: "t.plot(title='t');"}
)

func (b *bench) measureLive(ctx context.Context) error {
	s, err := b.startWarm(ctx, "--live=1000", "--owner-live=1000")
	if err != nil {
		return err
	}
	defer s.stop()
	if err := b.latency(ctx, &firstCell, b.plan.sessions, []contestant{oneShot(s), newSessions(s)}); err != nil {
		return err
	}
	if err := b.beside(ctx, s); err != nil {
		return err
	}
	l := &Live{}
	for _, measure := range []func(context.Context, *server, *Live) error{b.interrupts, b.growth, b.crowd} {
		if err := measure(ctx, s, l); err != nil {
			return err
		}
	}
	b.results.Live = l
	return ctx.Err()
}

// beside measures cells beside those of an ipykernel.
func (b *bench) beside(ctx context.Context, s *server) error {
	cells, figures := []contestant{inSession(s, `"text/plain":"42"`)}, []contestant{inSession(s, `"image/png"`)}
	jupyter, err := b.startJupyter(ctx)
	if err != nil {
		b.results.Missing[nameKernel] = err.Error()
	} else {
		defer jupyter.stop()
		cells = append(cells, jupyter.inKernel("execute_result"))
		figures = append(figures, jupyter.inKernel("display_data"))
	}
	if err := b.latency(ctx, &nextCell, b.plan.cells, cells); err != nil {
		return err
	}
	return b.latency(ctx, &figureCell, b.plan.figures, figures)
}

// interrupts has cells that never end interrupted.
func (b *bench) interrupts(ctx context.Context, s *server, l *Live) error {
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.close()
	session, err := c.createSession(s.address)
	if err != nil {
		return err
	}
	begin := session.cell("print('begun')\nwhile True: pass", `,"wait":false`)
	interrupt := newRequest("POST", session.path+"/interrupt", s.address, nil)
	var times sample
	for range b.plan.interrupts {
		if err := session.do(begin); err != nil {
			return err
		}
		var cell struct{ ID string }
		if err := json.Unmarshal(session.body, &cell); err != nil {
			return err
		}
		look := newRequest("GET", session.path+"/cells/"+cell.ID, s.address, nil)
		for running := false; !running; running = bytes.Contains(session.body, []byte("begun")) {
			pause(ctx, rest)
			if err := session.do(look); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := session.do(interrupt); err != nil {
			return err
		}
		times = append(times, time.Since(began))
		if err := session.do(look); err != nil {
			return err
		}
		for _, word := range []string{`"status":"interrupted"`, `"KeyboardInterrupt"`} {
			if !bytes.Contains(session.body, []byte(word)) {
				return fmt.Errorf("the cell was not interrupted: %.400s", session.body)
			}
		}
	}
	l.Interrupt = times.summary()
	fmt.Fprintf(b.progress, "   interrupted after %.2f ms, p99 %.2f ms\n", l.Interrupt.P50, l.Interrupt.P99)
	return session.end()
}

// crowd has many interpreters do nothing.
func (b *bench) crowd(ctx context.Context, s *server, l *Live) error {
	alone, err := takeTurns(ctx, &printing, b.plan.cells, []contestant{oneShot(s)})
	if err != nil {
		return err
	}
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.close()
	sessions := make([]*liveSession, b.plan.crowd)
	for i := range sessions {
		if sessions[i], err = c.createSession(s.address); err != nil {
			return err
		}
		if err := sessions[i].run(sessions[i].cell("1+1", ""), `"text/plain":"2"`); err != nil {
			return err
		}
	}
	if _, err := zygotesReady(ctx, s); err != nil {
		return err
	}
	pause(ctx, drainDelay)
	before := timesOf(familyOf(s.cmd.Process.Pid, processes()))
	pause(ctx, b.plan.idle)
	after := familyOf(s.cmd.Process.Pid, processes())
	l.Crowd, l.Idle = len(sessions), b.plan.idle.Seconds()
	l.CPU, l.Keeping = timesOf(after).since(before)
	l.Private = math.NaN()
	for _, m := range after.memory() {
		if m.Part == partWaiting+tierLive {
			if m.Count < len(sessions) {
				return fmt.Errorf("of %d interpreters %d are there", len(sessions), m.Count)
			}
			l.Private = m.Private // most of them are the crowd's
		}
	}
	beside, err := takeTurns(ctx, &printing, b.plan.cells, []contestant{oneShot(s)})
	if err != nil {
		return err
	}
	l.Alone, l.Beside = alone[nameRun].summary(), beside[nameRun].summary()
	for _, session := range sessions {
		if err := session.end(); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.progress,
		"   %d idle interpreters: %.2f MB each, %.6f s of a core in %.0f s, the service %.6f s; "+
			"print(1) %.2f ms, without them %.2f ms\n",
		l.Crowd, l.Private, l.CPU, l.Idle, l.Keeping, l.Beside.P50, l.Alone.P50)
	return nil
}

// times are what the tasks of processes have used of a core, in nanoseconds: a tick of
// /proc/PID/stat is longer than what many of them use in a minute.
type times struct{ inside, outside map[string]int64 } // of sandboxes, and of all others

// timesOf reads them.
func timesOf(f family) times {
	t := times{map[string]int64{}, map[string]int64{}}
	sandboxes := map[int]bool{}
	for _, z := range f.zygotes {
		for _, s := range z.sandboxes {
			for _, p := range s {
				sandboxes[p.pid] = true
			}
		}
	}
	for _, p := range f.all() {
		into := t.outside
		if sandboxes[p.pid] {
			into = t.inside
		}
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid)) // the pattern is one
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				continue // gone
			}
			used, _, _ := strings.Cut(string(text), " ")
			if n, err := strconv.ParseInt(used, 10, 64); err == nil {
				into[task] = n
			}
		}
	}
	return t
}

// since is what was used since an earlier look, in seconds: by sandboxes, and by all
// others.
func (t times) since(before times) (inside, outside float64) {
	sum := func(now, before map[string]int64) (n int64) {
		for task, used := range now {
			n += used - before[task]
		}
		return n
	}
	return float64(sum(t.inside, before.inside)) / 1e9, float64(sum(t.outside, before.outside)) / 1e9
}

// all are its processes.
func (f family) all() []process {
	list := append(append(append([]process(nil), f.parent...), f.service...), f.executor...)
	for _, z := range f.zygotes {
		list = append(list, z.process)
		for _, s := range z.sandboxes {
			list = append(list, s...)
		}
	}
	return list
}
