package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureComputer measures what a session is besides an interpreter: processes, and files that stay.
func (b *bench) measureComputer(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	if err := b.trees(ctx); err != nil {
		return err
	}
	return b.stays(ctx)
}

// treeCode starts the processes of a tree, which survive what a terminal sends, and says when they run.
const treeCode = `trap '' HUP TERM; for n in $(seq 100); do setsid sh -c 'trap "" HUP TERM; exec sleep 1000' & done
until [ "$(pgrep -c -x sleep)" = 100 ]; do :; done; : > up; wait`

// trees times the end of trees of 100 processes, each in a session of its own.
func (b *bench) trees(ctx context.Context) error {
	c := newCaller(b.warm.URL)
	defer c.close()
	var m made
	if _, err := c.decode(ctx, "POST", sessionsPath,
		`{"kind":"live","language":"python","limits":{"processes":128}}`, &m); err != nil {
		return err
	}
	path := sessionsPath + "/" + m.ID
	var times lab.Sample
	for range b.full(50, 10) {
		var p made
		if _, err := c.decode(ctx, "POST", path+"/processes", map[string]string{"shell": treeCode}, &p); err != nil {
			return err
		}
		if _, err := c.cell(ctx, path,
			"import os, time\nwhile not os.path.exists('up'): time.sleep(.01)\nos.remove('up')"); err != nil {
			return err
		}
		took, err := c.do(ctx, "DELETE", path+"/processes/"+p.ID, nil)
		if err != nil {
			return err
		}
		times = append(times, took)
		for _, p := range lab.Processes() {
			if strings.Join(p.Argv, " ") == "sleep 1000" {
				return errors.New("a process of the tree is left")
			}
		}
	}
	b.row("DELETE of a process with 100 below it", "airlock", times)
	b.goal("DELETE of a tree of 100 processes: p99", "s", 0.5, 0.1, times.P99()/1000)
	_, err := c.do(ctx, "DELETE", path, nil)
	return err
}

// stays restarts a service with 500 sessions that have a file each, after snapshots and forks of one with 1,000 files
// of together 100 MB.
func (b *bench) stays(ctx context.Context) error {
	data, err := lab.NewData(b.scratch, b.runtimes)
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	args := []string{"--live=1000", "--owner-live=1000", "--owner-rate=100000"}
	s, err := b.serve(ctx, data, nil, args...)
	if s, err = warmed(ctx, s, err); err != nil {
		return err
	}
	c := newCaller(s.URL)
	defer c.close()
	paths := make([]string, b.full(500, 100))
	for n := range paths {
		if paths[n], err = c.session(ctx); err == nil {
			_, err = c.cell(ctx, paths[n], fmt.Sprintf("open('a.txt', 'w').write('file %d') and None", n))
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(b.copies(ctx, c), s.Stop()); err != nil {
		return err
	}
	if s, err = b.serve(ctx, data, nil, args...); err != nil {
		return err
	}
	again := newCaller(s.URL)
	defer again.close()
	lost, times := 0, lab.Sample{}
	for n, path := range paths {
		began := time.Now()
		if _, err := again.cell(ctx, path, "print(open('a.txt').read())", fmt.Sprintf(`file %d\n`, n)); err != nil {
			lost++
		}
		times = append(times, time.Since(began))
	}
	b.row("a session's first answer after a restart", "airlock", times)
	b.goal(fmt.Sprintf("files lost by %d sessions in a restart", len(paths)), "files", 0, 0, float64(lost))
	b.goal("p99 of their first answers after it", "s", 2, 0.5, times.P99()/1000)
	return s.Stop()
}

// copies makes snapshots and forks.
func (b *bench) copies(ctx context.Context, c *caller) error {
	path, err := c.session(ctx)
	if err != nil {
		return err
	}
	if _, err := c.cell(ctx, path,
		"import os\nfor i in range(1000): open(f'{i}.bin', 'wb').write(os.urandom(100_000))"); err != nil {
		return err
	}
	var snapshots, forks lab.Sample
	for round := range b.full(30, 8) + 1 {
		took, err := c.do(ctx, "POST", path+"/snapshots", `{}`, `"files":1000`)
		if err != nil {
			return err
		}
		forked, err := c.do(ctx, "POST", path+"/fork", `{}`)
		if err != nil {
			return err
		}
		if round > 0 { // the first stores what the limits of a cell left
			snapshots, forks = append(snapshots, took), append(forks, forked)
		}
	}
	b.row("snapshot of 1,000 files, 100 MB", "airlock", snapshots)
	b.row("fork of them", "airlock", forks)
	b.goal("snapshot of 1,000 files, 100 MB", "s", 0.3, 0.1, snapshots.P50()/1000)
	b.goal("fork of them", "s", 0.1, 0.05, forks.P50()/1000)
	return nil
}

// keptForks is how many sessions are made of one with its memory.
const keptForks = 10

// keptMemory measures pauses and forks of a session with pandas loaded, in a service with kernels of their own.
func (b *bench) keptMemory(ctx context.Context, s *lab.Service) error {
	c := newCaller(s.URL)
	defer c.close()
	path, err := c.session(ctx)
	if err == nil {
		_, err = c.cell(ctx, path, `import pandas; t = pandas.DataFrame({"a": range(1000)}); t.describe(); None`)
	}
	if err != nil {
		return err
	}
	has := func(ctx context.Context, path string) (time.Duration, error) {
		return newCaller(s.URL).cell(ctx, path, "len(t)", `"text/plain":"1000"`)
	}
	var pauses, resumes, forks lab.Sample
	for range b.full(10, 3) {
		took, err := c.do(ctx, "POST", path+"/pause", `{}`)
		if err != nil {
			return err
		}
		pauses = append(pauses, took)
		if took, err = has(ctx, path); err != nil {
			return err
		}
		resumes = append(resumes, took)
		lab.Pause(ctx, rest)
	}
	for range b.full(5, 2) {
		began := time.Now()
		var all struct{ Sessions []made }
		if _, err := c.decode(ctx, "POST", path+"/fork", fmt.Sprintf(`{"count":%d}`, keptForks), &all); err != nil {
			return err
		}
		answered := make(chan error, keptForks)
		for _, fork := range all.Sessions {
			go func() {
				_, err := has(ctx, sessionsPath+"/"+fork.ID)
				answered <- err
			}()
		}
		for range all.Sessions {
			err = errors.Join(err, <-answered)
		}
		forks = append(forks, time.Since(began))
		for _, fork := range all.Sessions {
			_, ended := c.do(ctx, "DELETE", sessionsPath+"/"+fork.ID, nil)
			err = errors.Join(err, ended)
		}
		if err != nil || len(all.Sessions) != keptForks {
			return errors.Join(err, fmt.Errorf("there are %d forks", len(all.Sessions)))
		}
	}
	b.row("pause of a session with pandas loaded", nameOwnKernel, pauses)
	b.row("resume of it, and a cell", nameOwnKernel, resumes)
	b.row(fmt.Sprint(keptForks, " forks of it, until each has answered"), nameOwnKernel, forks)
	b.goal("pause of a session with pandas loaded", "ms", 800, 400, pauses.P50())
	b.goal("resume of it, and a cell", "ms", 500, 150, resumes.P50())
	b.goal(fmt.Sprint(keptForks, " forks of it, until each has answered a cell"), "ms", 3000, 1000, forks.P50())
	_, err = c.do(ctx, "DELETE", path, nil)
	return err
}

// pools are what a service says of its waiting sandboxes.
type pools struct{ Pools []pool }

type pool struct {
	Name, Cold      string
	Ready           bool
	Waiting, Wanted int
}

// filled waits until as many sandboxes of a tier wait as the service wants. If tier is empty, it waits until there are
// interpreters of all.
func filled(ctx context.Context, s *lab.Service, tier string) error {
	c := newCaller(s.URL)
	defer c.close()
	var status pools
	var failed error
	if lab.Until(ctx, lab.StartTime, func() bool {
		status = pools{}
		if _, failed = c.do(ctx, "GET", "/api/v1/status", nil); failed != nil || json.Unmarshal(c.body, &status) != nil {
			return true
		}
		for _, p := range status.Pools {
			if p.Cold != "" {
				failed = fmt.Errorf("no sandbox waits for %s: %s", p.Name, p.Cold)
				return true
			}
			if !p.Ready || p.Name == tier && p.Waiting < p.Wanted {
				return false
			}
		}
		return len(status.Pools) > 0
	}) {
		return failed
	}
	return fmt.Errorf("its pools do not fill: %+v", status.Pools)
}

// refilled is a contestant whose pool of a tier is full at each call: the refill is no part of it, and takes nothing
// from the others.
func refilled(s *lab.Service, tier string, c contestant) contestant {
	return contestant{c.name, func(ctx context.Context) (call, func(), error) {
		do, done, err := c.open(ctx)
		return func(ctx context.Context) (time.Duration, error) {
			took, err := do(ctx)
			return took, errors.Join(err, filled(ctx, s, tier))
		}, done, err
	}}
}
