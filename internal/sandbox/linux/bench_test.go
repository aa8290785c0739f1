package linux

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// BenchmarkCold measures a whole run in a fresh sandbox, and the plain interpreter
// without one.
func BenchmarkCold(b *testing.B) {
	b.Run("python", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/usr/bin/python3", "-c", "print(1)").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	s, err := executor.Start(b.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{})})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	warm := startWarmWithPackages(b)
	for _, tier := range []struct{ name, code string }{{"bare", ""}, {"numpy", "import numpy\n"},
		{"pandas", "import pandas\n"}, {"full", "import matplotlib\n"}} {
		code := tier.code + "print(1)"
		b.Run("warm "+tier.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := warm.Run(b.Context(), sandboxtest.Python(code), silent{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, code := range map[string]string{"python": "print(1)", "bash": "echo 1"} {
		b.Run("sandboxed "+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Run(b.Context(), sandboxtest.Spec(name, code), silent{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWaiting measures runs in a waiting process and cold runs in turns, so that
// load on the machine affects both.
func BenchmarkWaiting(b *testing.B) {
	cold, err := executor.Start(b.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{})})
	if err != nil {
		b.Fatal(err)
	}
	defer cold.Close()
	waiting, err := executor.Start(b.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{Warm: true})})
	if err != nil {
		b.Fatal(err)
	}
	defer waiting.Close()
	for name, code := range map[string]string{"js": "console.log(1)", "ts": "const x: number = 1\nconsole.log(x)",
		"bash": "echo 1", "c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n"} {
		b.Run(name, func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, s := range []*executor.Sandbox{cold, waiting} {
					awaitWanted(b, s) // that the next one waits
					began := time.Now()
					if _, err := s.Run(b.Context(), sandboxtest.Spec(name, code), silent{}); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			median := func(i int) float64 { return float64(took[i][len(took[i])/2]) / float64(time.Millisecond) }
			b.ReportMetric(median(0), "cold-ms")
			b.ReportMetric(median(1), "waiting-ms")
			b.ReportMetric(median(1)/median(0), "ratio")
		})
	}
}

// awaitWanted waits until each pool has as many processes as it is to have.
func awaitWanted(b *testing.B, s *executor.Sandbox) {
	b.Helper()
	if !sandboxtest.Await(func() bool {
		pools, err := s.Pools(b.Context())
		return err == nil && !slices.ContainsFunc(pools, func(p engine.Pool) bool { return p.Waiting < p.Wanted })
	}) {
		b.Fatal("too few processes wait")
	}
}
