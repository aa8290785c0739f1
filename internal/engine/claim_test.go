package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// heir is the node 2 of a cluster whose node 1 has died. It has the places of sessions.
type heir struct {
	mu     sync.Mutex
	places map[engine.ID]engine.Place
}

func (h *heir) Self() engine.Epoch { return 2 }
func (h *heir) Check() error       { return nil }

func (h *heir) Node(e engine.Epoch) (engine.Node, bool) { return engine.Node{}, e == h.Self() }

func (h *heir) Life(engine.Epoch) context.Context { return context.Background() }

func (h *heir) Claim(_ context.Context, id engine.ID, from int64, worker engine.Epoch) (engine.Place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.places[id].Generation != from {
		return engine.Place{}, engine.ErrConflict
	}
	h.places[id] = engine.Place{Holder: h.Self(), Generation: from + 1, Worker: worker}
	return h.places[id], nil
}

// estate is an index with those places.
type estate struct {
	*enginetest.Index
	heir *heir
}

func (e *estate) Session(ctx context.Context, owner engine.Owner, id engine.ID) (engine.Session, error) {
	session, err := e.Index.Session(ctx, owner, id)
	e.heir.mu.Lock()
	defer e.heir.mu.Unlock()
	session.Place = e.heir.places[id]
	return session, err
}

// slowRelease is a sandbox that says when it releases a workspace.
type slowRelease struct {
	*sandboxtest.Fake
	begun func()
}

func (s *slowRelease) Release(ctx context.Context, id engine.ID, generation int64) error {
	s.begun()
	return s.Fake.Release(ctx, id, generation)
}

// Two requests claim a session: neither uses it before its former workspace is released.
func TestClaimTwice(t *testing.T) {
	cluster := &heir{places: map[engine.ID]engine.Place{}}
	sandbox := &slowRelease{Fake: sandboxtest.NewFake(nil)}
	s := enginetest.StartOn(t, engine.Config{Cluster: cluster}, sandbox, enginetest.NewBlobs(),
		&estate{enginetest.NewIndex(), cluster})
	session, err := s.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
	if err != nil {
		t.Fatal(err)
	}
	session.Place = engine.Place{Holder: 1, Generation: 7}
	cluster.places[session.ID] = session.Place
	second := make(chan error, 1)
	claim := func() error {
		claimed, err := s.Claim(t.Context(), session)
		if err == nil && claimed.Place != (engine.Place{Holder: 2, Generation: 8}) {
			t.Errorf("it is at %+v", claimed.Place)
		}
		return err
	}
	sandbox.begun = func() {
		go func() { second <- claim() }()
		select {
		case err := <-second:
			t.Errorf("it is used while its workspace is released: %v", err)
			second <- err
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := claim(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	sandbox.begun = func() {}
}
