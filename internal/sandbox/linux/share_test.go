package linux

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestShare(t *testing.T) {
	s := newShare("things", 10, "make more")
	alice, err := s.take("alice", 3)
	if err != nil {
		t.Fatal(err)
	}
	more, err := s.take("alice", 2)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.take("alice", 1)
	if !errors.Is(describe(err).Kind, engine.ErrBusy) || !strings.Contains(err.Error(), "one owner") {
		t.Errorf("above the owner's part: %v", err)
	}
	bob, err := s.take("bob", 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.take("carol", 1); err == nil || !strings.Contains(err.Error(), "all programs") {
		t.Errorf("above the total: %v", err)
	}
	if err := alice.resize(4); err == nil {
		t.Error("it grew above the owner's part")
	}
	more.release()
	if err := errors.Join(alice.resize(1), alice.resize(5)); err != nil {
		t.Error(err)
	}
	for _, h := range []*holding{alice, bob, more} {
		h.release()
	}
	if s.used != 0 || len(s.owners) != 0 {
		t.Errorf("left: %d, %v", s.used, s.owners)
	}
	if _, err := s.take("alice", 8); err != nil { // more than half, but she has nothing else
		t.Error(err)
	}
}

func TestGate(t *testing.T) {
	var g gate
	var held sync.WaitGroup
	end := make(chan struct{})
	for range ownerCalls {
		if err := g.enter("alice"); err != nil {
			t.Fatal(err)
		}
	}
	waits := make(chan struct{})
	held.Go(func() {
		_ = g.through("alice", func() error { close(waits); return nil })
	})
	for range mostCalls - ownerCalls { // others still enter
		other := engine.NewID().String()
		if err := g.enter(other); err != nil {
			t.Fatal(err)
		}
		held.Go(func() {
			<-end
			g.leave(other)
		})
	}
	select {
	case <-waits:
		t.Error("one owner is in too often")
	default:
	}
	g.leave("alice")
	<-waits
	close(end)
	held.Wait()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	refused := make(chan error, ownerWaiting+1)
	if err := g.enter("alice"); err != nil {
		t.Fatal(err)
	}
	for range ownerWaiting + 1 {
		waiting.Go(func() { refused <- g.through("alice", func() error { return nil }) })
	}
	if err := <-refused; !errors.Is(describe(err).Kind, engine.ErrBusy) { // the others wait
		t.Errorf("one owner has too many waiting: %v", err)
	}
	for range ownerCalls {
		g.leave("alice")
	}
	for range ownerWaiting {
		if err := <-refused; err != nil {
			t.Error(err)
		}
	}
	if g.inside != 0 || len(g.owners) != 0 || len(g.waiting) != 0 {
		t.Errorf("left: %+v", &g)
	}
}

// A frozen program counts with the processes that it has. It stays frozen until there is
// room for all that it may start.
func TestFrozenProcesses(t *testing.T) {
	init := exec.Command("sleep", "1000") // as its pid 1
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = init.Process.Kill(), init.Wait() }()
	s := newShare("things", 200, "make more")
	tasks, err := s.take("alice", 132)
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{pid: init.Process.Pid, entered: &entered{pids: map[int]int{}}, kill: func() {}, tasks: tasks, most: 132}
	defer f.end()
	f.set(true)
	if tasks.n != 1+tasksBeside {
		t.Errorf("it counts with %d", tasks.n)
	}
	other, err := s.take("bob", 100)
	if err != nil {
		t.Fatal(err)
	}
	if f.set(false); !f.stands() || f.refused() == nil || f.retryAt().IsZero() {
		t.Errorf("without room: frozen %v, %v, again at %v", f.stands(), f.refused(), f.retryAt())
	}
	other.release()
	if f.set(false); f.stands() || f.refused() != nil || !f.retryAt().IsZero() || tasks.n != 132 {
		t.Errorf("with room: frozen %v, %v, counts with %d", f.stands(), f.refused(), tasks.n)
	}
}

// threadsOf returns the number of a process's threads.
func threadsOf(t *testing.T, pid int) int64 {
	t.Helper()
	return kernelfile.Value(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "status"), "Threads:")
}

// ownedProgram starts a program of an owner, as standingProgram does.
func ownedProgram(t *testing.T, s *Sandbox, owner engine.Owner, processes int) (held engine.ID, result <-chan error) {
	t.Helper()
	spec := sandboxtest.Spec("bash", "echo up; exec sleep 1000")
	spec.Owner, spec.Held, spec.Limits.Timeout, spec.Limits.Processes = owner, engine.NewID(), time.Hour, processes
	if err := s.Hold(t.Context(), spec.Held, nil, spec.Limits); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	host := &standingHost{ready: make(chan struct{})}
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		_, err := s.Run(ctx, spec, host)
		ended <- err
		host.Output(engine.Stderr, nil)
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = s.Release(context.Background(), spec.Held)
	})
	<-host.ready
	return spec.Held, ended
}

// Nothing that waits holds a thread of the executor: no program, process, watch or upload.
func TestThreads(t *testing.T) {
	s := start(t)
	executor := executors(t)[0]
	var waiting sync.WaitGroup
	t.Cleanup(waiting.Wait)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	const sessions, processes, watches, uploads = 4, 60, 20, 20
	for n := range sessions {
		held, _ := ownedProgram(t, s, engine.Owner(strconv.Itoa(n)), processes+10)
		for range processes {
			p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"sleep", "1000"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
		}
		for range watches {
			ready := make(chan struct{})
			waiting.Go(func() {
				if err := s.Files(held).Watch(ctx, ".", true, func() { close(ready) }, func([]engine.FileEvent) {}); err != nil {
					t.Error(err)
				}
			})
			<-ready
		}
		for i := range uploads {
			read, write := io.Pipe()
			waiting.Go(func() { _, _ = s.Files(held).Write(t.Context(), strconv.Itoa(i), read) })
			fmt.Fprint(write, "begun") // it has been accepted
			t.Cleanup(func() { write.CloseWithError(io.ErrUnexpectedEOF) })
		}
	}
	const most = 48
	if n := threadsOf(t, executor); n > most {
		t.Errorf("the executor has %d threads with %d processes, %d watches and %d uploads, and should have %d at most",
			n, sessions*processes, sessions*watches, sessions*uploads, most)
	}
	if n := instances(t, executor); n != 1 {
		t.Errorf("the executor has %d inotify instances", n)
	}
}

// instances returns how many inotify instances a process has.
func instances(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, _ := os.Readlink(f); strings.HasSuffix(target, "inotify") {
			n++
		}
	}
	return n
}

// The watches of a session and of an owner are bounded, and another owner's are not fewer.
func TestWatchesAreBounded(t *testing.T) {
	s := start(t)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		waiting.Wait()
	})
	watch := func(held engine.ID) error {
		answer := make(chan error, 2)
		waiting.Go(func() {
			answer <- s.Files(held).Watch(ctx, ".", true, func() { answer <- nil }, func([]engine.FileEvent) {})
		})
		return <-answer
	}
	var refused []error
	for range ownerWatches/maxHeldWatches + 1 {
		held, _ := ownedProgram(t, s, "alice", 8)
		for n := 0; ; n++ {
			err := watch(held)
			if err == nil {
				continue
			}
			if n > maxHeldWatches || !errors.Is(err, engine.ErrBusy) {
				t.Errorf("after %d watches: %v", n, err)
			}
			refused = append(refused, err)
			break
		}
	}
	if text := fmt.Sprint(refused); !strings.Contains(text, "this session") || !strings.Contains(text, "one owner") {
		t.Error(text)
	}
	held, _ := ownedProgram(t, s, "bob", 8)
	if err := watch(held); err != nil {
		t.Error(err)
	}
}

// smallGroup creates a control group that limits the number of processes.
func smallGroup(t *testing.T, most int) string {
	t.Helper()
	base := "/sys/fs/cgroup"
	if _, err := os.Stat(base + "/pids/cgroup.procs"); err == nil {
		base += "/pids"
	}
	folder, err := os.MkdirTemp(base, "airlock-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 100 {
			if err = os.Remove(folder); err == nil {
				return
			}
			<-time.After(10 * time.Millisecond) // the kernel still counts what has just ended
		}
		t.Error(err)
	})
	if err := os.Chmod(folder, 0o755); err != nil { // as the groups of a container
		t.Fatal(err)
	}
	if err := os.WriteFile(folder+"/pids.max", []byte(strconv.Itoa(most)), 0o600); err != nil {
		sandboxtest.Skip(t, "the pids controller is not enabled for groups below "+base)
	}
	return folder
}

// TestSmallGroups runs TestTenants as an ordinary user in groups of few processes, as
// containers have them.
func TestSmallGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: it creates control groups")
	}
	for _, most := range []int{400, 2000} {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			group := smallGroup(t, most)
			out, err := asNobody(t, "^TestTenants$", func(c *exec.Cmd) {
				c.Args = append([]string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec setpriv --reuid 12345 --regid 12345 ` +
					`--clear-groups "$@"`, group}, c.Args...)
				c.Path, c.SysProcAttr.Credential = "/bin/sh", nil
				c.Env = append(c.Env, fmt.Sprint("AIRLOCK_TEST_TASKS=", most))
			})
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestTenants has one owner take all that it may have: others keep what they have, and may
// start programs and processes, and the executor survives.
func TestTenants(t *testing.T) {
	most, err := strconv.Atoi(os.Getenv("AIRLOCK_TEST_TASKS"))
	if err != nil {
		t.Log("TestSmallGroups runs it")
		return
	}
	s := start(t)
	executor := executors(t)[0]
	bob, ended := ownedProgram(t, s, "bob", 128)
	var alices []engine.ID
	var refused []error
	for len(refused) == 0 {
		spec := sandboxtest.Spec("bash", "for i in {1..120}; do sleep 1000 & done 2>/dev/null; echo up; wait")
		spec.Owner, spec.Held, spec.Limits.Timeout, spec.Limits.Processes = "alice", engine.NewID(), time.Hour, 128
		if err := s.Hold(t.Context(), spec.Held, nil, spec.Limits); err != nil {
			t.Fatal(err)
		}
		host, result := &standingHost{ready: make(chan struct{})}, make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, err := s.Run(ctx, spec, host)
			result <- err
		}()
		select {
		case <-host.ready:
			alices = append(alices, spec.Held)
			t.Cleanup(func() { cancel(); <-result })
		case err := <-result:
			cancel()
			refused = append(refused, err)
		}
	}
	if len(alices) == 0 || len(alices) > most/128/2+1 {
		t.Errorf("%d sessions of one owner were let in", len(alices))
	}
	var starts sync.WaitGroup
	var mu sync.Mutex
	for n := range 48 * len(alices) {
		starts.Go(func() {
			p, err := s.Start(t.Context(), alices[n%len(alices)], &engine.ProcessSpec{Argv: []string{"sleep", "1000"}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
				return
			}
			t.Cleanup(func() { p.Close() })
		})
	}
	starts.Wait()
	late := 0
	for _, err := range refused {
		if errors.Is(err, os.ErrDeadlineExceeded) { // a busy machine answers some too late
			late++
			continue
		}
		if e, ok := errors.AsType[*engine.Error](err); !ok || !errors.Is(err, engine.ErrBusy) || e.Hint == "" {
			t.Errorf("refused with %v", err)
		}
	}
	if late > len(refused)/8 {
		t.Errorf("%d of %d were not answered in time", late, len(refused))
	}
	select {
	case err := <-ended:
		t.Fatalf("another owner's program ended: %v", err)
	default:
	}
	out, _, end := inside(t, s, bob, shell("for i in {1..100}; do sleep 1000 &>/dev/null & done; jobs | wc -l"))
	if end.ExitCode != 0 || out != "100\n" {
		t.Errorf("another owner's process: %q %+v", out, end)
	}
	if !slices.Contains(executors(t), executor) {
		t.Error("the executor ended")
	}
	n := threadsOf(t, executor)
	t.Logf("%d sessions of one owner, %d refusals, %d threads of the executor", len(alices), len(refused), n)
	if n > executorTasks {
		t.Errorf("the executor has %d threads", n)
	}
}

// asNobody runs tests of this binary as an ordinary user.
func asNobody(t *testing.T, tests string, change func(*exec.Cmd)) (out []byte, err error) {
	t.Helper()
	const nobody = 12345 // of whom nothing on this machine knows
	folder, err := os.MkdirTemp("", "airlock-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Chown(folder, nobody, nobody), os.Chmod(folder, 0o755), os.WriteFile(folder+"/linux.test", binary, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), folder+"/linux.test", "-test.run="+tests,
		"-test.parallel="+flag.Lookup("test.parallel").Value.String())
	command.Dir = folder
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "TMPDIR=" + folder,
		"AIRLOCK_NO_SKIP=" + os.Getenv("AIRLOCK_NO_SKIP")}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig: unix.SIGKILL}
	if change != nil {
		change(command)
	}
	return command.CombinedOutput()
}
