// Command bench compares Airlock with the interpreter alone, bubblewrap, go-judge,
// and the same work in a process that has everything loaded. All contestants take
// turns in one run on this machine, so that disturbances affect all of them, and
// ratios are meaningful.
//
//	make bench            all sections, about thirteen minutes; writes docs/performance.md and .svg
//	make bench QUICK=1    an estimate, about four minutes; writes bench/out only
//	make bench ARGS='-only gvisor'   one section; writes its part of the document
//	make bench-ablation   what each trick of warm starts, cells, records and HTTP pays
//	make bench-growth     a million rows, ten thousand sessions, a thousand clients
//	go run ./bench -only latency,stages -airlock bin/airlock -runtimes .cache/data/runtimes
//	go run ./bench -from bench/out/latest.json -doc docs/performance.md     tables and picture again
//
// It drives the binary from outside, like a client, and knows only the addresses of
// the native API. The load generator is one process with persistent connections and
// prepared requests, because it shares the machine's cores with the service.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var err error
	if slices.Equal(os.Args[1:], []string{"-model"}) {
		err = serveModel(os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags of the command line.
type options struct {
	quick    bool
	only     string
	airlock  string
	runtimes string
	pythons  string
	python   string
	bwrap    string
	judge    string
	jupyter  string
	e2b      string
	examples string
	out      string
	doc      string
	from     string
	growth   bool
	ablation bool
	rounds   int
	database string
}

func (o *options) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.quick, "quick", false, "few rounds: about four minutes, for a first impression")
	flags.StringVar(&o.only, "only", "", "measure only these, separated by commas: "+
		strings.Join(slices.Concat(namesOf(sections), namesOf(growthSections), namesOf(ablationSections())), ", "))
	flags.StringVar(&o.airlock, "airlock", "bin/airlock", "the airlock to measure")
	flags.StringVar(&o.runtimes, "runtimes", ".cache/data/runtimes",
		"the languages' packages, as airlock setup installs them")
	flags.StringVar(&o.pythons, "pythons", ".cache/pythons",
		"the CPythons of Debian's suites, of which images are made; left out where they are not there")
	flags.StringVar(&o.python, "python", "/usr/bin/python3",
		"the interpreter that the others are measured against; never a shim")
	flags.StringVar(&o.bwrap, "bwrap", "/usr/bin/bwrap", "bubblewrap; left out where it is not there")
	flags.StringVar(&o.judge, "go-judge", ".cache/bench/go-judge", "go-judge; left out where it is not there")
	flags.StringVar(&o.e2b, "e2b", ".cache/e2b/python/bin/python",
		"a Python with E2B's client, which e2e/e2b/install installs; left out where it is not there")
	flags.StringVar(&o.jupyter, "jupyter", ".cache/bench/jupyter/bin/python",
		"a Python with jupyter_server and ipykernel; left out where it is not there")
	flags.StringVar(&o.examples, "root", ".", "the repository, for examples/plot.py and testdata/sales.csv")
	flags.StringVar(&o.out, "out", "bench/out", "folder for the results as JSON")
	flags.StringVar(&o.doc, "doc", "", "also write the tables into this document, and the picture beside it")
	flags.StringVar(&o.from, "from", "", "measure nothing: take these results")
	flags.BoolVar(&o.growth, "growth", false, "measure what grows: rows, sessions, clients")
	flags.BoolVar(&o.ablation, "ablation", false,
		"measure what each trick pays; -airlock must be built with the tag ablation")
	flags.IntVar(&o.rounds, "rounds", 1, "how many times as many turns -ablation takes")
	flags.StringVar(&o.database, "database", "", "an empty PostgreSQL database for -growth; left out where none is named")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no option; -h lists them", flags.Arg(0))
	}
	for _, name := range o.sections() {
		if !slices.Contains(namesOf(o.all()), name) {
			return fmt.Errorf("there is no section %q: there are %s", name, strings.Join(namesOf(o.all()), ", "))
		}
	}
	for _, path := range []*string{&o.airlock, &o.runtimes, &o.pythons, &o.python, &o.bwrap, &o.judge, &o.jupyter, &o.e2b,
		&o.examples} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

// all returns the sections of this kind of run.
func (o *options) all() []section {
	switch {
	case o.growth:
		return growthSections
	case o.ablation:
		return ablationSections()
	}
	return sections
}

func (o *options) sections() []string {
	if o.only == "" {
		return namesOf(o.all())
	}
	return strings.Split(o.only, ",")
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	if err := o.parse(args, stderr); err != nil {
		return err
	}
	results, err := o.results(ctx, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, results.text())
	if o.from == "" {
		if err := results.save(o.out); err != nil {
			return err
		}
	}
	if o.doc == "" {
		return nil
	}
	if o.only != "" && !o.growth && !o.ablation {
		return results.writeSections(o.doc, o.sections())
	}
	for suffix, picture := range results.pictures() {
		if err := os.WriteFile(strings.TrimSuffix(o.doc, ".md")+suffix+".svg", []byte(picture), 0o644); err != nil {
			return err
		}
	}
	return results.writeDocument(o.doc)
}

// results returns the results of a file, or measures.
func (o *options) results(ctx context.Context, progress io.Writer) (*Results, error) {
	if o.from != "" {
		return load(o.from)
	}
	b, err := newBench(ctx, o, progress)
	if err != nil {
		return nil, err
	}
	defer b.close()
	began := time.Now()
	for _, s := range o.all() {
		if !slices.Contains(o.sections(), s.name) {
			continue
		}
		fmt.Fprintf(progress, "== %s: %s\n", s.name, s.title)
		from := time.Now()
		if err := s.measure(b, ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(progress, "   %s took %.0f s\n", s.name, time.Since(from).Seconds())
	}
	b.results.Seconds = time.Since(began).Seconds()
	b.results.Machine.LoadAfter = loadAverage()
	b.results.judge()
	return b.results, nil
}
