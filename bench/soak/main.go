// Soak runs the real service under a mixed load for as long as one likes, and judges it.
//
// Honest clients take every path that there is, and each knows the answer that it must get. Between them are hostile
// programs and hostile clients. It fails when an honest client gets a wrong answer, when the memory, files, goroutines
// or processes of the service and its executor grow and continue to grow, and when anything is left at the end.
//
//	go run ./bench/soak -binary $PWD/bin/airlock -duration 10m
//
// With -number it measures one promise instead, each of which has a bound (numbers.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// options say what to do.
type options struct {
	binary, runtimes string
	duration         time.Duration
	runs             int // 0: the duration ends a soak, and a number has its own
	number, document string
	say              io.Writer
}

func main() {
	o := options{say: os.Stdout}
	flag.StringVar(&o.binary, "binary", "", "the airlock to test, an absolute path")
	flag.StringVar(&o.runtimes, "runtimes", "", "runtimes folder that airlock setup made; empty: Python without packages")
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long the load goes on")
	flag.IntVar(&o.runs, "runs", 0, "end a soak after so many runs, or measure a number with so many")
	flag.StringVar(&o.number, "number", "", "measure one number instead, or all")
	flag.StringVar(&o.document, "doc", "", "also write the results into this document")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak: failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.number != "" {
		return measureAll(ctx, o)
	}
	_, err := number{measure: soak}.inService(ctx, o)
	return err
}

// soak loads the service and judges it. One of ten minutes or longer is written into the document.
func soak(ctx context.Context, o options, s *service, _ tenant) (found string, err error) {
	l := &load{service: s, options: o, began: time.Now(), faults: map[string]int{}, done: map[string]int{}}
	if err := l.prepare(ctx); err != nil {
		return "", err
	}
	before, err := s.quiet(ctx)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(o.say, "soak: %v, %d clients, service %d, executor %d\n", o.duration, clients, s.pid, s.executor)
	l.run(ctx, 0, 1./3)
	warm, warmErr := s.quiet(ctx)
	l.run(ctx, 1./3, 1)
	after, afterErr := s.quiet(ctx)
	// Before the load there were fewer kinds of sandboxes. What waits for a timeout ends, what leaks stays.
	more := leftovers(warm, after)
	for began := time.Now(); len(more) > 0 && afterErr == nil && time.Since(began) < waitTime; {
		after, afterErr = s.quiet(ctx)
		more = leftovers(warm, after)
	}
	left, stopErr := s.stop()
	left = append(left, more...)
	verdict := errors.Join(ctx.Err(), warmErr, afterErr, stopErr, l.verdict(), judge(l.samples))
	if len(left) > 0 {
		verdict = errors.Join(verdict, errors.New("left over: "+strings.Join(left, "; ")))
	}
	report := l.report(before, warm, after)
	fmt.Fprintln(o.say, report)
	if verdict != nil {
		return "", fmt.Errorf("%w\nthe end of the service's log:\n%s", verdict, s.Log)
	}
	if o.document != "" && o.duration >= 10*time.Minute && o.runs == 0 {
		err = lab.Fill(o.document, "soak:load", report+
			"\nNothing grew, nothing is left, every honest answer was right.\n\n"+on()+".\n")
	}
	return fmt.Sprintf("%d runs, nothing left", l.ended.Load()), err
}

// on says when and where something was measured.
func on() string {
	m := lab.ThisMachine()
	return fmt.Sprintf("%s, %d processors, Linux %s", lab.Day(time.Now()), m.Cores, m.Kernel)
}
