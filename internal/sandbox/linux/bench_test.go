package linux

import (
	"os/exec"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// BenchmarkCold is a whole run in a fresh sandbox, beside the interpreter
// alone without any.
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
	warm := startWarm(b)
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
