package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureComputer measures what a session is besides an interpreter: processes, and files that stay.
func (b *bench) measureComputer(ctx context.Context) {
	b.trees(ctx)
	b.stays(ctx)
}

// treeCode starts the processes of a tree, which survive what a terminal sends, and says when they run.
const treeCode = `trap '' HUP TERM; for n in $(seq 100); do setsid sh -c 'trap "" HUP TERM; exec sleep 1000' & done
until [ "$(pgrep -c -x sleep)" = 100 ]; do :; done; : > up; wait`

// trees times the end of trees of 100 processes.
func (b *bench) trees(ctx context.Context) {
	c := b.caller(b.service(ctx))
	var m made
	c.decode(ctx, "POST", sessionsPath, `{"kind":"live","language":"python","limits":{"processes":128}}`, &m)
	path := sessionsPath + "/" + m.ID
	var times lab.Sample
	for range b.full(50, 10) {
		var p made
		c.decode(ctx, "POST", path+"/processes", map[string]string{"shell": treeCode}, &p)
		lab.Must(c.cell(ctx, path, "import os, time\nwhile not os.path.exists('up'): time.sleep(.01)\nos.remove('up')"))
		times = append(times, lab.Must(c.do(ctx, "DELETE", path+"/processes/"+p.ID, nil)))
		for _, p := range lab.Processes() {
			if strings.Join(p.Argv, " ") == "sleep 1000" {
				lab.Fail("a process of the tree is left")
			}
		}
	}
	b.Row("DELETE of a process with 100 below it", "airlock", times)
	b.Goal("DELETE of a tree of 100 processes: p99", "s", 0.5, 0.1, times.P99()/1000)
	lab.Must(c.do(ctx, "DELETE", path, nil))
}

// stays restarts a service with 500 sessions that have a file each, after snapshots and forks of one with 1,000 files
// of together 100 MB.
func (b *bench) stays(ctx context.Context) {
	data := b.data()
	s := warmed(ctx, b.serve(ctx, data, nil, many...))
	c := b.caller(s)
	paths := make([]string, b.full(500, 100))
	for n := range paths {
		paths[n] = c.session(ctx)
		lab.Must(c.cell(ctx, paths[n], fmt.Sprintf("open('a.txt', 'w').write('file %d') and None", n)))
	}
	b.copies(ctx, c)
	lab.Check(s.Stop())
	s = b.serve(ctx, data, nil, many...)
	c = b.caller(s)
	lost, times := 0, lab.Sample{}
	for n, path := range paths {
		began := time.Now()
		if _, err := c.cell(ctx, path, "print(open('a.txt').read())", fmt.Sprintf(`file %d\n`, n)); err != nil {
			lost++
		}
		times = append(times, time.Since(began))
	}
	b.Row("a session's first answer after a restart", "airlock", times)
	b.Goal(fmt.Sprintf("files lost by %d sessions in a restart", len(paths)), "files", 0, 0, float64(lost))
	b.Goal("p99 of their first answers after it", "s", 2, 0.5, times.P99()/1000)
	lab.Check(s.Stop())
	lab.Check(os.RemoveAll(data))
}

// copies makes snapshots and forks.
func (b *bench) copies(ctx context.Context, c *caller) {
	path := c.session(ctx)
	lab.Must(c.cell(ctx, path, "import os\nfor i in range(1000): open(f'{i}.bin', 'wb').write(os.urandom(100_000))"))
	var snapshots, forks lab.Sample
	for round := range b.full(30, 8) + 1 {
		took := lab.Must(c.do(ctx, "POST", path+"/snapshots", `{}`, `"files":1000`))
		forked := lab.Must(c.do(ctx, "POST", path+"/fork", `{}`))
		if round > 0 { // the first stores what the limits of a cell left
			snapshots, forks = append(snapshots, took), append(forks, forked)
		}
	}
	b.Row("snapshot of 1,000 files, 100 MB", "airlock", snapshots)
	b.Row("fork of them", "airlock", forks)
	b.Goal("snapshot of 1,000 files, 100 MB", "s", 0.3, 0.1, snapshots.P50()/1000)
	b.Goal("fork of them", "s", 0.1, 0.05, forks.P50()/1000)
}
