package executor

import (
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestShare(t *testing.T) {
	s := newShare("things", 10, "make more")
	alice, err := s.reserve("alice", 3)
	if err != nil {
		t.Fatal(err)
	}
	more, err := s.reserve("alice", 2)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.reserve("alice", 1)
	if !errors.Is(describe(err).Kind, engine.ErrBusy) || !strings.Contains(err.Error(), "one owner") {
		t.Errorf("above the owner's part: %v", err)
	}
	bob, err := s.reserve("bob", 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.reserve("carol", 1); err == nil || !strings.Contains(err.Error(), "all programs") {
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
	if _, err := s.reserve("alice", 8); err != nil { // more than half, but she has nothing else
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
	tasks, err := s.reserve("alice", 132)
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{pid: init.Process.Pid, entered: &entered{all: map[int]Entered{}}, kill: func() {},
		tasks: tasks, most: 132}
	defer f.end()
	f.set(true)
	if tasks.n != 1+tasksBeside {
		t.Errorf("it counts with %d", tasks.n)
	}
	other, err := s.reserve("bob", 100)
	if err != nil {
		t.Fatal(err)
	}
	if f.set(false); !f.isFrozen() || f.refused() == nil || f.retryAt().IsZero() {
		t.Errorf("without room: frozen %v, %v, again at %v", f.isFrozen(), f.refused(), f.retryAt())
	}
	other.release()
	if f.set(false); f.isFrozen() || f.refused() != nil || !f.retryAt().IsZero() || tasks.n != 132 {
		t.Errorf("with room: frozen %v, %v, counts with %d", f.isFrozen(), f.refused(), tasks.n)
	}
}

// What a wall needs for a sandbox counts as the owner's, too: the group of the sandbox lets it have as many.
func TestTasksOfWall(t *testing.T) {
	r := &RunRequest{Processes: 128}
	plain, own := (&Machine{}).tasksFor(r), (&Machine{can: Capabilities{Own: Overhead{Processes: 512}}}).tasksFor(r)
	if own-plain != 512 {
		t.Errorf("%d, and %d with 512 of the wall's own", plain, own)
	}
}
