package httpd

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/airlock-run/airlock/internal/engine"
)

// keySet caches the public keys of an issuer.
type keySet struct {
	IdentityOptions

	fetching sync.Mutex // held while keys are fetched: other callers wait for the same answer

	mu          sync.Mutex
	keys        []jose.JSONWebKey
	read, tried time.Time
}

const (
	keysFresh   = 10 * time.Minute // then keys are fetched again, without withdrawn ones
	keysStale   = time.Hour        // then keys are invalid, if they could not be fetched
	keysPause   = 10 * time.Second // between two fetches, whatever ids tokens name
	keysTime    = 10 * time.Second // for one fetch
	maxDocument = 1 << 20
	minRSA      = 2048
)

// find returns the key of an id. An unknown id may be that of a new key, so find fetches
// the keys again, but at most every keysPause: tokens with invented ids must not cause
// requests to the issuer.
func (k *keySet) find(ctx context.Context, id, algorithm string) (any, error) {
	key, age, _ := k.look(id, algorithm)
	if key != nil && age < keysFresh {
		return key, nil
	}
	k.fetching.Lock()
	defer k.fetching.Unlock()
	key, age, tried := k.look(id, algorithm) // another caller may have fetched the keys meanwhile
	var failed error
	if (key == nil || age >= keysFresh) && tried >= keysPause {
		failed = k.fetch(context.WithoutCancel(ctx)) // other callers wait for it too
		key, age, _ = k.look(id, algorithm)
	}
	switch {
	case age >= keysStale:
		return nil, &engine.Error{Op: "authenticate", Kind: engine.ErrUnavailable,
			Err: fmt.Errorf("the keys of %s cannot be read: %w", k.Issuer, errors.Join(failed, engine.ErrUnavailable))}
	case key == nil:
		return nil, badToken("the issuer has no such key")
	}
	return key, nil
}

// look returns the key of an id, if there is one, the age of the keys, and the time since
// the last fetch.
func (k *keySet) look(id, algorithm string) (key any, age, tried time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	age, tried = now.Sub(k.read), now.Sub(k.tried)
	for _, each := range k.keys {
		if (each.KeyID == id || id == "" && len(k.keys) == 1) && (each.Algorithm == "" || each.Algorithm == algorithm) {
			return each.Key, age, tried
		}
	}
	return nil, age, tried
}

// fetch replaces the keys by those of the issuer.
func (k *keySet) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keysTime)
	defer cancel()
	keys, err := k.ask(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = k.Now()
	if err == nil {
		k.keys, k.read = keys, k.tried
	}
	return err
}

func (k *keySet) ask(ctx context.Context) ([]jose.JSONWebKey, error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	var failed []error
	for _, document := range issuerDocuments(k.Issuer) {
		err := k.get(ctx, document, &about)
		if err == nil {
			failed = nil
			break
		}
		failed = append(failed, err)
	}
	if failed != nil {
		return nil, errors.Join(failed...)
	}
	if about.Issuer != k.Issuer { // an issuer must not publish keys of another
		return nil, fmt.Errorf("it says of itself that it is %q", about.Issuer)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, about.Keys, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && usable(&key) { // keys of other kinds are skipped
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key for signatures in " + about.Keys)
	}
	return keys, nil
}

// usable reports whether signatures can be verified with a key. A published secret cannot.
func usable(key *jose.JSONWebKey) bool {
	if rsaKey, ok := key.Key.(*rsa.PublicKey); ok && rsaKey.N.BitLen() < minRSA {
		return false
	}
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig")
}

func (k *keySet) get(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := k.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", address, maxDocument)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// issuerDocuments returns the addresses of an issuer's metadata, by OpenID Connect and by
// RFC 8414.
func issuerDocuments(issuer string) []string {
	at := strings.TrimSuffix(issuer, "/")
	documents := []string{at + "/.well-known/openid-configuration"}
	if u, err := url.Parse(at); err == nil {
		u.Path = "/.well-known/oauth-authorization-server" + u.Path
		documents = append(documents, u.String())
	}
	return documents
}
