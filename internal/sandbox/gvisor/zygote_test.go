package gvisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// startWarm starts an executor that has stored its interpreters.
func startWarm(t *testing.T) *executor.Sandbox {
	t.Helper()
	return startWith(t, executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), WarmFirst: true})
}

func TestSuiteWarm(t *testing.T) {
	none := t.TempDir() // programs of the suite import no packages
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			return startWith(t, executor.LaunchOptions{Runtimes: none, WarmFirst: true})
		},
		Root:   true,
		Kernel: true,
	})
}

// A copy draws with the fonts that the interpreter has open, and has the channel of a program that calls out.
func TestPlotOfACopy(t *testing.T) {
	s := startWarm(t)
	const plot = `import os, matplotlib.pyplot as plt, pandas
pandas.DataFrame({"a": [1, 4, 9]}).plot(title="squares")
plt.savefig("a.png")
print(sorted(os.listdir("/proc/self/fd"))[:5], open("a.png", "rb").read(4))`
	for range 4 {
		r := sandboxtest.Run(t, s, sandboxtest.Python(plot))
		if r.Code() != 0 || r.Start != engine.StartWarm || !strings.Contains(r.Stdout, "PNG") ||
			len(r.Files["a.png"]) < 5000 {
			t.Fatalf("started %s, %d bytes: %s%s", r.Start, len(r.Files["a.png"]), r.Stdout, r.Stderr)
		}
	}
}

// Copies of one interpreter have nothing random in common.
func TestCopiesDiffer(t *testing.T) {
	s := startWarm(t)
	pools, err := s.Pools(t.Context())
	if err != nil || slices.ContainsFunc(pools, func(p engine.Pool) bool { return !p.Ready }) {
		t.Fatalf("%+v %v", pools, err)
	}
	const code = `import random, uuid, os, tempfile, secrets, numpy, matplotlib.pyplot, ssl, multiprocessing.process
print(random.random(), uuid.uuid4(), os.urandom(8).hex(), tempfile.mktemp(), secrets.token_hex(8))
print(numpy.random.random(), numpy.random.default_rng().random(), ssl.RAND_bytes(8).hex())
print(bytes(multiprocessing.process.current_process().authkey).hex())`
	seen := map[string]bool{}
	for range 6 {
		spec := sandboxtest.Python(code)
		r := sandboxtest.Run(t, s, spec)
		if r.Code() != 0 || r.Start != engine.StartWarm {
			t.Fatalf("started %s: %s", r.Start, r.Stderr)
		}
		for _, word := range strings.Fields(r.Stdout) {
			if seen[word] {
				t.Errorf("%s came twice", word)
			}
			seen[word] = true
		}
	}
}
