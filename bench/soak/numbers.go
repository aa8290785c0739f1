package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// number is a promise with a bound. measure says what was found; a bound that is missed is an error.
type number struct {
	name, promise string
	runs          int      // that it is measured with
	args          []string // of the service
	measure       func(ctx context.Context, o options, s *service, who tenant) (found string, err error)
}

var numbers = []number{
	{"leftovers", "processes, mounts, control groups, users, files and goroutines left by 10,000 runs, a third of them " +
		"hostile: none", 10_000, nil, soak},
	{"deadline", "a run is answered within 500 ms of its time limit, and its last process gone within 200 ms (p99)", 300,
		nil, ending{programs: endless, limit: 300 * time.Millisecond, gone: 200 * time.Millisecond}.measure},
	{"priorities", "beside twice as many hogs as processors, whatever priorities a program sets and however many " +
		"compute, it is answered and its last process gone within 500 ms of its time limit (p99)", 140, nil,
		ending{programs: reluctant, limit: time.Second, gone: 500 * time.Millisecond, hogs: 2}.measure},
	{"neighbour", "beside three CPU hogs, half a second after they began, a neighbour's p95 at most doubles", 50,
		[]string{"--concurrency", "4"}, measureNeighbour},
	{"uploads", "acknowledged uploads lost in 1,000 kill -9: none; ready within 5 s of each start", 1000,
		[]string{"--warm=false"}, measureUploads},
}

// measureAll measures one number or all, and writes each into its place in the document.
func measureAll(ctx context.Context, o options) error {
	errs := []error{fmt.Errorf("there is no number %q", o.number)}
	for _, n := range numbers {
		if n.name != o.number && o.number != "all" {
			continue
		}
		errs[0] = nil
		fmt.Fprintf(o.say, "%s: %s\n", n.name, n.promise)
		verdict, full := "kept", o
		full.runs = cmp.Or(o.runs, n.runs)
		found, err := n.inService(ctx, full)
		if err != nil {
			verdict = "**missed**"
			errs = append(errs, fmt.Errorf("%s: %w", n.name, err))
		}
		fmt.Fprintf(o.say, "  %s: %s\n", verdict, found)
		if o.document != "" && o.runs == 0 && found != "" {
			errs = append(errs, lab.Fill(o.document, "soak:"+n.name,
				fmt.Sprintf("- %s\n  - %s: %s\n  - %s\n", n.promise, verdict, found, on())))
		}
	}
	return errors.Join(errs...)
}

// inService measures a number with a service and a tenant of its own.
func (n number) inService(ctx context.Context, o options) (found string, err error) {
	s, err := startService(ctx, o, n.args...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	who, err := s.tenant(ctx, "alice")
	if err == nil {
		_, err = s.quiet(ctx)
	}
	if err != nil {
		return "", err
	}
	return n.measure(ctx, o, s, who)
}

// missed returns an error if a bound is missed.
func missed(is bool) error {
	if is {
		return errors.New("over the bound")
	}
	return nil
}

// measureNeighbour alternates between a neighbour alone and one beside hogs, so that whatever else the machine does
// falls on both.
func measureNeighbour(ctx context.Context, o options, s *service, who tenant) (string, error) {
	hog, err := s.tenant(ctx, "mallory")
	if err != nil {
		return "", err
	}
	var times [2]lab.Sample // alone, and beside hogs
	for round := range 16 {
		var hogs []*client.Run
		for range round % 2 * 3 {
			run, err := hog.Start(ctx, client.RunRequest{Language: "python", Code: "while True: pass", Timeout: 2 * time.Minute})
			if err != nil {
				return "", err
			}
			hogs = append(hogs, run)
		}
		if err := until(ctx, fmt.Sprint(len(hogs), " hogs"), func() bool {
			values, err := s.metrics(ctx)
			return err == nil && values["airlock_runs_running"] == float64(len(hogs))
		}); err != nil {
			return "", err
		}
		lab.Pause(ctx, 500*time.Millisecond) // in its first moment a program is not known to be long
		for range o.runs {
			began := time.Now()
			run, err := who.Run(ctx, python("print(sum(range(100000)))"))
			if err := expectOutput(run, err, "4999950000\n", 0); err != nil {
				return "", err
			}
			times[round%2] = append(times[round%2], time.Since(began))
		}
		for _, run := range hogs {
			if err := hog.Cancel(ctx, run.ID); err != nil {
				return "", err
			}
		}
	}
	alone, beside := times[0], times[1]
	ratio := float64(beside.At(95)) / float64(alone.At(95))
	return fmt.Sprintf("p95 %.2f ms alone, %.2f ms beside them: %.2f times (p50 %.2f and %.2f ms; %d runs each)",
		lab.Millis(alone.At(95)), lab.Millis(beside.At(95)), ratio, alone.P50(), beside.P50(), len(alone)), missed(ratio > 2)
}
