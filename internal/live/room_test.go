package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// crowded has memory for so many workspaces of interpreters.
type crowded struct {
	*executor.Sandbox
	mu   sync.Mutex
	room int
	held map[engine.ID]bool
}

func (c *crowded) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	c.mu.Lock()
	if spec.Make && len(c.held) >= c.room {
		c.mu.Unlock()
		return nil, &engine.Error{Kind: engine.ErrFull, Err: errors.New("the memory is used up")}
	}
	if spec.Make {
		c.held[spec.Held] = true
	}
	c.mu.Unlock()
	return c.Sandbox.Run(ctx, spec, host)
}

func (c *crowded) Release(ctx context.Context, id engine.ID, generation int64) error {
	c.mu.Lock()
	delete(c.held, id)
	c.mu.Unlock()
	return c.Sandbox.Release(ctx, id, generation)
}

// TestNoMemory starts an interpreter without free memory. The longest idle interpreter
// is ended, and its next answer reports that.
func TestNoMemory(t *testing.T) {
	sandbox, err := startSandbox(t.Context(), sandboxtest.LiveRuntimesOf(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	full := &crowded{Sandbox: sandbox, room: 2, held: map[engine.ID]bool{}}
	p := openOn(t, Config{}, full, enginetest.NewBlobs(), enginetest.NewIndex())
	a, b, c := p.session("python"), p.session("python"), p.session("python")
	p.run(a, "x = 1\nopen('a.txt', 'w').write('x')")
	p.run(b, "x = 2")
	checkCell(t, p.run(c, "3"), facts{Restarted: new(false), Result: "3"}, "the one that needed room")
	checkCell(t, p.run(b, "x"), facts{Restarted: new(false), Result: "2"}, "the one that was used last")
	got := p.run(a, "open('a.txt').read()")
	checkCell(t, got,
		facts{Restarted: new(true), Message: "make room", Result: "'x'"}, "the one that was idle for longest")
	if n := p.Counts(); n.Interpreters != 2 || n.Evicted != 2 {
		t.Errorf("%+v", n)
	}
	full.mu.Lock()
	full.room = 0
	full.mu.Unlock()
	for _, s := range []engine.ID{a, b, c} {
		_ = p.Restart(t.Context(), p.caller, s)
	}
	checkCell(t, p.run(p.session("python"), "1"), facts{Status: StatusLost, Message: "used up"}, "without any memory")
}

// Whoever a key's users are, they have as many interpreters together as one owner, and end
// those of each other, not those of another key.
func TestUsersOfKey(t *testing.T) {
	p := open(t, Config{PerOwner: 2, Total: 6, Wait: time.Millisecond})
	bob := p.session("bash")
	p.run(bob, "v=7")
	holder := engine.Caller{Owner: "web"}
	for i := range 8 {
		p.caller = holder.User(fmt.Sprint("z", i))
		checkCell(t, p.run(p.session("bash"), "echo x"), facts{Status: StatusOK}, fmt.Sprintf("user %d", i))
	}
	if n := p.Counts(); n.Interpreters != 3 || n.Evicted != 6 {
		t.Errorf("%+v", n)
	}
	p.caller = engine.Caller{Owner: "ann"}
	if got := p.run(bob, "echo $v"); got.Restarted || len(got.Outputs) != 1 || got.Outputs[0].Text != "7\n" {
		t.Errorf("bob's: %+v", got)
	}
}

// One interpreter more than there may be waits until another one is idle, and is refused after
// Wait, or if too many wait.
func TestWaitForRoom(t *testing.T) {
	p := open(t, Config{PerOwner: 2, Wait: time.Hour, QueuePerOwner: 1})
	ctx := t.Context()
	a, b, c := p.session("bash"), p.session("bash"), p.session("bash")
	busy := p.started(a, "echo begun; sleep 600")
	p.started(b, "echo begun; sleep 600")
	ended := make(chan Cell)
	go func() { ended <- p.run(c, "echo c") }()
	p.await(func() bool { return !p.rooms.queued.Empty() })
	if err := p.AwaitRoom(ctx, p.caller); engine.KindOf(err) != engine.ErrBusy || engine.RetrySeconds(err, 0) == "" {
		t.Errorf("one more than may wait: %v", err)
	}
	if err := p.AwaitRoom(ctx, engine.Caller{Owner: "bob"}); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if err := p.CancelCell(ctx, p.caller, a, busy.ID); err != nil {
		t.Fatal(err)
	}
	checkCell(t, <-ended, facts{Status: StatusOK})
	if err := p.AwaitRoom(ctx, p.caller); err != nil {
		t.Errorf("with an idle one: %v", err)
	}
	p.config.Wait = time.Millisecond
	p.started(c, "echo begun; sleep 600")
	if _, err := p.Start(ctx, p.caller, a, CellRequest{Code: "echo a"}); engine.KindOf(err) != engine.ErrBusy {
		t.Errorf("after the time: %v", err)
	}
}

// Interpreters that are started at once do not become more than there may be.
func TestRoomAtOnce(t *testing.T) {
	p := open(t, Config{PerOwner: 2})
	var all sync.WaitGroup
	for range 8 {
		s := p.session("bash")
		all.Go(func() { p.run(s, "echo x") })
	}
	all.Wait()
	if n := p.Counts(); n.Interpreters > 2 {
		t.Errorf("%+v", n)
	}
}

// fullDisk has no room.
type fullDisk struct{}

func (fullDisk) Room() (engine.Room, error) { return engine.Room{Floor: 1 << 30, Low: true}, nil }

// On a full disk a file is refused, since it would be gone with the interpreter.
func TestWriteOnFullDisk(t *testing.T) {
	core := enginetest.StartOn(t, engine.Config{Space: fullDisk{}}, sandboxtest.NewFake(nil), enginetest.NewBlobs(),
		enginetest.NewIndex())
	s := New(Config{}, core, quiet)
	t.Cleanup(func() { _ = s.Close() })
	_, err := s.WriteFile(t.Context(), engine.Caller{Owner: "ann"}, engine.NewID(), "a", strings.NewReader("x"))
	if engine.KindOf(err) != engine.ErrFull {
		t.Errorf("a file is taken: %v", err)
	}
}

// A file that was written beside cells and could not be stored is told with the next cell.
func TestFilesThatWereNotStored(t *testing.T) {
	sandbox := sandboxtest.NewFake(nil)
	p := openOn(t, Config{}, sandbox, enginetest.NewBlobs(), enginetest.NewIndex())
	at := &session{service: p.Service, caller: p.caller, dropped: []engine.DroppedFile{{Path: "a"}}}
	made, err := p.engine.CreateSession(t.Context(), p.caller, engine.SessionRequest{Kind: engine.SessionLive, Live: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.Hold(t.Context(), made.ID, 0, "", nil, engine.Limits{}); err != nil {
		t.Fatal(err)
	}
	at.record = made
	for _, want := range []int{1, 0} { // once
		c := &cell{}
		if (&interpreter{at: at}).save(c); len(c.Dropped) != want || c.Message != "" {
			t.Errorf("the cell tells of %v, %q; want %d files", c.Dropped, c.Message, want)
		}
	}
}
