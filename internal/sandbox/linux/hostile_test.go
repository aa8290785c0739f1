package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest/hostile"
)

// TestHostile runs the hostile programs in both kinds of sandboxes.
func TestHostile(t *testing.T) {
	testHostile(t, false, func(t *testing.T) *Sandbox { return start(t) })
}
func TestHostileWarm(t *testing.T) {
	testHostile(t, true, func(t *testing.T) *Sandbox { return startWarmWithPackages(t) })
}

// TestHostileCells runs them as cells of live sessions, which have their own zygote.
func TestHostileCells(t *testing.T) {
	var all *cells
	b := hostileBackend(t, func(t *testing.T) *Sandbox {
		s := startWarmWithPackages(t)
		all = newCells(t, s)
		return s
	})
	b.Cell = func(t *testing.T, spec *engine.Spec) sandboxtest.Result { return all.run(t, spec) }
	hostile.Suite(t, b)
}

func testHostile(t *testing.T, warm bool, open func(*testing.T) *Sandbox) {
	b := hostileBackend(t, open)
	b.Warm = warm
	hostile.Suite(t, b)
}

func hostileBackend(t *testing.T, open func(*testing.T) *Sandbox) hostile.Backend {
	t.Helper()
	var executor int
	var own string
	return hostile.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			before := executors(t)
			s := open(t)
			for _, pid := range executors(t) {
				if !strings.Contains(fmt.Sprint(before), fmt.Sprint(pid)) {
					executor, own = pid, instance(t, pid)
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
		Strays: func(t *testing.T) []string { return strays(t, executor) },
		Groups: os.Geteuid() == 0,
	}
}

// TestHostileWithoutRoot runs them as an ordinary user, whose sandboxes have no control
// groups and no separate users.
func TestHostileWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("this is an ordinary user: the other tests are it")
		return
	}
	const tests = "^(TestHostile|TestHostileWarm|TestShortSlices|TestSessionOfInit|TestGuard|TestInterruptOfForeground)$"
	if out, err := asNobody(t, tests, nil); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Programs that can succeed without protections do.
func TestHostileControls(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can one layer be left out and the others stay")
	}
	hostile.Controls(t, func(t *testing.T, steps ...string) engine.Sandbox {
		launcher := NewLauncher(LaunchOptions{weaken: steps})
		s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// strays returns the processes in used sandboxes: a waiting sandbox has only the
// program's empty file in its workspace.
func strays(t *testing.T, executor int) (all []string) {
	t.Helper()
	for _, pid := range descendants(executor) {
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
