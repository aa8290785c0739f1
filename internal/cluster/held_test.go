package cluster_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/cluster"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A held session whose files are stored is taken over by the node that is asked once its
// holder is no more, and not before.
func TestHeldTakenOver(t *testing.T) {
	address, blobs := newDatabase(t), newBlobs()
	program := func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		return sandboxtest.Exit(0), nil
	}
	one, two := start(t, "one", address, blobs, program), start(t, "two", address, blobs, program)
	former, now := one.member.Self(), one.index.Now()
	session := engine.Session{ID: engine.NewID(), Owner: alice.Owner, Origin: engine.OriginOnyx, Kind: engine.SessionHeld,
		CreatedAt: now, ExpiresAt: now.Add(time.Hour), TTL: time.Hour,
		Place: engine.Place{Holder: former, Generation: 1}}
	if err := one.index.AddSession(t.Context(), session, nil); err != nil {
		t.Fatal(err)
	}
	request := engine.RunRequest{Language: "python", Code: "1", Session: session.ID}
	request.Profile.Files.Discard = true
	eventually(t, "two knows of one", func() bool { _, ok := two.member.Node(former); return ok })
	if _, err := two.Run(t.Context(), alice, request); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("as long as its holder lives: %v", err)
	}
	one.gate.set(true)
	var run *engine.Run
	eventually(t, "two takes it over", func() (ok bool) {
		var err error
		run, err = two.Run(t.Context(), alice, request)
		return err == nil
	})
	found, err := two.index.Session(t.Context(), alice.Owner, session.ID)
	want := engine.Place{Holder: two.member.Self(), Generation: 2}
	if err != nil || found.Place != want || !strings.Contains(run.Stderr, "It has its files as of the last run again") {
		t.Errorf("%+v, not %+v, %v: %q", found.Place, want, err, run.Stderr)
	}
	again, err := two.Run(t.Context(), alice, request)
	if err != nil || again.Stderr != "" {
		t.Errorf("%v: %+v", err, again)
	}
	one.gate.set(false)
	eventually(t, "one begins anew", func() bool { return one.member.Self() != former && one.member.Check() == nil })
}

// A node that starts again says that its former life has ended: what that had is free before it was silent for long.
func TestFormerLife(t *testing.T) {
	address, blobs := newDatabase(t), newBlobs()
	one, two := start(t, "one", address, blobs, nil), start(t, "two", address, blobs, nil)
	former := one.member.Self()
	eventually(t, "two knows of one", func() bool { _, ok := two.member.Node(former); return ok })
	var registered engine.Epoch
	again, err := cluster.Join(t.Context(), cluster.Config{Index: two.index, Log: slog.New(slog.DiscardHandler),
		Node: engine.Node{Name: "one", Role: engine.RoleAll}, Former: former,
		Registered: func(epoch engine.Epoch) error { registered = epoch; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, alive := again.Node(former); alive || registered != again.Self() {
		t.Errorf("its former life goes on: %t; %d is registered, not %d", alive, registered, again.Self())
	}
	if err := again.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
