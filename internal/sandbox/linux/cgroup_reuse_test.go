package linux

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// apartTree is a tree of version 1 with a hierarchy for each controller.
func apartTree(t *testing.T) *cgroupTree {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	tree := &cgroupTree{version: 1, bases: map[string]string{}, long: newDemotedGroups()}
	name := "airlock-test-" + engine.NewID().String()
	for _, controller := range append([]string{"pids", memoryController}, cpuControllers...) {
		base := filepath.Join(groupRoot, controller, name)
		if err := os.Mkdir(base, 0o755); err != nil {
			sandboxtest.Skip(t, "needs control groups of version 1: "+err.Error())
		}
		tree.bases[controller] = base
		t.Cleanup(func() { removeInstance(base) })
	}
	t.Cleanup(tree.close)
	return tree
}

var smallLimits = groupLimits{memory: 64 << 20, processes: 4, cpus: 0.5}

// What is kept of a group is nothing that the next program could tell from new.
func TestGroupsAreUsedAgain(t *testing.T) {
	tree := apartTree(t)
	first, err := tree.create("first", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, first, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 8m /dev/zero | tail -n 1")
	if first.cpu() == 0 || first.memoryPeak() < 8<<20 {
		t.Fatalf("nothing was counted: %v, %d bytes", first.cpu(), first.memoryPeak())
	}
	first.idle(true)
	first.remove()

	other, err := tree.create("other", groupLimits{memory: 64 << 20, processes: 5, cpus: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer other.remove()
	if slices.Contains(other.folders, first.folders[0]) {
		t.Error("one with other limits was taken")
	}
	second, err := tree.create("second", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer second.remove()
	if len(first.folders) != len(tree.bases) || !slices.Equal(second.folders, first.folders) {
		t.Errorf("folders %v after %v", second.folders, first.folders)
	}
	if second.cpu() != 0 || second.memoryPeak() > mostCharged || second.processes() != 0 || second.oomKills() != 0 {
		t.Errorf("it starts at %v, %d bytes, %d processes", second.cpu(), second.memoryPeak(), second.processes())
	}
	second.idle(false)
	for _, f := range [][2]string{{"pids.max", "5\n"}, {"cpu.cfs_quota_us", "50000\n"},
		{"memory.limit_in_bytes", "67108864\n"}, {"cpu.idle", "0\n"}} {
		for _, folder := range second.folders {
			if b, err := os.ReadFile(filepath.Join(folder, f[0])); err == nil && string(b) != f[1] {
				t.Errorf("%s is %q", f[0], b)
			}
		}
	}
	second.idle(true)
	first.idle(false) // by a caller that has not seen its end
	second.idle(true)
	if idle := readSmall(filepath.Join(tree.bases["cpu"], "first"), "cpu.idle"); idle != "1\n" && second.yield != nil {
		t.Errorf("cpu.idle is %q when it was told to be", idle)
	}
}

// Who gets a group that another has used up for the present period does not wait for
// the next one.
func TestWholeShareAgain(t *testing.T) {
	tree := apartTree(t)
	g, err := tree.create("share", smallLimits)
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
		if err := writeFile(controllerBase(groupRoot, "cpu", parseOwnGroups(string(own))["cpu"]), "tasks", "0"); err != nil {
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
	if stopped := readKey(folder, "cpu.stat", "nr_throttled"); stopped > 0 {
		t.Errorf("it was stopped %d times", stopped)
	}
}

// compute uses a processor for so long, in this thread.
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

// runIn runs a shell in a group and waits for its end, and until the kernel has
// freed what was its alone. What is in a file of the test's stays.
func runIn(t *testing.T, g *group, script string, files ...*os.File) {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", "for f in $*; do echo 0 > $f/tasks || exit; done; "+script, "sh")
	shell.Args = append(shell.Args, g.folders...)
	shell.ExtraFiles = files
	if out, err := shell.CombinedOutput(); err != nil && shell.ProcessState.ExitCode() != killedInShell {
		t.Fatalf("%v: %s", err, out)
	}
	if n := g.processes(); n != 0 {
		t.Fatalf("%d processes are left", n)
	}
	if len(files) == 0 { // what it has charged in advance, it gives back
		if err := writeFile(filepath.Join(g.tree.bases[memoryController], filepath.Base(g.folders[0])), "memory.force_empty",
			"0"); err != nil {
			t.Fatal(err)
		}
	}
	for begin := time.Now(); len(files) == 0 && parseInt(readAgain(g.memoryFile)) > mostCharged; time.Sleep(
		time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s bytes are still charged", readAgain(g.memoryFile))
		}
	}
}

// killedInShell is how a shell ends whose last command was killed.
const killedInShell = 128 + 9

// leaveUnread makes a socket in a group's hierarchy for memory, and in no other,
// that has something to read.
func leaveUnread(t *testing.T, g *group) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: nothing else should run where it was
		own, err := os.ReadFile("/proc/thread-self/cgroup")
		if err != nil {
			done <- err
			return
		}
		home := controllerBase(groupRoot, memoryController, parseOwnGroups(string(own))[memoryController])
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
	if used := readAgain(g.socketFile); used == "0\n" {
		t.Fatal("nothing is counted for its socket")
	}
}

func TestGroupsThatAreNotUsedAgain(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *group){
		"given another weight": func(_ *testing.T, g *group) { g.weigh(weightOfLong) },
		"killed":               func(_ *testing.T, g *group) { g.boostForExit() },
		"frozen":               func(_ *testing.T, g *group) { g.freeze(true) },
		"with somebody in it": func(t *testing.T, g *group) {
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
		"that came near its limit": func(t *testing.T, g *group) {
			runIn(t, g, "head -c 36m /dev/zero | tail -n 1")
		},
		"with memory that is still used": func(t *testing.T, g *group) {
			fd, err := unix.MemfdCreate("left", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			left := os.NewFile(uintptr(fd), "left")
			t.Cleanup(func() { left.Close() })
			runIn(t, g, "head -c 2m /dev/zero >&3", left)
		},
		"with memory that cannot be counted": func(_ *testing.T, g *group) { g.memoryFile.Close() },
		"with something in a socket":         leaveUnread,
		"in which a process was killed for want of memory": func(t *testing.T, g *group) {
			runIn(t, g, "tail /dev/zero")
			if g.oomKills() == 0 {
				t.Fatal("none is counted")
			}
			// As when it was the host that had too little, or what it had was swapped out.
			if err := writeFile(filepath.Join(g.tree.bases[memoryController], "first"), "memory.max_usage_in_bytes",
				"0"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := apartTree(t)
			first, err := tree.create("first", smallLimits)
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, first)
			first.remove()
			second, err := tree.create("second", smallLimits)
			if err != nil {
				t.Fatal(err)
			}
			defer second.remove()
			if slices.Contains(first.folders, second.folders[0]) {
				t.Error("it is used again")
			}
		})
	}
}

// One that was not made to its end, that has not all of the counts or that comes
// when all is closed is removed.
func TestGroupsThatAreNotKept(t *testing.T) {
	left := func(tree *cgroupTree) (found []string) {
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
			if _, err := tree.create(strconv.Itoa(i), groupLimits{memory: 64 << 20, processes: 4}); !errors.Is(
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
		g, err := tree.create("first", smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		g.remove()
		if found := left(tree); len(found) > 0 {
			t.Errorf("left: %v", found)
		}
	})
	t.Run("late", func(t *testing.T) {
		tree := apartTree(t)
		g, err := tree.create("first", smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		tree.pool.close()
		g.remove()
		if found := left(tree); len(found) > 0 || g.join[0].Fd() != ^uintptr(0) {
			t.Errorf("left: %v", found)
		}
	})
}

// A program that starts cold does not begin idle because the one before it ended so.
func TestColdProgramsAreNotIdle(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	if _, err := os.Stat(filepath.Join(groupRoot, "cpu", "cpu.idle")); err != nil {
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
	time.Sleep(time.Second)    // nothing tells when what has ended is kept
	for _, l := range limits { // sandboxes wait with one of them, and groups are left of the other
		spec := sandboxtest.Spec("bash", "sleep 5; exit 3")
		spec.Limits = l
		ended := make(chan sandboxtest.Result, 1)
		go func() { ended <- sandboxtest.Run(t, s, spec) }()
		for seen := false; !seen; time.Sleep(10 * time.Millisecond) { // nor when it has begun
			select {
			case r := <-ended:
				t.Fatalf("it was not seen: %+v", r)
			default:
			}
			for _, g := range groups(t) {
				if idle := readSmall(g, "cpu.idle"); idle != "" && strings.Contains(g, own) &&
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

// commandsIn are the names of the processes in a group.
func commandsIn(folder string) (names []string) {
	list, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	for _, pid := range strings.Fields(string(list)) {
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		names = append(names, strings.TrimSpace(string(name)))
	}
	return names
}

// As many are kept as are needed at once, and no more.
func TestKeptGroupsAreFew(t *testing.T) {
	tree := apartTree(t)
	var all []*group
	for range maxPooled + 2 {
		g, err := tree.create(engine.NewID().String(), smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	for _, g := range all {
		g.remove()
	}
	left, err := filepath.Glob(filepath.Join(tree.bases["pids"], "*", "pids.max"))
	if err != nil || len(left) != maxPooled {
		t.Errorf("%d are left, %v", len(left), err)
	}
}
