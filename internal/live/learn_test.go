package live

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestLearn has sessions begin with a package that the first cells of others have imported, while these go on.
func TestLearn(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	folder := filepath.Join(runtimes, "python", "lib", "habit")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	// It sees the shell, as what adapts itself to notebooks does.
	code := "import os, IPython\nshell = IPython.get_ipython() is not None\nbackend = os.environ.get('MPLBACKEND', '')\n"
	if err := os.WriteFile(filepath.Join(folder, "__init__.py"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	p := openWith(t, Config{}, runtimes)
	const first = "import sys\nbefore = 'habit' in sys.modules\nimport habit\nbefore, habit.shell, 'inline' in habit.backend"
	old := p.session("python")
	if got := plain(t, p.run(old, first)); got != "(False, True, True)" {
		t.Fatalf("the first session has %s", got)
	}
	for range 2 {
		p.want(p.run(p.session("python"), first), StatusOK)
	}
	p.await(func() bool {
		pools, err := p.sandbox.Pools(t.Context())
		return err == nil && slices.ContainsFunc(pools, func(p engine.Pool) bool { return p.Name == "live, learned" })
	})
	if got := plain(t, p.run(p.session("python"), first)); got != "(True, True, True)" {
		t.Errorf("a session begins with %s", got)
	}
	if got := plain(t, p.run(p.session("python"), "import sys; 'habit' in sys.modules")); got != "False" {
		t.Error("a session has a module that its first cell does not import")
	}
	if got := plain(t, p.run(old, "before")); got != "False" {
		t.Errorf("the old session has %s", got)
	}
	p.want(p.run(old, "import os; open('habit.py', 'w').write('mine = 1'); os._exit(3)"), StatusLost)
	if got := plain(t, p.run(old, "import habit; habit.mine")); got != "1" {
		t.Errorf("its next interpreter has %s in place of the session's own file", got)
	}
}
