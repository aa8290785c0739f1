package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Growth is what there is more of.
type Growth struct {
	Live      float64 `json:"live_mb"`    // what the service's last garbage collection found in use
	Service   float64 `json:"service_mb"` // memory of its own, with what the next collection will find
	Executor  float64 `json:"executor_mb"`
	Files     int     `json:"open_files"` // of both
	Processes int     `json:"processes"`
	Mounts    int     `json:"mounts"` // in the executor
}

func (g Growth) String() string {
	return fmt.Sprintf("%+.1f MB in use in the service (%+.1f MB with garbage), %+.1f MB in the executor, "+
		"%+d open files, %+d processes, %+d mounts", g.Live, g.Service, g.Executor, g.Files, g.Processes, g.Mounts)
}

// growth runs many cells, and makes and ends many sessions, half of them before the
// first look: what is kept of the last ones is there then, pools are full, and tables
// have their size. Whatever a cell or a session leaves grows on in the second half.
func (b *bench) growth(ctx context.Context, s *server, l *Live) error {
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.close()
	l.Cells, l.Sessions = b.plan.manyCells, b.plan.manySessions
	session, err := c.createSession(s.address)
	if err != nil {
		return err
	}
	request := session.cell("1+1", "")
	cells := func(n int) error {
		for range n {
			if err := session.run(request, `"text/plain":"2"`); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	sessions := func(n int) error {
		for range n {
			one, err := c.createSession(s.address)
			if err != nil {
				return err
			}
			if err := one.run(one.cell("1+1", ""), `"text/plain":"2"`); err != nil {
				return err
			}
			if err := one.end(); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	var looks [2]Growth
	var took time.Duration
	for i := range looks {
		began := time.Now()
		if err := cells(l.Cells / 2); err != nil {
			return err
		}
		took = time.Since(began)
		if err := sessions(l.Sessions / 2); err != nil {
			return err
		}
		if err := s.burst(); err != nil {
			return err
		}
		if looks[i], err = s.inventory(ctx); err != nil {
			return err
		}
	}
	before, after := looks[0], looks[1]
	l.Growth = Growth{
		after.Live - before.Live, after.Service - before.Service, after.Executor - before.Executor,
		after.Files - before.Files, after.Processes - before.Processes, after.Mounts - before.Mounts,
	}
	fmt.Fprintf(b.progress, "   %d cells (%.2f ms each), %d sessions: %s\n",
		l.Cells, millis(took)/float64(l.Cells/2), l.Sessions, l.Growth)
	return session.end()
}

// drainDelay is how long a service has to make its pools what they were, and to give
// memory back that it no longer uses.
const drainDelay = 6 * time.Second

// burst asks for more sessions at once than sandboxes may wait: as many as may wait do
// so after it.
func (s *server) burst() error {
	const many = 40
	errs := make(chan error, many)
	for range many {
		go func() {
			c, err := dial(s.address)
			if err != nil {
				errs <- err
				return
			}
			defer c.close()
			session, err := c.createSession(s.address)
			if err == nil {
				err = session.run(session.cell("1+1", ""), `"text/plain":"2"`)
			}
			if err == nil {
				err = session.end()
			}
			errs <- err
		}()
	}
	var failed error
	for range many {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// inventory is what a service has at rest.
func (s *server) inventory(ctx context.Context) (Growth, error) {
	pause(ctx, drainDelay)
	if _, err := zygotesReady(ctx, s); err != nil {
		return Growth{}, err
	}
	f := familyOf(s.cmd.Process.Pid, processes())
	service := f.service
	if len(service) == 0 { // without root the service is the first process
		service = f.parent
	}
	executor := f.executor[:1] // the others keep zygotes
	live, err := s.liveHeap(ctx)
	if err != nil {
		return Growth{}, err
	}
	g := Growth{Live: live}
	if g.Service, _, err = memoryOf(service); err != nil {
		return g, err
	}
	if g.Executor, _, err = memoryOf(executor); err != nil {
		return g, err
	}
	for _, p := range slices.Concat(service, executor) {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
		if err != nil {
			return g, err
		}
		g.Files += len(files)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", executor[0].pid))
	if err != nil {
		return g, err
	}
	g.Mounts = bytes.Count(mounts, []byte("\n"))
	g.Processes = len(f.all())
	return g, nil
}

// liveHeap is what the service's next garbage collection finds in use, in MB. Asking for
// it makes garbage enough for one.
func (s *server) liveHeap(ctx context.Context) (float64, error) {
	const name = "go_gc_heap_live_bytes "
	value := func() (live float64, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/metrics", nil)
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), name); ok {
				return strconv.ParseFloat(text, 64)
			}
		}
		return 0, errors.New("the service does not say how much of its heap is in use")
	}
	before, err := value()
	for err == nil {
		var now float64
		if now, err = value(); err == nil && now != before {
			return now / mebibyte, nil
		}
	}
	return 0, err
}
