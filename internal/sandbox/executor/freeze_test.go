package executor

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
)

// family starts processes that compute, below one that does not.
func family(t *testing.T) (parent int) {
	t.Helper()
	command := exec.Command("/bin/sh", "-c", "for i in 1 2 3; do (while :; do :; done) & done; wait")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range append(Descendants(command.Process.Pid), command.Process.Pid) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = command.Wait()
	})
	for len(Descendants(command.Process.Pid)) < 3 {
		<-time.After(time.Millisecond)
	}
	return command.Process.Pid
}

// usedIn returns the processor time that a family uses in a while.
func usedIn(pid int, while time.Duration) time.Duration {
	before := cpuTime(pid, Descendants(pid))
	<-time.After(while)
	return cpuTime(pid, Descendants(pid)) - before
}

// allStopped reports whether the descendants of a process are stopped.
func allStopped(pid int) bool {
	return !slices.ContainsFunc(Descendants(pid), func(child int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err == nil && !strings.HasPrefix(afterName(stat), "T")
	})
}

func TestStoppedBySignal(t *testing.T) {
	pid := family(t)
	s := &freezer{pid: pid, kill: func() { t.Error("it is killed") }}
	s.set(true)
	for end := time.Now().Add(time.Minute); !allStopped(pid) && time.Now().Before(end); { // at their next interrupt
		<-time.After(time.Millisecond)
	}
	if used := usedIn(pid, 2*watchEvery); used > 20*time.Millisecond {
		t.Errorf("%v of processor time while it is stopped", used)
	}
	s.set(false)
	var used time.Duration
	for end := time.Now().Add(time.Minute); used < 100*time.Millisecond && time.Now().Before(end); {
		used += usedIn(pid, 50*time.Millisecond)
	}
	if used < 100*time.Millisecond {
		t.Errorf("%v of processor time after it", used)
	}
	if s.end() {
		t.Error("it is said to have computed while it was stopped")
	}
}

// A program that wakes itself is ended.
func TestProgramThatWakesItself(t *testing.T) {
	pid := family(t)
	killed := make(chan struct{})
	s := &freezer{pid: pid, kill: sync.OnceFunc(func() { close(killed) })}
	s.set(true)
	waker, stop := time.NewTicker(time.Millisecond), time.NewTimer(time.Minute)
	defer waker.Stop()
	for alive := true; alive; {
		select {
		case <-killed:
			alive = false
		case <-waker.C:
			for _, child := range Descendants(pid) {
				_ = unix.Kill(child, unix.SIGCONT)
			}
		case <-stop.C:
			t.Fatal("it goes on for ever")
		}
	}
	if !s.end() {
		t.Error("nobody says why it was ended")
	}
}

// A program that waited, or is interrupted, is checked like a new one.
func TestControlRenews(t *testing.T) {
	ours, theirs, err := NewLinkPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	end, err := newLink(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	w := &watch{link: ours, freezer: freezer{group: &cgroup.Group{}}, program: (&executor{}).countProgram()}
	if err := end.Send(control{Motion: engine.GoOn}); err != nil { // as when an answer is there
		t.Fatal(err)
	}
	if before := time.Now(); !w.handleControl() || w.nextCPUCheck.Before(before.Add(cgroup.ShortRun)) {
		t.Errorf("it is looked at after %v", w.nextCPUCheck.Sub(before))
	}
}

// A program may end with the answer to a request: the answer counts, whatever is noticed first.
func TestAnswerBeforeTheEnd(t *testing.T) {
	for range 100 {
		m := newMover(nil)
		m.stored <- &storeResult{}
		close(m.ended)
		if _, ok := next(m.stored, m.ended); !ok {
			t.Fatal("the answer is lost")
		}
		if _, ok := next(m.stored, m.ended); ok {
			t.Fatal("there is another one")
		}
	}
}
