package gvisor

import (
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest/hostile"
)

func TestHostile(t *testing.T) {
	hostile.Suite(t, hostile.Backend{
		Open:   func(t *testing.T) engine.Sandbox { return start(t) },
		Strays: strays,
		Groups: true,
		Kernel: true,
	})
}

// strays lists the processes of sandboxes.
func strays(t *testing.T) (left []string) {
	t.Helper()
	folders, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		line, err := os.ReadFile("/proc/" + f.Name() + "/cmdline")
		if err == nil && (strings.HasPrefix(string(line), "runsc-") || strings.HasPrefix(string(line), Command+"\x00")) {
			left = append(left, f.Name()+" "+strings.ReplaceAll(string(line[:min(len(line), 80)]), "\x00", " "))
		}
	}
	return left
}
