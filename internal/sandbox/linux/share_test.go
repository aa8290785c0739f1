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

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// threadsOf returns the number of a process's threads.
func threadsOf(t *testing.T, pid int) int64 {
	t.Helper()
	return kernelfile.Value(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "status"), "Threads:")
}

// ownedProgram starts a program of an owner, as standingProgram does.
func ownedProgram(
	t *testing.T, s *executor.Sandbox, owner engine.Owner, processes int,
) (held engine.ID, result <-chan error) {
	t.Helper()
	spec := sandboxtest.Spec("bash", "echo up; exec sleep 1000")
	spec.Owner, spec.Held, spec.Limits.Timeout, spec.Limits.Processes = owner, engine.NewID(), time.Hour, processes
	if err := s.Hold(t.Context(), spec.Held, 0, "", nil, spec.Limits); err != nil {
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
		_ = s.Release(context.Background(), spec.Held, 0)
	})
	<-host.ready
	return spec.Held, ended
}

// Nothing that waits holds a thread of the executor: no program, process, watch or upload.
func TestThreads(t *testing.T) {
	s := start(t)
	executorPID := executors(t)[0]
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
	if n := threadsOf(t, executorPID); n > most {
		t.Errorf("the executor has %d threads with %d processes, %d watches and %d uploads, and should have %d at most",
			n, sessions*processes, sessions*watches, sessions*uploads, most)
	}
	if n := instances(t, executorPID); n != 1 {
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
	for range executor.OwnerWatches/executor.MaxHeldWatches + 1 {
		held, _ := ownedProgram(t, s, "alice", 8)
		for n := 0; ; n++ {
			err := watch(held)
			if err == nil {
				continue
			}
			if n > executor.MaxHeldWatches || !errors.Is(err, engine.ErrBusy) {
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
	executorPID := executors(t)[0]
	bob, ended := ownedProgram(t, s, "bob", 128)
	var alices []engine.ID
	var refused []error
	for len(refused) == 0 {
		spec := sandboxtest.Spec("bash", "for i in {1..120}; do sleep 1000 & done 2>/dev/null; echo up; wait")
		spec.Owner, spec.Held, spec.Limits.Timeout, spec.Limits.Processes = "alice", engine.NewID(), time.Hour, 128
		if err := s.Hold(t.Context(), spec.Held, 0, "", nil, spec.Limits); err != nil {
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
	var starts errgroup.Group
	starts.SetLimit(16)
	var mu sync.Mutex
	for n := range 48 * len(alices) {
		starts.Go(func() error {
			p, err := s.Start(t.Context(), alices[n%len(alices)], &engine.ProcessSpec{Argv: []string{"sleep", "1000"}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
				return nil
			}
			t.Cleanup(func() { p.Close() })
			return nil
		})
	}
	_ = starts.Wait() // it has none
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
	if !slices.Contains(executors(t), executorPID) {
		t.Error("the executor ended")
	}
	n := threadsOf(t, executorPID)
	t.Logf("%d sessions of one owner, %d refusals, %d threads of the executor", len(alices), len(refused), n)
	if n > executor.ExecutorTasks {
		t.Errorf("the executor has %d threads", n)
	}
}

// withoutRoot runs tests of this binary as an ordinary user too.
func withoutRoot(t *testing.T, tests string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("this is an ordinary user: the other tests are it")
		return
	}
	if out, err := asNobody(t, tests, nil); err != nil {
		t.Errorf("%v\n%s", err, out)
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
	// A process that another test starts meanwhile would have the file open for writing, and it could not be started.
	syscall.ForkLock.RLock()
	err = errors.Join(os.Chown(folder, nobody, nobody), os.Chmod(folder, 0o755),
		os.WriteFile(folder+"/linux.test", binary, 0o755))
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
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
