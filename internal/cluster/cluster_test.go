package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// untilKilled is a program that runs until it is killed.
func untilKilled(ctx context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	host.Output(engine.Stdout, []byte("up"))
	return sandboxtest.UntilKilled(ctx), nil
}

func begin(t *testing.T, r *replica) *engine.Run {
	t.Helper()
	run, err := r.Start(t.Context(), alice, engine.RunRequest{Language: "python", Code: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (r *replica) status(t *testing.T, id engine.ID) engine.Status {
	t.Helper()
	run, err := r.index.Run(t.Context(), alice.Owner, id)
	if err != nil {
		t.Fatal(err)
	}
	return run.Status
}

// A service that starts leaves alone what the others do, and what it cannot do itself it
// says.
func TestSecondReplica(t *testing.T) {
	address, blobs := newDatabase(t), newBlobs()
	one := start(t, "one", address, blobs, untilKilled)
	run := begin(t, one)
	held, err := one.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
	if err != nil {
		t.Fatal(err)
	}
	two := start(t, "two", address, blobs, untilKilled)
	if s := one.status(t, run.ID); s.Final() {
		t.Fatalf("the run of the first replica is %s", s)
	}
	if two.member.Alone() {
		t.Error("two believes that it is alone")
	}
	eventually(t, "two knows of one", func() bool { _, ok := two.member.Node(one.member.Self()); return ok })

	for what, do := range map[string]func(context.Context) error{
		"cancel": func(ctx context.Context) error { return two.CancelRun(ctx, alice, run.ID) },
		"watch":  func(ctx context.Context) error { _, err := two.Watch(ctx, alice, run.ID, 0); return err },
		"get":    func(ctx context.Context) error { _, err := two.GetRun(ctx, alice, run.ID); return err },
		"run": func(ctx context.Context) error {
			_, err := two.Run(ctx, alice, engine.RunRequest{Language: "python", Session: held.ID})
			return err
		},
		"delete": func(ctx context.Context) error { return two.DeleteSession(ctx, alice, held.ID) },
	} {
		ctx, redirect := engine.WithRedirect(t.Context())
		err := do(ctx)
		if !errors.Is(err, engine.ErrUnavailable) || redirect.To() != one.member.Self() ||
			!strings.Contains(err.Error(), "the node one has it") {
			t.Errorf("%s: %v, at %v", what, err, redirect.To())
		}
	}
	if got, err := two.GetRun(t.Context(), alice, run.ID); err != nil || got.Status.Final() {
		t.Errorf("a run without redirection: %+v, %v", got, err)
	}
	if _, err := two.GetRun(t.Context(), engine.Caller{Owner: "bob"}, run.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a stranger's: %v", err)
	}
	if err := one.CancelRun(t.Context(), alice, run.ID); err != nil {
		t.Error(err)
	}
}

// A silent node is declared dead: its runs are interrupted, clients that watch them on other
// nodes are told, and when the node continues, its records of them are refused.
func TestGivenUp(t *testing.T) {
	address, blobs := newDatabase(t), newBlobs()
	proceed := make(chan struct{})
	work := func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		<-proceed
		o := sandboxtest.Exit(0)
		f, err := sandboxtest.File("late.txt", "too late")
		o.Outputs = append(o.Outputs, f)
		return o, err
	}
	one := start(t, "one", address, blobs, work)
	two := start(t, "two", address, blobs, untilKilled)
	session, err := one.CreateSession(t.Context(), alice, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := one.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
	if err != nil {
		t.Fatal(err)
	}
	run, err := one.Start(t.Context(), alice, engine.RunRequest{Language: "python", Code: "1", Session: session.ID})
	if err != nil {
		t.Fatal(err)
	}
	mine := begin(t, two)
	former := one.member.Self()
	eventually(t, "two knows of one", func() bool { _, ok := two.member.Node(former); return ok })
	life := two.member.Life(former)
	if err := life.Err(); err != nil {
		t.Errorf("the life of a node that is alive: %v", err)
	}

	one.gate.set(true) // it is stopped
	eventually(t, "interrupted", func() bool { return two.status(t, run.ID) == engine.StatusInterrupted })
	eventually(t, "its life ends", func() bool { return life.Err() != nil })
	if s := two.status(t, mine.ID); s.Final() {
		t.Errorf("a run of the node that is alive is %s", s)
	}
	if _, err := two.GetSession(t.Context(), alice, held.ID); err != nil {
		t.Errorf("a held session of the dead node: %v", err)
	}
	events, err := two.Watch(t.Context(), alice, run.ID, 57)
	if err != nil {
		t.Fatal(err)
	}
	var last engine.Event
	for e := range events {
		last = e
	}
	if last.Type != engine.EventResult || last.Run.Status != engine.StatusInterrupted || last.Seq != 58 {
		t.Errorf("who watched it saw %+v last", last)
	}
	if err := one.member.Check(); err == nil {
		t.Error("a node that was not heard takes new work")
	}
	_, err = one.Start(t.Context(), alice, engine.RunRequest{Language: "python"})
	if !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a node that was not heard takes a run: %v", err)
	}

	close(proceed) // it goes on, and its program ends
	eventually(t, "ended", func() bool { return one.Stats().Running == 0 })
	one.gate.set(false)
	eventually(t, "a new life", func() bool { return one.member.Self() != former && one.member.Check() == nil })
	if s := one.status(t, run.ID); s != engine.StatusInterrupted {
		t.Errorf("the run is %s now", s)
	}
	if files, _, err := two.SessionFiles(t.Context(), alice, session.ID); err != nil || len(files) > 0 {
		t.Errorf("the session has %v, %v", files, err)
	}
	again := begin(t, one)
	if err := one.CancelRun(t.Context(), alice, again.ID); err != nil {
		t.Error(err)
	}
}

// If no node reached the database for a while, none is declared dead.
func TestDatabaseAway(t *testing.T) {
	address, blobs := newDatabase(t), newBlobs()
	one, two := start(t, "one", address, blobs, untilKilled), start(t, "two", address, blobs, untilKilled)
	epochs := []engine.Epoch{one.member.Self(), two.member.Self()}
	run := begin(t, one)
	for _, r := range []*replica{one, two} {
		r.gate.set(true)
	}
	for _, r := range []*replica{one, two} {
		eventually(t, "silent", func() bool { return r.member.Check() != nil })
	}
	for _, r := range []*replica{one, two} {
		r.gate.set(false)
	}
	for i, r := range []*replica{one, two} {
		eventually(t, "back", func() bool { return r.member.Check() == nil })
		if r.member.Self() != epochs[i] {
			t.Errorf("replica %d began anew", i+1)
		}
	}
	if s := two.status(t, run.ID); s.Final() {
		t.Errorf("the run is %s", s)
	}
}
