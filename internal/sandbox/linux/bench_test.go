package linux

import (
	"os/exec"
	"slices"
	"testing"
	"time"

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
	s, err := Start(b.Context(), Config{Launcher: NewLauncher(LaunchOptions{}), Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	warm := startWarmWithPackages(b)
	for _, tier := range tiers {
		code := "print(1)"
		if len(tier.serves) > 0 {
			code = "import " + tier.serves[0] + "\n" + code
		}
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
	cold, err := Start(b.Context(), Config{Launcher: NewLauncher(LaunchOptions{}), Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer cold.Close()
	waiting, err := Start(b.Context(), Config{Launcher: NewLauncher(LaunchOptions{Warm: true}), Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer waiting.Close()
	for name, code := range map[string]string{"js": "console.log(1)", "ts": "const x: number = 1\nconsole.log(x)",
		"bash": "echo 1", "c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n"} {
		b.Run(name, func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, s := range []*Sandbox{cold, waiting} {
					time.Sleep(100 * time.Millisecond) // that the next one waits
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
