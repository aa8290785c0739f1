package cgroup

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// apartTree returns a tree of version 1 with a hierarchy for each controller.
func apartTree(t *testing.T) *Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	tree := &Tree{Version: 1, bases: map[string]string{}, long: newDemotedGroups()}
	name := "airlock-test-" + rand.Text()
	for _, controller := range allControllers {
		base := filepath.Join(Root, controller, name)
		if err := os.Mkdir(base, 0o755); err != nil {
			sandboxtest.Skip(t, "needs control groups of version 1: "+err.Error())
		}
		tree.bases[controller] = base
		t.Cleanup(func() { removeTree(base) })
	}
	t.Cleanup(tree.Close)
	return tree
}

var smallLimits = Limits{Memory: 64 << 20, Processes: 4, CPUs: 0.5}

// The next program cannot tell a reused group from a new one.
func TestGroupsAreUsedAgain(t *testing.T) {
	tree := apartTree(t)
	first, err := tree.Create("first", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, first, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 8m /dev/zero | tail -n 1")
	if first.CPUTime() == 0 || first.MemoryPeak() < 8<<20 {
		t.Fatalf("nothing was counted: %v, %d bytes", first.CPUTime(), first.MemoryPeak())
	}
	first.Idle(true)
	first.Remove()

	other, err := tree.Create("other", Limits{Memory: 64 << 20, Processes: 5, CPUs: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	if slices.Contains(other.folders, first.folders[0]) {
		t.Error("one with other limits was taken")
	}
	second, err := tree.Create("second", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Remove()
	if len(first.folders) != len(tree.bases) || !slices.Equal(second.folders, first.folders) {
		t.Errorf("folders %v after %v", second.folders, first.folders)
	}
	if second.CPUTime() != 0 || second.MemoryPeak() > mostCharged || second.Processes() != 0 || second.OOMKills() != 0 {
		t.Errorf("it starts at %v, %d bytes, %d processes", second.CPUTime(), second.MemoryPeak(), second.Processes())
	}
	second.Idle(false)
	for _, f := range [][2]string{{"pids.max", "4\n"}, {"cpu.cfs_quota_us", "50000\n"},
		{"memory.limit_in_bytes", "67108864\n"}, {"cpu.idle", "0\n"}} {
		for _, folder := range second.folders {
			if b, err := os.ReadFile(filepath.Join(folder, f[0])); err == nil && string(b) != f[1] {
				t.Errorf("%s is %q", f[0], b)
			}
		}
	}
	second.Idle(true)
	first.Idle(false) // by a caller that has not seen its end
	second.Idle(true)
	idle := kernelfile.Read(filepath.Join(tree.bases["cpu"], "first"), "cpu.idle")
	if idle != "1\n" && second.yield != nil {
		t.Errorf("cpu.idle is %q when it was told to be", idle)
	}
}

// A program in a group whose quota is used up for the present period does not wait for
// the next one.
func TestWholeShareAgain(t *testing.T) {
	tree := apartTree(t)
	g, err := tree.Create("share", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer g.destroy()
	folder := filepath.Join(tree.bases["cpu"], "share")
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() {
		if err := writeFile(controllerBase(Root, "cpu", parseOwnGroups(string(own))["cpu"]), "tasks", "0"); err != nil {
			t.Error(err)
		}
	}()
	if err := writeFile(folder, "tasks", "0"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		compute(t, 30*time.Millisecond) // of the 50 in each period
		if !g.resetQuota() {
			t.Error("it was not given its share again")
		}
	}
	if stopped := kernelfile.Value(kernelfile.Read(folder, "cpu.stat"), "nr_throttled"); stopped > 0 {
		t.Errorf("it was stopped %d times", stopped)
	}
}

// compute uses a processor for a time, in this thread.
func compute(t *testing.T, much time.Duration) {
	t.Helper()
	var begin, now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin)
	for err == nil && now.Nano() < begin.Nano()+int64(much) {
		err = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runIn runs a shell in a group, waits for its end, and waits until the kernel has
// freed the memory that only it used. The memory of the test's files stays.
func runIn(t *testing.T, g *Group, script string, files ...*os.File) {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", "for f in $*; do echo 0 > $f/tasks || exit; done; "+script, "sh")
	shell.Args = append(shell.Args, g.folders...)
	shell.ExtraFiles = files
	if out, err := shell.CombinedOutput(); err != nil && shell.ProcessState.ExitCode() != killedInShell {
		t.Fatalf("%v: %s", err, out)
	}
	if n := g.Processes(); n != 0 {
		t.Fatalf("%d processes are left", n)
	}
	if len(files) == 0 { // what it has charged in advance, it gives back
		if err := writeFile(filepath.Join(g.tree.bases[memoryController], filepath.Base(g.folders[0])), "memory.force_empty",
			"0"); err != nil {
			t.Fatal(err)
		}
	}
	charged := func() int64 { return kernelfile.Int(kernelfile.ReadOpen(g.memoryFile)) }
	if len(files) == 0 && !sandboxtest.Await(func() bool { return charged() <= mostCharged }) {
		t.Fatalf("%s bytes are still charged", kernelfile.ReadOpen(g.memoryFile))
	}
}

// killedInShell is the exit code of a shell whose last command was killed.
const killedInShell = 128 + 9

// leaveUnread creates a socket with unread data in a group's hierarchy for memory, and
// in no other.
func leaveUnread(t *testing.T, g *Group) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: nothing else should run where it was
		own, err := os.ReadFile("/proc/thread-self/cgroup")
		if err != nil {
			done <- err
			return
		}
		home := controllerBase(Root, memoryController, parseOwnGroups(string(own))[memoryController])
		fd := -1
		err = writeFile(filepath.Join(g.tree.bases[memoryController], "first"), "tasks", "0")
		if err == nil {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		}
		err = errors.Join(err, writeFile(home, "tasks", "0"))
		if err == nil {
			t.Cleanup(func() { unix.Close(fd) })
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			var self unix.Sockaddr
			if self, err = unix.Getsockname(fd); err == nil {
				err = unix.Sendto(fd, make([]byte, 1000), 0, self)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if used := kernelfile.ReadOpen(g.socketFile); used == "0\n" {
		t.Fatal("nothing is counted for its socket")
	}
}

func TestGroupsThatAreNotUsedAgain(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *Group){
		"given another weight": func(_ *testing.T, g *Group) { g.weigh(weightOfLong) },
		"killed":               func(_ *testing.T, g *Group) { g.BoostForExit() },
		"frozen":               func(_ *testing.T, g *Group) { g.Freeze(true) },
		"with somebody in it": func(t *testing.T, g *Group) {
			sleeping := exec.Command("/bin/sleep", "60")
			if err := sleeping.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = sleeping.Process.Kill(), sleeping.Wait() })
			for _, folder := range g.folders {
				if err := writeFile(folder, "cgroup.procs", strconv.Itoa(sleeping.Process.Pid)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"that came near its limit": func(t *testing.T, g *Group) {
			runIn(t, g, "head -c 36m /dev/zero | tail -n 1")
		},
		"with memory that is still used": func(t *testing.T, g *Group) {
			fd, err := unix.MemfdCreate("left", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			left := os.NewFile(uintptr(fd), "left")
			t.Cleanup(func() { left.Close() })
			runIn(t, g, "head -c 2m /dev/zero >&3", left)
		},
		"with memory that cannot be counted": func(_ *testing.T, g *Group) { g.memoryFile.Close() },
		"with something in a socket":         leaveUnread,
		"in which a process was killed for want of memory": func(t *testing.T, g *Group) {
			runIn(t, g, "tail /dev/zero")
			if g.OOMKills() == 0 {
				t.Fatal("none is counted")
			}
			// This also happens if the host was short of memory, or if memory was swapped out.
			if err := writeFile(filepath.Join(g.tree.bases[memoryController], "first"), "memory.max_usage_in_bytes",
				"0"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := apartTree(t)
			first, err := tree.Create("first", smallLimits)
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, first)
			first.Remove()
			second, err := tree.Create("second", smallLimits)
			if err != nil {
				t.Fatal(err)
			}
			defer second.Remove()
			if slices.Contains(first.folders, second.folders[0]) {
				t.Error("it is used again")
			}
		})
	}
}

// A group is removed if its creation failed, if it lacks some of the counters, or if
// the pool is closed.
func TestGroupsThatAreNotKept(t *testing.T) {
	left := func(tree *Tree) (found []string) {
		for _, base := range tree.bases {
			folders, _ := filepath.Glob(filepath.Join(base, "*", "tasks"))
			found = append(found, folders...)
		}
		return found
	}
	t.Run("half of one", func(t *testing.T) {
		tree := apartTree(t)
		for i := range 20 { // in no certain order
			taken := filepath.Join(tree.bases["cpu"], strconv.Itoa(i))
			if err := os.Mkdir(taken, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.Create(strconv.Itoa(i), Limits{Memory: 64 << 20, Processes: 4}); !errors.Is(
				err, os.ErrExist) {
				t.Fatalf("half of a group: %v", err)
			}
			if err := os.Remove(taken); err != nil {
				t.Fatal(err)
			}
		}
		if found := left(tree); len(found) > 0 || len(tree.pool.list) > 0 {
			t.Errorf("left: %v", found)
		}
	})
	t.Run("without a count", func(t *testing.T) {
		tree := apartTree(t)
		delete(tree.bases, "cpuacct")
		g, err := tree.Create("first", smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		g.Remove()
		if found := left(tree); len(found) > 0 {
			t.Errorf("left: %v", found)
		}
	})
	t.Run("late", func(t *testing.T) {
		tree := apartTree(t)
		g, err := tree.Create("first", smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		tree.pool.close()
		g.Remove()
		if found := left(tree); len(found) > 0 || g.join[0].Fd() != ^uintptr(0) {
			t.Errorf("left: %v", found)
		}
	})
}

// The pool holds as many groups as are needed at once, and no more.
func TestKeptGroupsAreFew(t *testing.T) {
	tree := apartTree(t)
	var all []*Group
	for range maxPooled + 2 {
		g, err := tree.Create(rand.Text(), smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	for _, g := range all {
		g.Remove()
	}
	left, err := filepath.Glob(filepath.Join(tree.bases["pids"], "*", "pids.max"))
	if err != nil || len(left) != maxPooled {
		t.Errorf("%d are left, %v", len(left), err)
	}
}
