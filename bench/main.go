// Command bench measures Airlock from outside, as a client, beside the least that the same work takes on this machine
// and beside what others use for it. All take turns in one run, so that disturbances affect all of them and ratios are
// meaningful.
//
//	make bench                       all sections; writes docs/performance.md and its picture
//	make bench QUICK=1               an estimate in a quarter of the time; writes bench/out only
//	make bench ARGS='-only gvisor'   one section; writes its part of the document
//	make bench-ablation              what each trick of warm starts, cells, records and HTTP pays
//	make bench-growth                a million rows, a thousand clients, load beyond the most
//
// Each run leaves a file below bench/out in the format of Go's benchmarks: benchstat compares two of them.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags of the command line.
type options struct {
	quick, growth, ablation                                         bool
	airlock, runtimes, pythons, python, judge, jupyter, clients, at string
	only, out, doc, database                                        string
	rounds                                                          int
}

func (o *options) parse(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "few rounds, for a first impression")
	flags.BoolVar(&o.growth, "growth", false, "measure what grows: rows, clients, load")
	flags.BoolVar(&o.ablation, "ablation", false,
		"measure what each trick pays; -airlock must be built with the tag ablation")
	flags.StringVar(&o.only, "only", "", "measure only these sections, separated by commas")
	flags.StringVar(&o.out, "out", "bench/out", "folder for the results")
	flags.StringVar(&o.doc, "doc", "", "also write the tables into this document, and the picture beside it")
	flags.IntVar(&o.rounds, "rounds", 1, "how many times as many turns -ablation takes")
	flags.StringVar(&o.database, "database", "", "an empty PostgreSQL database for -growth")
	paths := []struct {
		to                *string
		name, value, help string
	}{
		{&o.airlock, "airlock", "bin/airlock", "the airlock to measure"},
		{&o.runtimes, "runtimes", ".cache/data/runtimes", "the languages' packages, as airlock setup installs them"},
		{&o.pythons, "pythons", ".cache/pythons", "the CPythons of Debian's suites, of which images are made"},
		{&o.python, "python", "/usr/bin/python3", "the interpreter to compare with; never a shim"},
		{&o.judge, "go-judge", ".cache/bench/go-judge", "go-judge"},
		{&o.jupyter, "jupyter", ".cache/bench/jupyter/bin/python", "a Python with jupyter_server and ipykernel"},
		{&o.clients, "e2b", ".cache/e2b/python/bin/python", "a Python with E2B's client"},
		{&o.at, "root", ".", "the repository, for examples/plot.py and testdata/sales.csv"},
	}
	for _, path := range paths {
		flags.StringVar(path.to, path.name, path.value, path.help)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no option; -h lists them", flags.Arg(0))
	}
	var err error
	for _, path := range paths {
		absolute, e := filepath.Abs(*path.to)
		*path.to, err = absolute, errors.Join(err, e)
	}
	return err
}

// section is one part of a run.
type section struct {
	name, title string
	measure     func(*bench, context.Context)
}

// sections are in the order in which they are measured: first what wants a new service, then single requests, then
// load.
var sections = []section{
	{"start", "from the start of the service to its first answers, and what it holds in memory", (*bench).measureStart},
	{"programs", "one program at a time, everybody in turn", (*bench).measurePrograms},
	{"languages", "the least program of other languages beside what one would type", (*bench).measureLanguages},
	{"files", "100 MiB in, 100 MiB out; the first byte of streamed output", (*bench).measureFiles},
	{"live", "live sessions beside ipykernel", (*bench).measureLive},
	{"protocols", "the protocols of others beside the native API", (*bench).measureProtocols},
	{"e2b", "E2B's own client", (*bench).measureE2B},
	{"network", "what a network by permission costs", (*bench).measureNetwork},
	{"images", "programs in an image beside the machine's own environment", (*bench).measureImages},
	{"computer", "trees of processes, restarts, snapshots", (*bench).measureComputer},
	{"gvisor", "programs with a kernel of their own beside those that share the machine's", (*bench).measureOwnKernel},
	{"traces", "what it costs to send traces", (*bench).measureTraces},
	{"load", "as fast as they can, and at half of that; a class of thirty", (*bench).measureLoad},
	{"idle", "idle interpreters, and what many cells and sessions leave", (*bench).measureIdle},
}

// chosen returns the sections to measure.
func (o *options) chosen() (list []section, err error) {
	all := sections
	switch {
	case o.growth:
		all = growthSections
	case o.ablation:
		all = ablationSections()
	}
	if o.only == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(all, func(s section) bool { return s.name == name })
		if i < 0 {
			var names []string
			for _, s := range all {
				names = append(names, s.name)
			}
			return nil, fmt.Errorf("there is no section %q: there are %s", name, strings.Join(names, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

func run(ctx context.Context, args []string) error {
	var o options
	if err := o.parse(args); err != nil {
		return err
	}
	list, err := o.chosen()
	if err != nil {
		return err
	}
	b := &bench{options: &o}
	defer func() { end(&b.atExit) }()
	if err := lab.Try(func() { b.prepare(ctx) }); err != nil {
		return err
	}
	for _, s := range list {
		fmt.Fprintf(os.Stderr, "== %s: %s\n", s.name, s.title)
		from := time.Now()
		b.Section = s.name
		err := lab.Try(func() { s.measure(b, ctx) })
		end(&b.ends)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "   %s took %.0f s\n", s.name, time.Since(from).Seconds())
	}
	b.Seconds, b.Machine.After = time.Since(b.At).Seconds(), lab.LoadAverage()
	if _, err := io.WriteString(os.Stdout, b.text()); err != nil {
		return err
	}
	if err := b.Save(o.out); err != nil || o.doc == "" {
		return err
	}
	return b.document(list)
}
