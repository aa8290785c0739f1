package linux

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// withPackages returns runtimes that have packages of these names and contents.
func withPackages(t *testing.T, packages map[string]string) string {
	t.Helper()
	runtimes := sandboxtest.LiveRuntimesOf(t)
	for name, code := range packages {
		file := filepath.Join(runtimes, "python", "lib", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return runtimes
}

// has returns a program that tells whether its interpreter has imported a module, and imports it.
func has(name string) *engine.Spec {
	return sandboxtest.Python(fmt.Sprintf("import sys, asyncio\nprint(%q in sys.modules)\nimport %s\n", name, name))
}

// learned lists the pools of an executor that have learned something.
func learned(t *testing.T, s *executor.Sandbox) (names []string) {
	t.Helper()
	pools, err := s.Pools(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pools {
		if strings.HasSuffix(p.Name, ", learned") && p.Ready {
			names = append(names, p.Name)
		}
	}
	return names
}

// TestLearn has programs start with a package that the last ones have imported.
func TestLearn(t *testing.T) {
	s := startWarmWith(t, withPackages(t, map[string]string{
		"habit/__init__.py": "import random\nmade = random.Random()\n", // as Faker has one
		"habit/part.py":     "",
		"habit/tests/x.py":  "",
		"habit/_own.py":     "",
	}))
	run := func(spec *engine.Spec) string {
		t.Helper()
		r := sandboxtest.Run(t, s, spec)
		if r.Code() != 0 {
			t.Fatalf("%s\n%s", spec.Code, r.Stderr)
		}
		return strings.TrimSpace(r.Stdout)
	}
	const both = "import sys, asyncio\n" +
		"print(*(n in sys.modules for n in ('habit.part', 'habit._own', 'habit.tests.x')))\n" +
		"import habit.part, habit._own, habit.tests.x\n"
	var got string
	sandboxtest.Await(func() bool {
		got = run(sandboxtest.Python(both))
		return got != "False False False"
	})
	if got != "True False False" { // the others are not meant for programs
		t.Fatalf("programs start with %s", got)
	}

	// Others have not got it.
	if got := run(sandboxtest.Python("import sys, asyncio\nprint('habit' in sys.modules)")); got != "False" {
		t.Error("a program has a module that it does not import")
	}
	spec := has("habit.part")
	spec.Env = map[string]string{"HABIT_COLOUR": "no"}
	if got := run(spec); got != "False" {
		t.Error("the package was imported before its variable was there")
	}
	spec = has("habit.part")
	spec.Network = &engine.ProxySettings{}
	if got := run(spec); got != "False" {
		t.Error("a program that may install packages has one that was imported before")
	}

	// What a package draws when it is imported is drawn again.
	numbers := sandboxtest.Python("import sys, habit.part\nprint('habit' in sys.modules, habit.made.random())")
	if a, b := run(numbers), run(numbers); a == b {
		t.Errorf("two programs draw %s", a)
	}
}

// TestLearnRefused has a package that starts a thread, which no zygote can have: another one is learned,
// and forgotten when nobody has imported it for a while.
func TestLearnRefused(t *testing.T) {
	runtimes := withPackages(t, map[string]string{
		"habit/__init__.py": "",
		"threaded/__init__.py": "from threading import Thread\nfrom time import sleep\n" +
			"Thread(target=sleep, args=(60,), daemon=True).start()\n",
	})
	var log syncBuffer
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true,
		Weaken: []string{executor.WeakIdleTime}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	both := sandboxtest.Python("import sys, asyncio\nprint('habit' in sys.modules)\nimport threaded, habit\n")
	if !sandboxtest.Await(func() bool { return sandboxtest.Run(t, s, both).Stdout == "True\n" }) {
		t.Fatalf("no program starts with what many have imported\n%s", &log)
	}
	if !strings.Contains(log.String(), "1 threads") {
		t.Errorf("nobody is told why a package is not learned: %s", &log)
	}
	if !sandboxtest.Await(func() bool { return len(learned(t, s)) == 0 }) {
		t.Error("nobody uses it and it stays")
	}
}

// TestLearnLarge has a package that takes more memory than a zygote may have which has learned something.
func TestLearnLarge(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	runtimes := withPackages(t, map[string]string{ // pid 2 is a program
		"large/__init__.py": "import os\nx = b'x' * (3 << 30 if os.getpid() != 2 else 1)\n"})
	var log syncBuffer
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if !sandboxtest.Await(func() bool {
		if sandboxtest.Run(t, s, has("large")).Stdout != "False\n" {
			t.Fatal("a zygote has learned a package of 3 GiB")
		}
		return strings.Contains(log.String(), "does not learn large")
	}) {
		t.Errorf("nobody is told that it is not learned: %s", &log)
	}
}
