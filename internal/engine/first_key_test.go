package engine_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The key of the settings is made once, by one of several nodes, and not after it was revoked.
func TestFirstKey(t *testing.T) {
	index, token := enginetest.NewIndex(), "ak_abcdefghjkmn_"+strings.Repeat("x", 43)
	start := func(first string) *engine.Service {
		return enginetest.StartOn(t, engine.Config{FirstKey: first}, sandboxtest.NewFake(nil), enginetest.NewBlobs(), index)
	}
	if s := start(""); s.Stats().HasKeys {
		t.Error("there is a key without a setting")
	}
	s, other := start(token), start(token)
	for _, each := range []*engine.Service{s, other} {
		if c, err := each.Authenticate(t.Context(), token); err != nil || !c.Admin || c.Owner != engine.Local {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if keys, err := s.ListKeys(t.Context(), engine.Caller{Admin: true}); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	another := "ak_bbcdefghjkmn_" + strings.Repeat("y", 43)
	if _, err := start(another).Authenticate(t.Context(), another); engine.KindOf(err) != engine.ErrUnauthorized {
		t.Errorf("a second one: %v", err)
	}
	if err := s.RevokeKey(t.Context(), engine.Caller{Admin: true}, "abcdefghjkmn"); err != nil {
		t.Fatal(err)
	}
	if _, err := start(token).Authenticate(t.Context(), token); engine.KindOf(err) != engine.ErrUnauthorized {
		t.Errorf("after it was revoked: %v", err)
	}
	fresh := engine.New(engine.Config{FirstKey: "password"}, sandboxtest.NewFake(nil), enginetest.NewBlobs(),
		enginetest.NewIndex(), slog.New(slog.DiscardHandler))
	if err := fresh.Open(t.Context()); engine.KindOf(err) != engine.ErrInvalid {
		t.Errorf("a word: %v", err)
	}
}
