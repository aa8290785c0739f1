// Package token has the keys that verify JSON Web Tokens: those of an identity provider,
// and those in files and settings. It knows no claim: each caller has rules of its own.
package token

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// minRSA is the length of the shortest RSA key that counts, in bits.
const minRSA = 2048

// Parse parses a token that has one signature, by one of the algorithms. It verifies
// nothing.
func Parse(text string, algorithms []jose.SignatureAlgorithm) (*jwt.JSONWebToken, jose.Header, error) {
	parsed, err := jwt.ParseSigned(text, algorithms)
	if err != nil {
		return nil, jose.Header{}, err
	}
	if len(parsed.Headers) != 1 {
		return nil, jose.Header{}, errors.New("a token needs one signature")
	}
	return parsed, parsed.Headers[0], nil
}

// Keys caches the keys of a source. All fields but the last are required.
type Keys struct {
	// Source reads all keys.
	Source func(context.Context) ([]jose.JSONWebKey, error)
	Now    func() time.Time

	Fresh time.Duration // then keys are read again, without withdrawn ones
	Stale time.Duration // then keys are invalid, if they could not be read
	Pause time.Duration // between two reads, whatever ids tokens name

	reading sync.Mutex // held while keys are read: other callers wait for the same answer

	mu          sync.Mutex
	keys        []jose.JSONWebKey
	read, tried time.Time
}

// ErrNoKey is the error for an id that no key has.
var ErrNoKey = errors.New("its kid is not known")

// StaleError is the error while the keys are too old and cannot be read again.
type StaleError struct{ Err error }

func (e *StaleError) Error() string { return fmt.Sprintf("the keys cannot be read: %v", e.Err) }
func (e *StaleError) Unwrap() error { return e.Err }

// Find returns the key of an id for an algorithm. An unknown id may be that of a new key, so
// Find reads the keys again, but at most every Pause: tokens with invented ids must not
// cause requests to an issuer.
func (k *Keys) Find(ctx context.Context, id, algorithm string) (any, error) {
	key, age, _ := k.look(id, algorithm)
	if key != nil && age < k.Fresh {
		return key, nil
	}
	k.reading.Lock()
	defer k.reading.Unlock()
	key, age, tried := k.look(id, algorithm) // another caller may have read the keys meanwhile
	var failed error
	if (key == nil || age >= k.Fresh) && tried >= k.Pause {
		failed = k.load(context.WithoutCancel(ctx)) // other callers wait for it too
		key, age, _ = k.look(id, algorithm)
	}
	switch {
	case age >= k.Stale:
		return nil, &StaleError{failed}
	case key == nil:
		return nil, ErrNoKey
	}
	return key, nil
}

// Load reads the keys now.
func (k *Keys) Load(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	return k.load(ctx)
}

// look returns the key of an id, if there is one, the age of the keys, and the time since
// the last read.
func (k *Keys) look(id, algorithm string) (key any, age, tried time.Duration) {
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

// load replaces the keys by those of the source. The caller holds reading.
func (k *Keys) load(ctx context.Context) error {
	keys, err := k.Source(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = k.Now()
	if err == nil {
		k.keys, k.read = keys, k.tried
	}
	return err
}

// weak reports whether a key is an RSA key that is too short.
func weak(key any) bool {
	k, ok := key.(*rsa.PublicKey)
	return ok && k.N.BitLen() < minRSA
}
