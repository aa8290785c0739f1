package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// executors returns the pids of this process's executors.
func executors(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(os.Getpid()) && fields[0] != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// traces returns the state that a sandbox could leave on this host.
func traces(t *testing.T, executorPID int) (all []string) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", executorPID))
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]int{}
	for _, f := range files {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", executorPID, f.Name()))
		kind, _, _ := strings.Cut(target, ":[")
		if kind == "net" || kind == "ipc" { // one of each for a waiting sandbox, and some pooled ones
			if kept[kind]++; kept[kind] <= len(waitingPids(executorPID))+mostNamespaces {
				continue
			}
		}
		if err == nil {
			all = append(all, "file "+kind)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", executorPID))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		all = append(all, "mount "+strings.Fields(line)[4])
	}
	own := instance(t, executorPID)
	processes, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if groups, err := os.ReadFile(p); err == nil && own != "" && strings.Contains(string(groups), own) {
			all = append(all, "process")
		}
	}
	for _, group := range groups(t) {
		if own != "" && strings.Contains(group, own) {
			all = append(all, "group "+group)
		}
	}
	for i := range all { // those of waiting sandboxes have other names each time
		parts := strings.Split(all[i], "/")
		for j, part := range parts {
			if _, err := engine.ParseID(part); err == nil {
				parts[j] = "ID"
			}
		}
		all[i] = strings.Join(parts, "/")
	}
	slices.Sort(all)
	return all
}

// instance returns the name of an executor's control groups, "" if it has none.
func instance(t *testing.T, executorPID int) string {
	t.Helper()
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", executorPID))
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(string(own), "/airlock/")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// groups returns the control groups of every executor on this machine.
func groups(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(cgroup.Root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/airlock/") {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNothingIsLeft(t *testing.T) { testNothingIsLeft(t, start(t), func() {}) }
func TestNothingIsLeftWarm(t *testing.T) {
	s := startWarm(t)
	testNothingIsLeft(t, s, func() {
		if len(spawn.CommandProgram()) > 0 {
			awaitPool(t, s, "other languages", executor.MostCommands)
		}
	})
}

// testNothingIsLeft compares the traces when the pools are full.
func testNothingIsLeft(t *testing.T, s *executor.Sandbox, full func()) {
	pids := executors(t)
	if len(pids) != 1 {
		t.Fatalf("executors: %v", pids)
	}
	programs := []*engine.Spec{
		sandboxtest.Python("open('x','w').write('x')"),
		sandboxtest.Spec("bash", "sleep 30 & setsid sleep 30 & exit 3"),
		sandboxtest.Python(
			"import os\nfor i in range(20):\n    if os.fork() == 0: os.setsid() if i % 2 else 0; import time; time.sleep(30)"),
		sandboxtest.Python("while True: pass"),
		sandboxtest.Python("x = bytearray(1 << 30)"),
		sandboxtest.Spec("bash", "exec 3<>/tmp/f; mkdir -p a/b/c; chmod 0 a; kill -9 $$"),
	}
	for _, p := range programs {
		p.Limits.Timeout = 500 * time.Millisecond
	}
	round := func() {
		for _, p := range programs {
			sandboxtest.Run(t, s, p)
		}
		id := engine.NewID()
		if err := s.Hold(t.Context(), id, 0, "", nil, sandboxtest.Limits()); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	round()
	full()
	before := settled(t, pids[0])
	for range 5 {
		round()
	}
	full()
	if diff := cmp.Diff(before, settled(t, pids[0])); diff != "" {
		t.Errorf("left behind (+):\n%s", diff)
	}
}

// settled returns the traces once they are stable: the executor closes a request's
// socket shortly after its answer.
func settled(t *testing.T, executorPID int) []string {
	t.Helper()
	last := traces(t, executorPID)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for same := 0; same < 10; <-look.C {
		next := traces(t, executorPID)
		if same++; !slices.Equal(last, next) {
			last, same = next, 0
		}
	}
	return last
}

func TestExecutorDies(t *testing.T) {
	s := start(t)
	first := executors(t)
	failed := make(chan error)
	go func() {
		_, err := s.Run(t.Context(), sandboxtest.Python("import time; time.sleep(15)"), silent{})
		failed <- err
	}()
	if !sandboxtest.Await(func() bool { return len(executor.Descendants(first[0])) > 0 }) {
		t.Fatal("the program does not run")
	}
	if err := unix.Kill(first[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("error %v, want unavailable", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the run outlived its executor")
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print('again')")); r.Stdout != "again\n" {
		t.Errorf("stdout %q", r.Stdout)
	}
	if next := executors(t); len(next) != 1 || next[0] == first[0] {
		t.Errorf("executors %v, first %v", next, first)
	}
}

// The executor keeps the capabilities that it needs and no others.
func TestExecutorGivesUpCapabilities(t *testing.T) {
	start(t)
	var want uint64
	for _, c := range executor.NeededCapabilities {
		want |= 1 << c
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", executors(t)[0]))
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			if !slices.Contains([]string{"CapPrm", "CapEff", "CapBnd", "CapInh"}, name) {
				continue
			}
			has, err := strconv.ParseUint(value, 16, 64)
			if err != nil || has&^want != 0 {
				t.Errorf("%s: %s is %s, wanted at most %016x", thread, name, value, want)
			}
		}
	}
}

// The next executor sweeps the control groups of one that was killed.
func TestSweep(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	s := start(t)
	killed := executors(t)[0]
	name := instance(t, killed)
	has := func(group string) bool { return strings.Contains(group, name) }
	if !slices.ContainsFunc(groups(t), has) {
		t.Fatalf("executor %d has no control groups", killed)
	}
	if err := unix.Kill(killed, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Run(t, s, sandboxtest.Python("")) // even if the dying executor got it first
	if slices.ContainsFunc(groups(t), has) {
		t.Errorf("the control groups of executor %s are still there", name)
	}
}

func TestRemoteLauncher(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	parent, child := os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "child")
	served := make(chan error)
	go func() {
		served <- executor.ServeLauncher(t.Context(), parent, executor.NewLauncher(executor.LaunchOptions{}))
	}()
	remote := executor.RemoteLauncher(child)
	s, err := executor.Start(t.Context(), executor.Config{Launcher: remote, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
		t.Errorf("stdout %q", r.Stdout)
	}
	s.Close()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestStrictRefusesLess(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("as root this host is strict enough; the refusal is tested as an ordinary user")
		return
	}
	launcher := executor.NewLauncher(executor.LaunchOptions{})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Strict: true, Log: quiet})
	if err == nil {
		s.Close()
		t.Fatal("strict isolation was promised without control groups")
	}
	if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "strict") {
		t.Errorf("error %v", err)
	}
}
