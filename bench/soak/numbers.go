package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// number is one figure, with its bound.
type number struct {
	name, what string
	measure    func(ctx context.Context, o options) (figure, error)
}

// figure is what was measured. over says that it misses its bound.
type figure struct {
	found string
	over  bool
}

var numbers = []number{
	{"leftovers", "processes, mounts, control groups, users, files and goroutines left by 10,000 runs, a third of them " +
		"hostile: none", measureLeftovers},
	{"deadline", "a run is answered within 500 ms of its time limit, and its last process gone within 200 ms (p99)",
		measureDeadline},
	{"priorities", "beside twice as many hogs as processors, whatever priorities a program sets and however many " +
		"compute, its last process is gone within 500 ms of its time limit (p99)", measurePriorities},
	{"stdout", "private memory while a program prints 1 GB: under 32 MiB", measureStdout},
	{"neighbour", "beside three CPU hogs, half a second after they began, a neighbour's p95 at most doubles",
		measureNeighbour},
	{"tools", "programs that import matplotlib and call tools, 20,000 of three clients: none hangs", measureTools},
	{"previews", "memory of the service while 1,000 hostile files are previewed: under 256 MiB more", measurePreviews},
	{"threads", "threads of the executor with 2,000 live processes: 64 at most", measureThreads},
	{"pools", "of each of the kernel's pools a tenant at all limits leaves at least half, and another one works",
		measurePools},
	{"uploads", "acknowledged uploads lost in 1,000 kill -9: none", measureUploads},
	{"recovery", "ready within 5 s of a start with 100,000 files", measureRecovery},
}

func numberNames() string {
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = n.name
	}
	return strings.Join(names, ", ") + "; all"
}

// measure measures one number or all, and says of each what was found.
func measure(ctx context.Context, o options) error {
	var errs []error
	rows := map[string]string{} // what was found and whether it is kept, by what is promised
	began, known := time.Now(), false
	for _, n := range numbers {
		if n.name != o.number && o.number != "all" {
			continue
		}
		fmt.Fprintf(o.say, "%s: %s\n", n.name, n.what)
		f, err := n.measure(ctx, o)
		if f.over {
			err = errors.Join(err, errors.New("over the bound"))
		}
		verdict := "kept"
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.name, err))
			verdict = "**missed**"
		}
		fmt.Fprintf(o.say, "  %s: %s (%v since the start)\n", verdict, f.found, time.Since(began).Round(time.Second))
		known = true
		if f.found != "" {
			rows[n.what] = f.found + " | " + verdict
		}
	}
	if !known {
		return fmt.Errorf("there is no number %q: there are %s", o.number, numberNames())
	}
	if o.document != "" && o.runs == 0 && len(rows) > 0 {
		errs = append(errs, fillNumbers(o.document, rows))
	}
	return errors.Join(errs...)
}

// fillNumbers writes the rows that were measured into a document, and keeps those of
// the other numbers. Each has its day, and its machine where that is not the others'.
func fillNumbers(document string, rows map[string]string) error {
	was, err := lab.Filled(document, "soak:numbers")
	if err != nil {
		return err
	}
	lines := strings.Split(was, "\n")
	head, place := machine+".", ""
	if len(rows) < len(numbers) && lines[0] != head {
		head, place = lines[0], ", "+machine
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| promised | found | | on |\n|---|---|---|---|\n", head)
	for _, n := range numbers {
		row, measured := rows[n.what]
		if measured {
			row = fmt.Sprintf("| %s | %s | %s%s |", n.what, row, lab.Day(time.Now()), place)
		}
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| "+n.what+" |") }); row == "" &&
			i >= 0 {
			row = lines[i]
		}
		if row != "" {
			fmt.Fprintln(&b, row)
		}
	}
	return lab.Fill(document, "soak:numbers", b.String())
}

func measureLeftovers(ctx context.Context, o options) (figure, error) {
	if o.runs == 0 {
		o.runs = 10_000
	}
	o.out = filepath.Join(o.out, "leftovers")
	o.document = ""
	err := soak(ctx, o)
	if err != nil {
		return figure{found: "see the report"}, err
	}
	return figure{found: fmt.Sprintf("%d runs, nothing left", o.runs)}, nil
}

// with starts a service for one figure, and an owner's client.
func with(
	ctx context.Context, o options, do func(*service, tenant) (figure, error), args ...string,
) (f figure, err error) {
	s, err := startService(ctx, o, args...)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	c, key, err := s.as(ctx, "alice")
	if err != nil {
		return f, err
	}
	if _, err := s.quiet(ctx); err != nil {
		return f, err
	}
	return do(s, tenant{c, key})
}

func request(code string) client.RunRequest { return client.RunRequest{Language: "python", Code: code} }

// measureDeadline runs programs that do not end, and looks from outside when
// the last of their processes has ended.
func measureDeadline(ctx context.Context, o options) (figure, error) {
	runs := cmp.Or(o.runs, 300)
	return with(ctx, o, func(s *service, who tenant) (figure, error) {
		var answers, ends lab.Sample
		for i := range runs {
			mark := fmt.Sprintf("1000.%d", time.Now().UnixNano())
			code := []string{"sleep " + mark, "trap '' TERM; sleep " + mark + " & sleep " + mark,
				"for i in 1 2 3 4 5; do setsid sleep " + mark + " & done; while :; do :; done"}[i%3]
			limit := time.Duration(200+rand.IntN(200)) * time.Millisecond
			answered, end, err := overdue(ctx, who, client.RunRequest{Language: "bash", Code: code, Timeout: limit},
				mark)
			if err != nil {
				return figure{}, err
			}
			answers, ends = append(answers, answered), append(ends, end)
		}
		ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
		return figure{
			found: fmt.Sprintf("answered after p50 %v, p99 %v; gone after p50 %v, p99 %v (%d runs, from the request on)",
				ms(answers.At(50)), ms(answers.At(99)), ms(ends.At(50)), ms(ends.At(99)), runs),
			over: answers.At(99) > 500*time.Millisecond || ends.At(99) > 200*time.Millisecond,
		}, nil
	})
}

// overdue runs a program that does not end by itself. It returns how long after its
// time limit it was answered, and how long after it the last process with a word on its
// command line was gone.
func overdue(
	ctx context.Context, who tenant, r client.RunRequest, word string,
) (answered, end time.Duration, err error) {
	gone, over := make(chan time.Time, 1), make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	defer stop()
	limit := time.Now().Add(r.Timeout)
	go watchGone(watching, word, limit, over, gone)
	run, err := who.Run(ctx, r)
	answered = time.Since(limit)
	if err != nil {
		return 0, 0, err
	}
	close(over)
	last := <-gone
	if run.Status != client.StatusTimeout {
		return 0, 0, wrong("a timeout", run)
	}
	return answered, last.Sub(limit), nil
}

// watchGone returns when the last process with a word on its command line has ended: having
// seen one, or after the run is over, since on a busy machine one may come and go unseen.
// It begins at the limit, because polling before that would use up its CPU share.
func watchGone(ctx context.Context, word string, limit time.Time, over <-chan struct{}, gone chan<- time.Time) {
	begin := time.NewTimer(time.Until(limit))
	defer begin.Stop()
	select {
	case <-ctx.Done():
	case <-begin.C:
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	seen, ended := false, false
	for {
		select {
		case <-ctx.Done():
			gone <- time.Now()
			return
		case <-over:
			over, ended = nil, true
		case <-tick.C:
		}
		alive := false
		for _, p := range lab.Processes() {
			alive = alive || slices.Contains(p.Argv, word)
		}
		if seen = seen || alive; !alive && (seen || ended) {
			gone <- time.Now()
			return
		}
	}
}

func measureStdout(ctx context.Context, o options) (figure, error) {
	return with(ctx, o, func(s *service, who tenant) (figure, error) {
		if _, err := who.Run(ctx, request("print('x' * (4 << 20))")); err != nil {
			return figure{}, err
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
				return figure{fmt.Sprintf("service +%d MiB, executor +%d MiB", service, executor), service+executor >= 32}, err
			case <-time.After(10 * time.Millisecond):
				peak.serviceMemory, peak.executorMemory = max(peak.serviceMemory, private(s.pid)),
					max(peak.executorMemory, private(s.executor))
			}
		}
	})
}

// measureNeighbour alternates between a neighbour alone and one beside hogs, so
// that whatever else the machine does falls on both.
func measureNeighbour(ctx context.Context, o options) (figure, error) {
	const rounds, runs = 8, 50
	return with(ctx, o, func(s *service, who tenant) (figure, error) {
		hog, _, err := s.as(ctx, "mallory")
		if err != nil {
			return figure{}, err
		}
		neighbour := func() (times lab.Sample, err error) {
			for range runs {
				began := time.Now()
				run, err := who.Run(ctx, request("print(sum(range(100000)))"))
				if err := expectOutput(run, err, "4999950000\n"); err != nil {
					return nil, err
				}
				times = append(times, time.Since(began))
			}
			return times, nil
		}
		running := func(n float64) error {
			return until(ctx, "three hogs", func() bool {
				values, err := s.scrape(ctx)
				return err == nil && values["airlock_runs_running"] == n
			})
		}
		var alone, beside lab.Sample
		for range rounds {
			times, err := neighbour()
			if err != nil {
				return figure{}, err
			}
			alone = append(alone, times...)
			var hogs []string
			for range 3 {
				run, err := hog.Start(ctx, client.RunRequest{Language: "python", Code: "while True: pass",
					Timeout: 2 * time.Minute})
				if err != nil {
					return figure{}, err
				}
				hogs = append(hogs, run.ID)
			}
			if err := running(3); err != nil {
				return figure{}, err
			}
			// In its first moment a program is not known to be long.
			known := time.NewTimer(500 * time.Millisecond)
			<-known.C
			if times, err = neighbour(); err != nil {
				return figure{}, err
			}
			beside = append(beside, times...)
			for _, id := range hogs {
				err = errors.Join(err, hog.Cancel(ctx, id))
			}
			if err := errors.Join(err, running(0)); err != nil {
				return figure{}, err
			}
		}
		before, after := alone.At(95), beside.At(95)
		ratio := float64(after) / float64(before)
		return figure{fmt.Sprintf("p95 %v alone, %v beside them: %.2f times (p50 %v and %v; %d runs each)",
			before.Round(10*time.Microsecond), after.Round(10*time.Microsecond), ratio,
			alone.At(50).Round(10*time.Microsecond), beside.At(50).Round(10*time.Microsecond), rounds*runs),
			ratio > 2}, nil
	}, "--concurrency", "4")
}
