package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
)

// bench is one run: the services that it started, and its results.
type bench struct {
	options  *options
	plan     *plan
	progress io.Writer
	scratch  string
	site     string // where Python looks for packages below PYTHONUSERBASE
	results  *Results
	plain    workload
	plot     workload

	warm, cold, judge *server // nil until they are needed
	judgeAsked        bool
}

func newBench(ctx context.Context, o *options, progress io.Writer) (*bench, error) {
	if _, err := os.Stat(filepath.Join(o.runtimes, "python", "manifest.json")); err != nil {
		return nil, fmt.Errorf("there are no Python packages in %s: make test-data installs them", o.runtimes)
	}
	plain, plot, err := drawing(o.examples)
	if err != nil {
		return nil, err
	}
	machine, err := thisMachine(ctx, o.python)
	if err != nil {
		return nil, err
	}
	version, err := airlockVersion(ctx, o.airlock)
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, plan: &fullPlan, progress: progress, plain: plain, plot: plot}
	if o.quick {
		b.plan = &quickPlan
	}
	if b.scratch, err = os.MkdirTemp("", "airlock-bench-"); err != nil {
		return nil, err
	}
	b.results = newResults(machine, version, o.quick)
	if err := b.furnish(machine.Python); err != nil {
		b.close()
		return nil, err
	}
	// A garbage collection of the load generator would disturb measurements.
	debug.SetGCPercent(1000)
	return b, nil
}

// furnish puts the packages and fonts of cold interpreters into the scratch folder.
func (b *bench) furnish(python string) error {
	var major, minor int
	if _, err := fmt.Sscanf(python, "Python %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%q is no version of Python: %w", python, err)
	}
	b.site = fmt.Sprintf("/lib/python%d.%d/site-packages", major, minor)
	packages := b.base() + b.site
	return errors.Join(
		os.Chmod(b.scratch, 0o755), // the service's user and sandboxes go through it
		os.CopyFS(b.fonts(), os.DirFS(filepath.Join(b.options.runtimes, "python", "matplotlib"))),
		os.MkdirAll(filepath.Dir(packages), 0o755),
		os.Symlink(b.packages(), packages),
	)
}

func (b *bench) close() {
	for _, s := range []*server{b.warm, b.cold, b.judge} {
		if s != nil {
			s.stop()
		}
	}
	os.RemoveAll(b.scratch)
}

// services starts the Airlock services that do not run yet, and waits until the warm
// one is warm.
func (b *bench) services(ctx context.Context) (err error) {
	if b.warm == nil {
		if b.warm, err = b.startAirlock(); err != nil {
			return err
		}
		if err := b.warm.await(ctx); err != nil {
			return err
		}
		if _, err := zygotesReady(ctx, b.warm); err != nil {
			return err
		}
	}
	if b.cold == nil {
		if b.cold, err = b.startAirlock("--warm=false"); err != nil {
			return err
		}
		return b.cold.await(ctx)
	}
	return nil
}

// peers returns the installed contestants with a sandbox of their own. The results say
// why one is missing.
func (b *bench) peers(ctx context.Context) []contestant {
	var list []contestant
	if _, err := os.Stat(b.options.bwrap); err == nil {
		list = append(list, b.bwrap())
	} else {
		b.results.Missing[nameBwrap] = "it is not installed"
	}
	if !b.judgeAsked {
		b.judgeAsked = true
		var err error
		if b.judge, err = b.startJudge(ctx); err != nil {
			b.results.Missing[nameJudge] = err.Error()
		}
	}
	if b.judge != nil {
		list = append(list, goJudge(b.judge, b.options.python))
	}
	return list
}

// field returns all contestants, Airlock last.
func (b *bench) field(ctx context.Context) ([]contestant, error) {
	if err := b.services(ctx); err != nil {
		return nil, err
	}
	list := append([]contestant{b.python()}, b.peers(ctx)...)
	return append(list, airlock(nameCold, b.cold), airlock(nameWarm, b.warm)), nil
}
