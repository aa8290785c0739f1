package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestKeys(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	ctx := t.Context()
	if r.Stats().HasKeys {
		t.Error("has keys")
	}
	_, _, err := r.CreateKey(ctx, alice, engine.NewKey{Owner: "alice"})
	wantKind(t, err, engine.ErrForbidden, "")
	_, err = r.ListKeys(ctx, alice)
	wantKind(t, err, engine.ErrForbidden, "")
	wantKind(t, r.RevokeKey(ctx, alice, "x"), engine.ErrForbidden, "")
	for _, owner := range []engine.Owner{"", "a b", "a/b", "é", engine.Owner(strings.Repeat("x", 65))} {
		_, _, err := r.CreateKey(ctx, admin, engine.NewKey{Owner: owner})
		wantKind(t, err, engine.ErrInvalid, "owner")
	}
	_, _, err = r.CreateKey(ctx, admin, engine.NewKey{Owner: "alice", Packages: "nosuch"})
	wantKind(t, err, engine.ErrInvalid, "python_packages")
	key, token, err := r.CreateKey(ctx, admin, engine.NewKey{Owner: "team-1", Admin: true, Packages: "onyx"})
	if err != nil || len(token) != 59 || !strings.HasPrefix(token, "ak_"+key.ID+"_") {
		t.Fatalf("%+v, %q, %v", key, token, err)
	}
	if got, err := r.Authenticate(ctx, token); err != nil ||
		got != (engine.Caller{Owner: "team-1", Key: key.ID, Admin: true, Packages: "onyx"}) {
		t.Errorf("%+v, %v", got, err)
	}
	other, otherToken, err := r.CreateKey(ctx, admin, engine.NewKey{Owner: "team-2"})
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(token)
	flipped[len(flipped)-2] ^= 1
	for _, bad := range []string{
		"", "ak_", token + " ", token[:58], string(flipped), strings.ToUpper(token), "Bearer " + token,
		strings.Repeat("x", 1<<20),
		"ak_" + other.ID + token[15:], "ak_" + strings.Repeat("a", 12) + token[15:], strings.Repeat("é", 30)[:59],
	} {
		_, err := r.Authenticate(ctx, bad)
		wantKind(t, err, engine.ErrUnauthorized, "")
	}
	for range 2 {
		if err := r.RevokeKey(ctx, admin, key.ID); err != nil {
			t.Error(err)
		}
	}
	_, err = r.Authenticate(ctx, token)
	wantKind(t, err, engine.ErrUnauthorized, "")
	if _, err := r.Authenticate(ctx, otherToken); err != nil {
		t.Error(err)
	}
	wantKind(t, r.RevokeKey(ctx, admin, "none"), engine.ErrNotFound, "none")
	if keys, err := r.ListKeys(ctx, admin); err != nil || len(keys) != 2 || !r.Stats().HasKeys {
		t.Errorf("%v, %v", keys, err)
	}
	r.index.Fail(func(string) error { return errors.New("disk trouble") })
	_, err = r.Authenticate(ctx, token) // not known is not refused
	wantKind(t, err, engine.ErrInternal, "")
}

// A key that is limited to protocols opens nothing else.
func TestKeyOnly(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	ctx := t.Context()
	_, token, err := r.CreateKey(ctx, admin, engine.NewKey{Owner: "web", Only: []string{"jupyter", "terminal"}})
	if err != nil {
		t.Fatal(err)
	}
	if caller, err := r.AuthenticateFor("jupyter")(ctx, token); err != nil || caller.Owner != "web" {
		t.Errorf("%+v, %v", caller, err)
	}
	for _, check := range []func(context.Context, string) (engine.Caller, error){
		r.Authenticate, r.AuthenticateFor("api"),
	} {
		_, err := check(ctx, token)
		wantKind(t, err, engine.ErrForbidden, "")
		if !errors.Is(err, engine.ErrOnly) {
			t.Error(err)
		}
	}
	_, _, err = r.CreateKey(ctx, admin, engine.NewKey{Owner: "web", Only: []string{"nosuch"}})
	wantKind(t, err, engine.ErrInvalid, "only")
	_, _, err = r.CreateKey(ctx, admin, engine.NewKey{Owner: "web", Admin: true, Only: []string{"jupyter"}})
	wantKind(t, err, engine.ErrInvalid, "only")
}

// The users of a key are as much as one owner, unless a key of the owner says more.
func TestSharesOfKey(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	ctx := t.Context()
	of := func() int64 { return r.Bounds(engine.Caller{Owner: "web"}.User("x").Owner, 3)[1].Most }
	if got := of(); got != 3 {
		t.Errorf("without a key: %d", got)
	}
	key, _, err := r.CreateKey(ctx, admin, engine.NewKey{Owner: "web", Allowance: engine.Allowance{Users: 5}})
	if err != nil || of() != 15 || key.Allowance != (engine.Allowance{Users: 5, Shares: 5}) {
		t.Errorf("for 5 users: %d, %+v, %v", of(), key.Allowance, err)
	}
	if err := r.RevokeKey(ctx, admin, key.ID); err != nil || of() != 3 {
		t.Errorf("revoked: %d, %v", of(), err)
	}
	_, _, err = r.CreateKey(ctx, admin, engine.NewKey{Owner: "web", Allowance: engine.Allowance{Shares: 2}})
	wantKind(t, err, engine.ErrInvalid, "shares")
}
