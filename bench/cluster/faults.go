package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

const rounds = 3

// faults measures what is seen of each failure.
func faults(ctx context.Context, c *cluster) {
	c.standby = lab.Must(c.postgres.Standby(ctx)) // synchronous, and the nodes turn to it
	c.database = c.postgres.URLWith(c.standby, c.database)
	lab.Check(c.postgres.Synchronous(ctx))
	c.four(ctx, c.options.binary)
	fmt.Fprintln(c.out, "| failure | seen | median (most) |\n|---|---|---|")
	runs, sessions := c.lose(ctx, (*node).Kill, func(n *node) { n.launch(ctx) })
	c.row("worker killed", "its run has ended, `worker_lost`", runs...)
	c.row("", "a live session's next cell is answered elsewhere, with its file", sessions...)
	runs, sessions = c.lose(ctx, func(n *node) { n.Signal(syscall.SIGSTOP) }, func(n *node) { n.Signal(syscall.SIGCONT) })
	c.row("worker stopped (SIGSTOP)", "its run has ended", runs...)
	c.row("", "a live session's next cell, as above", sessions...)
	c.loseAPI(ctx)
	c.away(ctx, "database", c.postgres)
	c.away(ctx, "bucket", c.s3)
	c.failOver(ctx)
}

// row writes the median of times, and the most.
func (c *cluster) row(failure, effect string, times ...time.Duration) {
	t := lab.Sample(times)
	fmt.Fprintf(c.out, "| %s | %s | %.2f s (%.2f s) |\n", failure, effect, t.At(50).Seconds(), t.At(100).Seconds())
}

// until returns how long something takes, which is a minute at most, or fails with what is wrong then.
func until(ctx context.Context, began time.Time, wrong string, yes func() bool) time.Duration {
	if !lab.Until(ctx, time.Minute, yes) {
		lab.Fail("%s", wrong)
	}
	return time.Since(began)
}

func (c *cluster) word() string { return fmt.Sprintf("1000.%d", time.Now().UnixNano()) }

// goesOn starts a program that keeps running, and returns its worker and its result.
func (c *cluster) goesOn(ctx context.Context, api *node) (*node, <-chan answer) {
	word, ended := c.word(), make(chan answer, 1)
	go func() {
		a, err := api.call(ctx, "POST", "/runs", map[string]any{"language": "bash", "timeout_ms": 120_000,
			"args": []string{word}, "code": `sleep "$1"`})
		if err != nil {
			a.Text = err.Error()
		}
		ended <- a
	}()
	at := c.holder(ctx, word)
	if at == nil {
		lab.Fail("no program runs: %v", <-ended)
	}
	return at, ended
}

// live makes a live session with a file, and returns the worker that holds it.
func (c *cluster) live(ctx context.Context, api *node) (id string, at *node) {
	a := lab.Must(api.call(ctx, "POST", "/sessions", map[string]any{"kind": "live", "language": "python"}))
	word := c.word()
	code := "open('kept.txt','w').write('kept')\nimport subprocess; p = subprocess.Popen(['sleep', '" + word + "'])"
	until(ctx, time.Now(), "no live session: "+a.Text, func() bool { return api.cell(ctx, a.ID, code, "") })
	if at = c.holder(ctx, word); at == nil {
		lab.Fail("no node has the session %s", a.ID)
	}
	return a.ID, at
}

func (n *node) cell(ctx context.Context, session, code, prints string) bool {
	a, err := n.call(ctx, "POST", "/sessions/"+session+"/cells", map[string]any{"code": code})
	return err == nil && a.status == http.StatusOK && a.Status == "ok" && strings.Contains(a.Text, prints)
}

// lose takes workers away, one with a run and one with a session.
func (c *cluster) lose(ctx context.Context, hit, mend func(*node)) (runs, sessions lab.Sample) {
	one, two := c.of("api")[0], c.of("api")[1]
	for range rounds {
		c.whole(ctx)
		at, ended := c.goesOn(ctx, one)
		began := time.Now()
		hit(at)
		if a := <-ended; !strings.Contains(a.Text, "worker_lost") && a.status != http.StatusServiceUnavailable {
			lab.Fail("the run of a lost worker: %v", a)
		}
		runs = append(runs, time.Since(began))
		mend(at)
		c.whole(ctx)
		id, at := c.live(ctx, one)
		began = time.Now()
		hit(at)
		sessions = append(sessions, until(ctx, began, "the session does not come back", func() bool {
			return two.cell(ctx, id, "print(open('kept.txt').read())", "kept")
		}))
		mend(at)
	}
	return runs, sessions
}

// whole waits until each worker gets programs of each api.
func (c *cluster) whole(ctx context.Context) {
	for _, api := range c.of("api") {
		seen := map[*node]bool{}
		if !lab.Until(ctx, 5*time.Minute, func() bool {
			working, stop := context.WithCancel(ctx)
			defer stop()
			for range 2 {
				_ = lab.Try(func() { at, _ := c.goesOn(working, api); seen[at] = true })
			}
			return len(seen) == len(c.of("worker"))
		}) {
			lab.Fail("only %d workers take programs", len(seen))
		}
	}
}

// loseAPI kills an api that has a run.
func (c *cluster) loseAPI(ctx context.Context) {
	one, two := c.of("api")[0], c.of("api")[1]
	var answers, marked lab.Sample
	for range rounds {
		c.whole(ctx)
		c.goesOn(ctx, one)
		var id string
		until(ctx, time.Now(), "the run that goes on is not the newest of the list", func() bool { // recorded a moment later
			a, err := two.call(ctx, "GET", "/runs?limit=1", nil)
			_, rest, _ := strings.Cut(a.Text, `"id":"`)
			id, _, _ = strings.Cut(rest, `"`)
			return err == nil && id != "" && strings.Contains(a.Text, `"status":"running"`)
		})
		began := time.Now()
		one.Kill()
		answers = append(answers, until(ctx, began, "the other api does not answer", func() bool { return two.prints(ctx) }))
		marked = append(marked, until(ctx, began, "the run of the api that was killed is not interrupted", func() bool {
			a, err := two.call(ctx, "GET", "/runs/"+id, nil)
			return err == nil && a.Status == "interrupted"
		}))
		one.launch(ctx)
	}
	c.row("api killed", "a run at the other one is answered", answers...)
	c.row("", "the run that it had reads `interrupted`", marked...)
}

func (n *node) prints(ctx context.Context) bool {
	a, err := n.call(ctx, "POST", "/runs", map[string]any{"language": "python", "code": "print(1)"})
	return err == nil && a.status == http.StatusOK && a.Stdout == "1\n"
}

// leaves has a program leave a file, and reports whether the answer is as it should be.
func (n *node) leaves(ctx context.Context, good func(a answer) bool) func() bool {
	return func() bool {
		a, err := n.call(ctx, "POST", "/runs",
			map[string]any{"language": "bash", "code": "head -c 1000 /dev/urandom > made.bin"})
		return err == nil && good(a)
	}
}

func kept(a answer) bool { return a.status == http.StatusOK && len(a.Files) == 1 }

func notKept(a answer) bool {
	return a.status == http.StatusServiceUnavailable || a.status == http.StatusOK && len(a.Files) == 0
}

// away takes the database or the bucket away for a while.
func (c *cluster) away(ctx context.Context, name string, server interface {
	Pause() error
	Resume(context.Context) error
}) {
	c.whole(ctx)
	api := c.of("api")[0]
	lab.Check(server.Pause())
	c.row(name+" away", "a run with a file is refused, or says that its file was not kept",
		until(ctx, time.Now(), "without its "+name+" a file is acknowledged", api.leaves(ctx, notKept)))
	lab.Check(server.Resume(ctx))
	c.row("", "after it is back: a run with a file ends well",
		until(ctx, time.Now(), "the cluster does not work after its "+name+" was away", api.leaves(ctx, kept)))
}

// failOver kills the database, and has its standby take its place at once.
func (c *cluster) failOver(ctx context.Context) {
	c.whole(ctx)
	lab.Check(c.postgres.Crash())
	began := time.Now()
	lab.Check(c.standby.Promote(ctx))
	c.row("database killed, its standby promoted", "a run with a file ends well",
		until(ctx, began, "the cluster does not work with the database that was its standby",
			c.of("api")[0].leaves(ctx, kept)))
}
