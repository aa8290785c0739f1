package setup

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed probe.py
var probeScript string

// importScript imports the module named second from the directory named first.
const importScript = `import importlib, sys
sys.path.insert(0, sys.argv[1])
importlib.import_module(sys.argv[2])`

// importTime bounds one import on a slow machine with cold disks.
const importTime = 2 * time.Minute

// distribution is an installed package, as probe.py describes it.
type distribution struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Module    string `json:"module"`
	Requested bool   `json:"requested"`
}

// try imports every main package, each in its own process, so that a crash affects no
// other.
func (in *installer) try(ctx context.Context, p plan) ([]Package, error) {
	set := in.path("sets", p.set)
	out, err := pythonCommand(ctx, nil, in.python, "-I", "-c", probeScript, set).Output()
	var there []distribution
	if err == nil {
		err = json.Unmarshal(out, &there)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the Python packages: %w", err)
	}
	packages := in.promised(p, there)
	var (
		group sync.WaitGroup
		done  atomic.Int64
		turns = make(chan struct{}, runtime.NumCPU())
	)
	for i := range packages {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			in.tryImport(ctx, set, &packages[i])
			done.Add(1)
		})
		in.progress.Update(int(done.Load()), len(packages), "import "+packages[i].Module)
	}
	group.Wait()
	return packages, ctx.Err()
}

// promised returns the main packages and the user's own.
func (in *installer) promised(p plan, there []distribution) []Package {
	locked := packageNames(string(p.lock))
	var packages []Package
	for _, name := range packageNames(in.roots(in.kind.name)) {
		// The lock of a CPython may lack a package.
		if !slices.Contains(locked, name) || slices.Contains(in.kind.broken, name) {
			continue
		}
		found := Package{Name: name, Error: "it is not installed"}
		for _, d := range there {
			if d.Name == name {
				found = Package{Name: name, Version: d.Version, Module: d.Module}
			}
		}
		packages = append(packages, found)
	}
	for _, d := range there {
		if d.Requested && !slices.Contains(locked, d.Name) {
			packages = append(packages, Package{Name: d.Name, Version: d.Version, Module: d.Module})
		}
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages
}

func (in *installer) tryImport(ctx context.Context, set string, p *Package) {
	if p.Error != "" {
		return
	}
	if p.Module == "" {
		p.OK = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	cmd := pythonCommand(ctx, []string{"MPLCONFIGDIR=" + in.path("matplotlib")}, in.python, "-I", "-c", importScript, set,
		p.Module)
	var stderr tail
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		p.OK = true
	case ctx.Err() != nil:
		p.Error = "the import did not end within " + importTime.String()
	case stderr.last() != "":
		p.Error = stderr.last()
	default:
		p.Error = err.Error()
	}
}
