package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/client"
)

// number is one figure, with its bound.
type number struct {
	name, what string
	measure    func(ctx context.Context, o options) error
}

var numbers = []number{
	{"leftovers", "10,000 runs, a third of them hostile: what is left (bound 0)", measureLeftovers},
	{"deadline", "how long after its time limit a run is answered, p99 (bound 500 ms), and its processes are gone (bound 200 ms)", measureDeadline},
	{"stdout", "private memory while a program prints 1 GB (bound 32 MiB)", measureStdout},
	{"neighbour", "a neighbour's p95 beside three CPU hogs, over its p95 alone (bound 2)", measureNeighbour},
	{"uploads", "acknowledged bytes lost in kill -9 during uploads (bound 0); -runs says how many kills, 1000 if 0", measureUploads},
	{"recovery", "from start to ready with 100,000 files (bound 5 s)", measureRecovery},
}

func numberNames() string {
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = n.name
	}
	return strings.Join(names, ", ") + "; all"
}

func measure(ctx context.Context, o options) error {
	var errs []error
	found := false
	for _, n := range numbers {
		if n.name != o.number && o.number != "all" {
			continue
		}
		found = true
		fmt.Fprintf(o.say, "%s: %s\n", n.name, n.what)
		if err := n.measure(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.name, err))
		}
	}
	if !found {
		return fmt.Errorf("there is no number %q: there are %s", o.number, numberNames())
	}
	return errors.Join(errs...)
}

func measureLeftovers(ctx context.Context, o options) error {
	if o.runs == 0 {
		o.runs = 10_000
	}
	return soak(ctx, o)
}

// with starts a service for one figure, and an owner's client.
func with(ctx context.Context, o options, do func(*service, tenant) error, args ...string) (err error) {
	s, err := startService(ctx, o, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	c, key, err := s.as(ctx, "alice")
	if err != nil {
		return err
	}
	if _, err := s.quiet(ctx); err != nil {
		return err
	}
	return do(s, tenant{c, key})
}

func request(code string) client.RunRequest { return client.RunRequest{Language: "python", Code: code} }

// measureDeadline runs programs that do not end, and looks from outside when
// the last of their processes is gone.
func measureDeadline(ctx context.Context, o options) error {
	return with(ctx, o, func(s *service, who tenant) error {
		var answers, ends []time.Duration
		for i := range 100 {
			mark := fmt.Sprintf("1000.%d", time.Now().UnixNano())
			code := []string{"sleep " + mark, "trap '' TERM; sleep " + mark + " & sleep " + mark, "for i in 1 2 3 4 5; do setsid sleep " + mark + " & done; while :; do :; done"}[i%3]
			limit := 200 + rand.IntN(200)
			gone := make(chan time.Time, 1)
			watching, stop := context.WithCancel(ctx)
			go watchGone(watching, mark, gone)
			began := time.Now()
			run, err := who.Run(ctx, client.RunRequest{Language: "bash", Code: code, TimeoutMS: int64(limit)})
			answered := time.Since(began)
			if err != nil {
				stop()
				return err
			}
			end := <-gone
			stop()
			if run.Status != client.StatusTimeout {
				return wrong("a timeout", run)
			}
			answers = append(answers, answered-time.Duration(limit)*time.Millisecond)
			ends = append(ends, end.Sub(began)-time.Duration(limit)*time.Millisecond)
		}
		fmt.Fprintf(o.say, "  answered after the limit: p50 %v, p99 %v; all processes gone: p50 %v, p99 %v\n",
			percentile(answers, 0.5), late(answers), percentile(ends, 0.5), late(ends))
		if late(answers) > 500*time.Millisecond || late(ends) > 200*time.Millisecond {
			return errors.New("over the bound")
		}
		return nil
	})
}

// watchGone tells when the last process with a word on its command line is
// gone, having seen one.
func watchGone(ctx context.Context, word string, gone chan<- time.Time) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	seen := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			gone <- time.Now()
			return
		case <-tick.C:
		}
		if len(seen) == 0 {
			for _, p := range processes() {
				if slices.Contains(p.argv, word) {
					seen[p.pid] = true
				}
			}
			continue
		}
		alive := false
		for pid := range seen {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			alive = alive || err == nil && bytes.Contains(line, []byte(word))
		}
		if !alive && !slices.ContainsFunc(processes(), func(p process) bool { return slices.Contains(p.argv, word) }) {
			gone <- time.Now()
			return
		}
	}
}

func measureStdout(ctx context.Context, o options) error {
	return with(ctx, o, func(s *service, who tenant) error {
		if _, err := who.Run(ctx, request("print('x' * (4 << 20))")); err != nil {
			return err
		}
		before := s.sample(ctx)
		peak := before
		done := make(chan error, 1)
		go func() {
			run, err := who.Run(ctx, request("import sys\nfor i in range(256): sys.stdout.write('x' * (4 << 20))"))
			if err == nil && (run.Status != client.StatusOK || !run.Truncated) {
				err = wrong("a gigabyte", run)
			}
			done <- err
		}()
		for {
			select {
			case err := <-done:
				service, executor := (peak.serviceMemory-before.serviceMemory)>>20, (peak.executorMemory-before.executorMemory)>>20
				fmt.Fprintf(o.say, "  1 GB of stdout: service +%d MiB, executor +%d MiB of private memory\n", service, executor)
				if err == nil && service+executor >= 32 {
					err = errors.New("over the bound")
				}
				return err
			case <-time.After(10 * time.Millisecond):
				peak.serviceMemory, peak.executorMemory = max(peak.serviceMemory, private(s.pid)), max(peak.executorMemory, private(s.executor))
			}
		}
	})
}

func measureNeighbour(ctx context.Context, o options) error {
	return with(ctx, o, func(s *service, who tenant) error {
		p95 := func() (time.Duration, error) {
			var times []time.Duration
			for range 200 {
				began := time.Now()
				run, err := who.Run(ctx, request("print(sum(range(100000)))"))
				if err := expectOutput(run, err, "4999950000\n"); err != nil {
					return 0, err
				}
				times = append(times, time.Since(began))
			}
			return percentile(times, 0.95), nil
		}
		alone, err := p95()
		if err != nil {
			return err
		}
		hog, _, err := s.as(ctx, "mallory")
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := hog.Start(ctx, client.RunRequest{Language: "python", Code: "while True: pass", TimeoutMS: 120_000}); err != nil {
				return err
			}
		}
		if err := until(ctx, "three hogs", func() bool {
			values, err := s.scrape(ctx)
			return err == nil && values["airlock_runs_running"] >= 3
		}); err != nil {
			return err
		}
		beside, err := p95()
		if err != nil {
			return err
		}
		ratio := float64(beside) / float64(alone)
		fmt.Fprintf(o.say, "  a neighbour's p95: %v alone, %v beside three hogs: %.2f times\n", alone.Round(time.Microsecond), beside.Round(time.Microsecond), ratio)
		if ratio > 2 {
			return errors.New("over the bound")
		}
		return nil
	}, "--concurrency", "4")
}

// measureUploads kills the service again and again while clients upload.
func measureUploads(ctx context.Context, o options) error {
	kills := o.runs
	if kills == 0 {
		kills = 1000
	}
	s, err := startService(ctx, o, "--warm=false")
	if err != nil {
		return err
	}
	defer func() { _ = s.remove() }()
	lost, acked := 0, map[string]int{}
	for kill := range kills {
		c, _, err := s.as(ctx, "alice")
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var clients sync.WaitGroup
		for i := range 6 {
			clients.Go(func() {
				for n := 0; ; n++ {
					size := rand.IntN(512 << 10)
					f, err := c.Upload(ctx, fmt.Sprintf("%d-%d-%d", kill, i, n), pattern(size), 0)
					if err != nil {
						return
					}
					mu.Lock()
					acked[f.ID] = size
					mu.Unlock()
				}
			})
		}
		moment := time.NewTimer(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		<-moment.C
		if err := s.kill(); err != nil {
			return err
		}
		clients.Wait()
		if err := s.start(ctx, "--warm=false"); err != nil {
			return err
		}
		if kill%50 == 49 || kill == kills-1 {
			if c, _, err = s.as(ctx, "alice"); err != nil {
				return err
			}
			for id, size := range acked {
				var got bytes.Buffer
				if _, err := c.Download(ctx, id, &got); err != nil || !bytes.Equal(got.Bytes(), pattern(size).Bytes()) {
					lost++
				}
				if err := c.DeleteFile(ctx, id); err != nil {
					lost++
				}
			}
			fmt.Fprintf(o.say, "  %d kills: %d acknowledged uploads since the last look, %d lost\n", kill+1, len(acked), lost)
			acked = map[string]int{}
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d acknowledged uploads are lost", lost)
	}
	return s.stop()
}

// pattern is a content that its length tells.
func pattern(size int) *bytes.Buffer {
	return bytes.NewBuffer(bytes.Repeat(fmt.Appendf(nil, "%08d", size), size/8+1)[:size])
}

// measureRecovery starts a service on a directory with many files.
func measureRecovery(ctx context.Context, o options) error {
	files := o.runs
	if files == 0 {
		files = 100_000
	}
	s, err := startService(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = s.remove() }()
	c, _, err := s.as(ctx, "alice")
	if err != nil {
		return err
	}
	began := time.Now()
	var clients sync.WaitGroup
	failed := make(chan error, 32)
	for i := range 32 {
		clients.Go(func() {
			for n := i; n < files; n += 32 {
				if _, err := c.Upload(ctx, "file", strings.NewReader(fmt.Sprint("content ", n)), 0); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	clients.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	fmt.Fprintf(o.say, "  %d files stored in %v\n", files, time.Since(began).Round(time.Second))
	if err := s.kill(); err != nil {
		return err
	}
	_ = exec.CommandContext(ctx, "sync").Run()
	began = time.Now()
	if err := s.start(ctx); err != nil {
		return err
	}
	operator, err := client.New(client.Options{Server: s.url, Key: s.admin})
	if err != nil {
		return err
	}
	if err := until(ctx, "ready", func() bool { _, err := operator.Health(ctx); return err == nil }); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(o.say, "  ready %v after kill -9 with %d files\n", took.Round(time.Millisecond), files)
	if took > 5*time.Second {
		return errors.New("over the bound")
	}
	return s.stop()
}
