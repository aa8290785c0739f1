package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest/hostile"
)

// TestHostile runs the hostile programs in both kinds of sandboxes.
func TestHostile(t *testing.T) {
	testHostile(t, false, func(t *testing.T) engine.Sandbox { return start(t) })
}
func TestHostileWarm(t *testing.T) {
	testHostile(t, true, func(t *testing.T) engine.Sandbox { return startWarmWithPackages(t) })
}

// TestHostileInImage runs them in an image.
func TestHostileInImage(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	b := hostileBackend(t, func(t *testing.T) engine.Sandbox {
		return sandboxtest.InImage(startWarmWith(t, runtimes), record)
	})
	b.Warm, b.Image = true, true
	hostile.Suite(t, b)
}

// TestHostileCells runs them as cells of live sessions, which have their own zygote.
func TestHostileCells(t *testing.T) {
	var all *cells
	b := hostileBackend(t, func(t *testing.T) engine.Sandbox {
		s := startWarmWithPackages(t)
		all = newCells(t, s)
		return s
	})
	b.Cell = func(t *testing.T, spec *engine.Spec) sandboxtest.Result { return all.run(t, spec) }
	hostile.Suite(t, b)
}

func testHostile(t *testing.T, warm bool, open func(*testing.T) engine.Sandbox) {
	b := hostileBackend(t, open)
	b.Warm = warm
	hostile.Suite(t, b)
}

func hostileBackend(t *testing.T, open func(*testing.T) engine.Sandbox) hostile.Backend {
	t.Helper()
	var executorPID int
	var own string
	return hostile.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			before := executors(t)
			s := open(t)
			for _, pid := range executors(t) {
				if !strings.Contains(fmt.Sprint(before), fmt.Sprint(pid)) {
					executorPID, own = pid, instance(t, pid)
				}
			}
			// It runs after the suite has closed the sandbox.
			t.Cleanup(func() {
				if own == "" {
					return
				}
				if left := groupsOf(t, own); len(left) > 0 {
					t.Errorf("control groups are left: %v", left)
				}
			})
			return s
		},
		Strays: func(t *testing.T) []string { return strays(t, executorPID) },
		Groups: os.Geteuid() == 0,
	}
}

// TestHostileWithoutRoot runs them as an ordinary user, whose sandboxes have no control
// groups and no separate users.
func TestHostileWithoutRoot(t *testing.T) {
	withoutRoot(t, "^(TestHostile|TestHostileWarm|TestShortSlices|TestSessionOfInit|TestGuard|TestInterruptOfForeground)$")
}

// Programs that can succeed without protections do.
func TestHostileControls(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can one layer be left out and the others stay")
	}
	hostile.Controls(t, func(t *testing.T, steps ...string) engine.Sandbox {
		launcher := executor.NewLauncher(executor.LaunchOptions{Weaken: steps})
		s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// strays returns the processes in used sandboxes: a waiting sandbox has only the
// program's empty file in its workspace.
func strays(t *testing.T, executorPID int) (all []string) {
	t.Helper()
	for _, pid := range executor.Descendants(executorPID) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		_, inside, _ := strings.Cut(string(status), "NSpid:")
		inside, _, _ = strings.Cut(inside, "\n")
		if len(strings.Fields(inside)) < 3 {
			continue // a zygote
		}
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/root/workspace/*", pid))
		files = slices.DeleteFunc(files, func(path string) bool {
			info, err := os.Lstat(path)
			return err == nil && info.Name() == "main.py" && info.Size() == 0
		})
		if err == nil && len(files) == 0 && !strings.Contains(string(status), "State:\tZ") {
			continue
		}
		name, _, _ := strings.Cut(string(status), "\n")
		all = append(all, fmt.Sprint(pid, inside, name))
	}
	return all
}
