package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A program that computes for long gets processors only while no other process wants
// them. A program that is being ended gets them first.
func TestLongRunsYield(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	s := start(t)
	own := instance(t, executors(t)[0])
	setting := func(name string) (values []string) {
		for _, group := range groups(t) {
			folder, run := filepath.Split(group)
			if !strings.HasSuffix(folder, own+"/") || run == "executor" || run == "service" {
				continue
			}
			if b, err := os.ReadFile(filepath.Join(group, name)); err == nil {
				values = append(values, strings.TrimSpace(string(b)))
			}
		}
		return values
	}
	spec := sandboxtest.Python("while True: pass")
	spec.Limits.Timeout = time.Minute // on a busy machine it is long until it has had its share
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, spec, &pausing{t: t})
		ended <- err
	}()
	begin := time.Now()
	var yielded time.Duration
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			if yielded == 0 {
				t.Error("it never let others go first")
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
		if yielded > 0 && time.Since(begin) > yielded+time.Second {
			cancel()
			continue
		}
		idle := setting("cpu.idle")
		switch {
		case len(idle) == 1 && idle[0] == "1" && yielded == 0:
			const firstLook = 30 * time.Millisecond // as in cgroup
			if yielded = time.Since(begin); yielded < cgroup.ShortRun+firstLook {
				t.Errorf("it was short after %v, and had to let others go first", yielded)
			}
		case len(idle) == 1 && idle[0] == "0" && yielded > 0 &&
			!mayHaveTurn(yielded, begin):
			t.Errorf("it let others go first after %v, and no more after %v", yielded, time.Since(begin))
		}
	}
}

// mayHaveTurn reports whether other tests may have starved a demoted program for so
// long that it is boosted.
func mayHaveTurn(yielded time.Duration, begin time.Time) bool {
	const longTurn = 400 * time.Millisecond // as in cgroup
	return time.Since(begin)-yielded > longTurn
}

// The service's group is beside those of the programs, where the kernel can prefer it.
// At the end no control group is left.
func TestServiceBesidePrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	service := exec.Command("sleep", "600")
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Process.Kill() }()
	launcher := executor.NewLauncher(executor.LaunchOptions{Service: service.Process.Pid})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	own := instance(t, executors(t)[1]) // the first is the service
	if own == "" {
		t.Fatalf("the executor has no control group: %v", executors(t))
	}
	place := read(t, fmt.Sprintf("/proc/%d/cgroup", service.Process.Pid))
	if want := "/" + own + "/service"; !strings.Contains(place, want) &&
		!strings.Contains(place, "/airlock-service") {
		t.Errorf("the service is in\n%swant %s", place, want)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
		t.Errorf("stdout %q", r.Stdout)
	}
	_ = service.Process.Kill()
	_ = service.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left := groupsOf(t, own); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func groupsOf(t *testing.T, instance string) []string {
	t.Helper()
	return slices.DeleteFunc(groups(t), func(group string) bool { return !strings.Contains(group, instance) })
}

// A cold program does not begin idle because the previous one ended so.
func TestColdProgramsAreNotIdle(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	if _, err := os.Stat(filepath.Join(cgroup.Root, "cpu", "cpu.idle")); err != nil {
		sandboxtest.Skip(t, "needs idle control groups of version 1: "+err.Error())
	}
	s := startWarm(t)
	own := instance(t, executors(t)[0])
	limits := []engine.Limits{sandboxtest.Limits(), sandboxtest.Limits()}
	limits[1].Memory += 1 << 20
	for _, l := range limits {
		spec := sandboxtest.Python("print(1)")
		spec.Limits = l
		sandboxtest.Run(t, s, spec)
	}
	settled(t, executors(t)[0]) // nothing tells when what has ended is kept
	for _, l := range limits {  // sandboxes wait with one of them, and groups are left of the other
		spec := sandboxtest.Spec("bash", "sleep 5; exit 3")
		spec.Limits = l
		ended := make(chan sandboxtest.Result, 1)
		go func() { ended <- sandboxtest.Run(t, s, spec) }()
		look := time.NewTicker(10 * time.Millisecond)
		defer look.Stop()
		for seen := false; !seen; <-look.C { // nor when it has begun
			select {
			case r := <-ended:
				t.Fatalf("it was not seen: %+v", r)
			default:
			}
			for _, g := range groups(t) {
				if idle := kernelfile.Read(g, "cpu.idle"); idle != "" && strings.Contains(g, own) &&
					slices.Contains(commandsIn(g), "sleep") {
					if seen = true; idle != "0\n" {
						t.Errorf("it is idle: %q", idle)
					}
				}
			}
		}
		if r := <-ended; r.ExitCode == nil || *r.ExitCode != 3 {
			t.Errorf("it ended differently: %+v", r)
		}
	}
}

// commandsIn returns the names of the processes in a group.
func commandsIn(folder string) (names []string) {
	list, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	for _, pid := range strings.Fields(string(list)) {
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		names = append(names, strings.TrimSpace(string(name)))
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
