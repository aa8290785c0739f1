// Soak runs the real service under a mixed load for as long as one likes, and
// judges it.
//
// Honest clients go all the paths that there are, and each knows the answer
// that it must get. Between them come hostile programs and hostile clients.
// Meanwhile the memory and the open files of the service and of its executor
// are watched. It fails when an honest client gets a wrong answer, when memory
// or files grow and continue growing, and when anything is left at the end.
//
//	go run ./bench/soak -binary bin/airlock -duration 10m
//
// writes soak.txt and soak.svg, and with -doc both into a document. With -number
// it measures one figure instead, each of which has a bound (numbers.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// options say what is to be done.
type options struct {
	binary   string        // the airlock to test
	runtimes string        // what airlock setup installed; empty: Python without packages
	out      string        // folder of the report; empty: none is written
	duration time.Duration // of the load
	runs     int           // ends the load after so many runs; 0: the duration does
	clients  int
	number   string
	document string // that the results are written into, too
	say      io.Writer
}

func main() {
	o := options{say: os.Stdout}
	flag.StringVar(&o.binary, "binary", "bin/airlock", "the airlock to test")
	flag.StringVar(&o.runtimes, "runtimes", "", "runtimes folder that airlock setup made; empty: Python without packages")
	flag.StringVar(&o.out, "out", "out/soak", "folder for soak.txt and soak.svg; empty: none")
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long the load goes on")
	flag.IntVar(&o.runs, "runs", 0, "end after so many runs; 0: when the time is over")
	flag.IntVar(&o.clients, "clients", 6, "clients at once")
	flag.StringVar(&o.number, "number", "", "measure one figure instead: "+numberNames())
	flag.StringVar(&o.document, "doc", "", "also write the results into this document, and the picture beside it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak: failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("there is no airlock to test: %w: build it first, or name it with -binary", err)
	}
	o.binary = binary
	if o.number != "" {
		return measure(ctx, o)
	}
	return soak(ctx, o)
}

// soak is one soak, from the start of the service to the verdict.
func soak(ctx context.Context, o options) (err error) {
	s, err := startService(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	l := &load{service: s, options: o, faults: map[string]int{}, done: map[string]int{}}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	before, err := s.quiet(ctx)
	if err != nil {
		return err
	}
	w := startWatch(s, l, max(o.duration/600, 200*time.Millisecond))
	fmt.Fprintf(o.say, "soak: %v, %d clients, service %d, executor %d\n", o.duration, o.clients, s.pid, s.executor)
	l.run(ctx, 0, 1./3)
	w.pause(true)
	warm, warmErr := s.quiet(ctx)
	w.pause(false)
	l.run(ctx, 1./3, 1)
	samples := w.stop()
	after, quietErr := s.quiet(ctx)
	left := s.leftovers(warm, after) // before the load there were fewer kinds of sandboxes
	stopErr := s.stop()
	left = append(left, s.remains()...)
	verdict := errors.Join(warmErr, quietErr, stopErr, l.verdict(), judgeRest(warm.sample, after.sample),
		judgeGrowth(samples), leftError(left))
	report := l.report(samples, before, warm, after, verdict)
	fmt.Fprint(o.say, report)
	if verdict != nil {
		fmt.Fprintf(o.say, "the service's log, its end:\n%s", s.Log)
	}
	picture := draw(samples)
	if o.out != "" {
		if err := write(o.out, report, picture); err != nil {
			return errors.Join(verdict, err)
		}
		fmt.Fprintln(o.say, "written:", filepath.Join(o.out, "soak.txt"), filepath.Join(o.out, "soak.svg"))
	}
	if o.document != "" && verdict == nil && ctx.Err() == nil && o.duration >= long && o.runs == 0 {
		verdict = errors.Join(
			lab.Fill(o.document, "soak:load", machine+", "+lab.Day(time.Now())+".\n\n```\n"+report+"```\n"),
			os.WriteFile(strings.TrimSuffix(o.document, ".md")+".svg", []byte(picture), 0o644))
	}
	return verdict
}

// long is how long a soak has to continue to be worth a place in a document.
const long = 10 * time.Minute

func write(dir, report, picture string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "soak.txt"), []byte(report), 0o644),
		os.WriteFile(filepath.Join(dir, "soak.svg"), []byte(picture), 0o644))
}
