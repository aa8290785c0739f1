package librechat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// Keys says who holds a key or a token that a client of LibreChat shows.
type Keys struct {
	Tokens *Tokens // LibreChat's own, of its users; nil: none are taken
	Static string  // one key that all of a LibreChat shares; empty: none
	// Others knows every other key.
	Others func(ctx context.Context, token string) (engine.Caller, error)
}

// StaticOwner is the owner of what comes with the static key.
const StaticOwner engine.Owner = "librechat"

// Any reports whether there are keys of the dialect's own.
func (k *Keys) Any() bool { return k.Tokens != nil || k.Static != "" }

// Authenticate returns who holds the key. What looks like a token of
// LibreChat's and is not a good one is ErrForbidden where such tokens are
// taken: its bearer must not pass for somebody without a key.
func (k *Keys) Authenticate(ctx context.Context, token string) (engine.Caller, error) {
	if k.Tokens != nil && looksLikeToken(token) {
		return k.Tokens.Verify(token)
	}
	if k.Static != "" {
		want, got := sha256.Sum256([]byte(k.Static)), sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
			return engine.Caller{Owner: StaticOwner, Key: "librechat"}, nil
		}
	}
	return k.Others(ctx, token)
}

// looksLikeToken tells a token of LibreChat's, good or bad, from a key.
func looksLikeToken(s string) bool { return strings.Count(s, ".") == 2 }

// caller returns who makes a request that shows its key outside of the body.
func (a *api) caller(r *http.Request) (engine.Caller, error) {
	caller := a.Caller(r)
	if caller.Owner == "" {
		return caller, errNoKey()
	}
	return caller, nil
}

// callerOf returns who makes a request whose key may stand in its body.
func (a *api) callerOf(r *http.Request, keys ...string) (engine.Caller, error) {
	caller := a.Caller(r)
	for _, key := range keys {
		if key == "" || len(key) > 8<<10 || caller.Owner != "" && !looksLikeToken(key) {
			continue
		}
		found, err := a.Authenticate(r.Context(), key)
		switch {
		case err == nil:
			caller = cmp.Or(caller, found)
		case errors.Is(err, engine.ErrForbidden):
			return engine.Caller{}, errNoKey() // whatever stands beside it
		case !errors.Is(err, engine.ErrUnauthorized):
			return engine.Caller{}, err
		}
	}
	if caller.Owner == "" {
		return engine.Caller{}, errNoKey()
	}
	return caller, nil
}
