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

// seen writes the median of times, and the most.
func seen(t lab.Sample) string {
	return fmt.Sprintf("%.2f s (%.2f s)", t.At(50).Seconds(), t.At(100).Seconds())
}

const rounds = 3

// faults measures what is seen of each failure, then kills nodes under load.
func faults(ctx context.Context, o *options) error {
	c, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.follow(ctx); err != nil {
		return err
	}
	if err := c.four(ctx, o.binary); err != nil {
		return err
	}
	fmt.Fprintln(o.out, "| failure | seen | median (most) |\n|---|---|---|")
	row := func(failure, effect string, t lab.Sample) {
		fmt.Fprintf(o.out, "| %s | %s | %s |\n", failure, effect, seen(t))
	}
	kill := func(n *node) { n.Kill() }
	again := func(n *node) error { return n.launch(ctx) }
	runs, sessions, err := c.lose(ctx, kill, again)
	if err != nil {
		return err
	}
	row("worker killed", "its run has ended, `worker_lost`", runs)
	row("", "a live session's next cell is answered elsewhere, with its file", sessions)
	runs, sessions, err = c.lose(ctx, func(n *node) { n.Signal(syscall.SIGSTOP) },
		func(n *node) error { n.Signal(syscall.SIGCONT); return nil })
	if err != nil {
		return err
	}
	row("worker stopped (SIGSTOP)", "its run has ended", runs)
	row("", "a live session's next cell, as above", sessions)
	if err := c.loseAPI(ctx, row); err != nil {
		return err
	}
	for name, server := range map[string]interface {
		Pause() error
		Resume(context.Context) error
	}{"database": c.postgres, "bucket": c.s3} {
		if err := c.away(ctx, name, server, row); err != nil {
			return err
		}
	}
	return c.failOver(ctx, row)
}

func (c *cluster) word() string { return fmt.Sprintf("1000.%d", time.Now().UnixNano()) }

// goesOn starts a program that keeps running, and returns its worker and its result.
func (c *cluster) goesOn(ctx context.Context, api *node) (*node, <-chan answer, error) {
	word, ended := c.word(), make(chan answer, 1)
	go func() {
		a, err := api.call(ctx, "POST", "/runs", map[string]any{"language": "bash", "timeout_ms": 120_000,
			"args": []string{word}, "code": `sleep "$1"`})
		if err != nil {
			a.Text = err.Error()
		}
		ended <- a
	}()
	if at := c.holder(ctx, word); at != nil {
		return at, ended, nil
	}
	return nil, nil, fmt.Errorf("no program runs: %v", <-ended)
}

// live makes a live session with a file, and returns the worker that holds it.
func (c *cluster) live(ctx context.Context, api *node) (id string, at *node, err error) {
	a, err := api.call(ctx, "POST", "/sessions", map[string]any{"kind": "live", "language": "python"})
	if err != nil {
		return "", nil, err
	}
	word := c.word()
	code := "open('kept.txt','w').write('kept')\nimport subprocess; p = subprocess.Popen(['sleep', '" + word + "'])"
	if !lab.Until(ctx, time.Minute, func() bool { return api.cell(ctx, a.ID, code, "") }) {
		return "", nil, fmt.Errorf("no live session: %s", a.Text)
	}
	if at = c.holder(ctx, word); at == nil {
		return "", nil, fmt.Errorf("nobody holds the session %s", a.ID)
	}
	return a.ID, at, nil
}

func (n *node) cell(ctx context.Context, session, code, prints string) bool {
	a, err := n.call(ctx, "POST", "/sessions/"+session+"/cells", map[string]any{"code": code})
	return err == nil && a.status == http.StatusOK && a.Status == "ok" && strings.Contains(a.Text, prints)
}

// lose takes workers away, one with a run and one with a session.
func (c *cluster) lose(
	ctx context.Context, hit func(*node), mend func(*node) error,
) (runs, sessions lab.Sample, err error) {
	one, two := c.of("api")[0], c.of("api")[1]
	for range rounds {
		if err := c.whole(ctx); err != nil {
			return nil, nil, err
		}
		at, ended, err := c.goesOn(ctx, one)
		if err != nil {
			return nil, nil, err
		}
		began := time.Now()
		hit(at)
		if a := <-ended; !strings.Contains(a.Text, "worker_lost") && a.status != http.StatusServiceUnavailable {
			return nil, nil, fmt.Errorf("the run of a lost worker: %v", a)
		}
		runs = append(runs, time.Since(began))
		if err := mend(at); err != nil {
			return nil, nil, err
		}
		if err := c.whole(ctx); err != nil {
			return nil, nil, err
		}
		id, at, err := c.live(ctx, one)
		if err != nil {
			return nil, nil, err
		}
		began = time.Now()
		hit(at)
		if !lab.Until(ctx, time.Minute, func() bool { return two.cell(ctx, id, "print(open('kept.txt').read())", "kept") }) {
			return nil, nil, fmt.Errorf("the session %s does not come back", id)
		}
		sessions = append(sessions, time.Since(began))
		if err := mend(at); err != nil {
			return nil, nil, err
		}
	}
	return runs, sessions, nil
}

// whole waits until each worker gets programs of each api.
func (c *cluster) whole(ctx context.Context) error {
	for _, api := range c.of("api") {
		seen := map[*node]bool{}
		if !lab.Until(ctx, 5*time.Minute, func() bool {
			working, stop := context.WithCancel(ctx)
			defer stop()
			for range 2 {
				if at, _, err := c.goesOn(working, api); err == nil {
					seen[at] = true
				}
			}
			return len(seen) == len(c.of("worker"))
		}) {
			return fmt.Errorf("only %d workers take programs", len(seen))
		}
	}
	return nil
}

// loseAPI kills an api that has a run.
func (c *cluster) loseAPI(ctx context.Context, row func(failure, effect string, t lab.Sample)) error {
	one, two := c.of("api")[0], c.of("api")[1]
	var answers, marked lab.Sample
	for range rounds {
		if err := c.whole(ctx); err != nil {
			return err
		}
		if _, _, err := c.goesOn(ctx, one); err != nil {
			return err
		}
		var id string
		if !lab.Until(ctx, time.Minute, func() bool { // a run is recorded a moment after it began
			a, err := two.call(ctx, "GET", "/runs?limit=1", nil)
			_, rest, _ := strings.Cut(a.Text, `"id":"`)
			id, _, _ = strings.Cut(rest, `"`)
			return err == nil && id != "" && strings.Contains(a.Text, `"status":"running"`)
		}) {
			return fmt.Errorf("the run that goes on is not the newest of the list")
		}
		began := time.Now()
		one.Kill()
		if !lab.Until(ctx, time.Minute, func() bool { return two.prints(ctx) }) {
			return fmt.Errorf("the other api does not answer")
		}
		answers = append(answers, time.Since(began))
		if !lab.Until(ctx, time.Minute, func() bool {
			a, err := two.call(ctx, "GET", "/runs/"+id, nil)
			return err == nil && a.Status == "interrupted"
		}) {
			return fmt.Errorf("run %s of the api that was killed is not interrupted", id)
		}
		marked = append(marked, time.Since(began))
		if err := one.launch(ctx); err != nil {
			return err
		}
	}
	row("api killed", "a run at the other one is answered", answers)
	row("", "the run that it had reads `interrupted`", marked)
	return nil
}

func (n *node) prints(ctx context.Context) bool {
	a, err := n.call(ctx, "POST", "/runs", map[string]any{"language": "python", "code": "print(1)"})
	return err == nil && a.status == http.StatusOK && a.Stdout == "1\n"
}

// away takes the database or the bucket away for a while.
func (c *cluster) away(ctx context.Context, name string, server interface {
	Pause() error
	Resume(context.Context) error
}, row func(failure, effect string, t lab.Sample)) error {
	if err := c.whole(ctx); err != nil {
		return err
	}
	api := c.of("api")[0]
	if err := server.Pause(); err != nil {
		return err
	}
	began := time.Now()
	made := map[string]any{"language": "bash", "code": "head -c 1000 /dev/urandom > made.bin"}
	refused := lab.Until(ctx, time.Minute, func() bool {
		a, err := api.call(ctx, "POST", "/runs", made)
		return err == nil && (a.status == http.StatusServiceUnavailable || a.status == http.StatusOK && len(a.Files) == 0)
	})
	took := lab.Sample{time.Since(began)}
	if !refused {
		return fmt.Errorf("without its %s a file is acknowledged", name)
	}
	if err := server.Resume(ctx); err != nil {
		return err
	}
	began = time.Now()
	if !lab.Until(ctx, time.Minute, func() bool {
		a, err := api.call(ctx, "POST", "/runs", made)
		return err == nil && a.status == http.StatusOK && len(a.Files) == 1
	}) {
		return fmt.Errorf("the cluster does not work after its %s was away", name)
	}
	row(name+" away", "a run with a file is refused, or says that its file was not kept", took)
	row("", "after it is back: a run with a file ends well", lab.Sample{time.Since(began)})
	return nil
}

// failOver kills the database, and has its standby take its place at once.
func (c *cluster) failOver(ctx context.Context, row func(failure, effect string, t lab.Sample)) error {
	if err := c.whole(ctx); err != nil {
		return err
	}
	api := c.of("api")[0]
	made := map[string]any{"language": "bash", "code": "head -c 1000 /dev/urandom > made.bin"}
	if err := c.postgres.Crash(); err != nil {
		return err
	}
	began := time.Now()
	if err := c.standby.Promote(ctx); err != nil {
		return err
	}
	if !lab.Until(ctx, time.Minute, func() bool {
		a, err := api.call(ctx, "POST", "/runs", made)
		return err == nil && a.status == http.StatusOK && len(a.Files) == 1
	}) {
		return fmt.Errorf("the cluster does not work with the database that was its standby")
	}
	row("database killed, its standby promoted", "a run with a file ends well", lab.Sample{time.Since(began)})
	return nil
}
