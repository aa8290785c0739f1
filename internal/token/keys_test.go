package token

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const secret = "0123456789abcdef0123456789abcdef"

func newEd(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, minRSA)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a token of a key, whose id is in its header.
func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: "ada"}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// source is a source of keys that can be changed, and counts how often it is read.
type source struct {
	keys  []jose.JSONWebKey
	err   error
	reads atomic.Int32
}

func (s *source) read(context.Context) ([]jose.JSONWebKey, error) {
	s.reads.Add(1)
	return s.keys, s.err
}

func newKeys(keys ...jose.JSONWebKey) (*Keys, *source) {
	s := &source{keys: keys}
	return &Keys{Source: s.read, Now: time.Now, Fresh: 10 * time.Minute, Stale: time.Hour, Pause: 10 * time.Second}, s
}

func TestParse(t *testing.T) {
	_, private := newEd(t)
	good := sign(t, jose.EdDSA, private, "k")
	if _, head, err := Parse(good, []jose.SignatureAlgorithm{jose.EdDSA}); err != nil || head.KeyID != "k" ||
		head.Algorithm != string(jose.EdDSA) {
		t.Errorf("%+v, %v", head, err)
	}
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	body := part(`{"sub":"ada"}`)
	signed := strings.Split(good, ".")
	two := `{"payload":"` + signed[1] + `","signatures":[{"protected":"` + signed[0] + `","signature":"` + signed[2] +
		`"},{"protected":"` + signed[0] + `","signature":"` + signed[2] + `"}]}`
	for name, text := range map[string]string{
		"none":                     part(`{"alg":"none"}`) + "." + body + ".",
		"None":                     part(`{"alg":"None"}`) + "." + body + ".",
		"no algorithm":             part(`{}`) + "." + body + "." + signed[2],
		"an algorithm not allowed": sign(t, jose.HS256, []byte(secret), "k"),
		"no signature":             signed[0] + "." + signed[1],
		"two signatures":           two,
		"empty":                    "",
		"no token":                 "ak_0123456789ab",
	} {
		if _, _, err := Parse(text, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256}); err == nil {
			t.Errorf("%s is parsed", name)
		}
	}
}

// A key verifies tokens of its own algorithm alone, whatever a token says: the public key of an RSA key in PEM is
// known to everybody, and is no secret for HS256.
func TestAlgorithmIsThatOfKey(t *testing.T) {
	private := newRSA(t)
	text := pemOf(t, &private.PublicKey)
	edPublic, edPrivate := newEd(t)
	local := &Local{JWKS: setOf(t, jose.JSONWebKey{Key: &private.PublicKey, KeyID: "rsa"},
		jose.JSONWebKey{Key: edPublic, KeyID: "ed"}), Secret: secret, SecretID: "hs"}
	keys := &Keys{Source: local.Keys, Now: time.Now, Fresh: time.Hour, Stale: time.Hour, Pause: time.Hour}
	accepts := func(text string) bool {
		parsed, head, err := Parse(text, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256, jose.HS256})
		if err != nil {
			return false
		}
		key, err := keys.Find(t.Context(), head.KeyID, head.Algorithm)
		var claims jwt.Claims
		return err == nil && string(Algorithm(key)) == head.Algorithm && parsed.Claims(key, &claims) == nil
	}
	other := newRSA(t)
	_, otherEd := newEd(t)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"RS256":                           {sign(t, jose.RS256, private, "rsa"), true},
		"EdDSA":                           {sign(t, jose.EdDSA, edPrivate, "ed"), true},
		"HS256":                           {sign(t, jose.HS256, []byte(secret), "hs"), true},
		"RS256 of another key":            {sign(t, jose.RS256, other, "rsa"), false},
		"EdDSA of another key":            {sign(t, jose.EdDSA, otherEd, "ed"), false},
		"HS256 of another secret":         {sign(t, jose.HS256, []byte(secret+"x"), "hs"), false},
		"HS256 with the RSA key in PEM":   {sign(t, jose.HS256, []byte(text), "rsa"), false},
		"HS256 with the Ed25519 key":      {sign(t, jose.HS256, []byte(edPublic), "ed"), false},
		"HS256 with the Ed25519 key, PEM": {sign(t, jose.HS256, []byte(pemOf(t, edPublic)), "ed"), false},
		"RS256 with the id of a secret":   {sign(t, jose.RS256, private, "hs"), false},
		"EdDSA with the id of an RSA key": {sign(t, jose.EdDSA, edPrivate, "rsa"), false},
		"an unknown id":                   {sign(t, jose.RS256, private, "new"), false},
		"no id among three":               {sign(t, jose.RS256, private, ""), false},
	} {
		if got := accepts(c.token); got != c.want {
			t.Errorf("%s: accepted %v", name, got)
		}
	}
}

func TestFind(t *testing.T) {
	public, _ := newEd(t)
	other, _ := newEd(t)
	named := jose.JSONWebKey{Key: public, KeyID: "k", Algorithm: string(jose.EdDSA)}
	keys, _ := newKeys(named)
	for _, c := range []struct {
		id, algorithm string
		found         bool
	}{
		{"k", "EdDSA", true}, {"", "EdDSA", true}, {"k", "RS256", false}, {"K", "EdDSA", false}, {"k ", "EdDSA", false},
	} {
		key, err := keys.Find(t.Context(), c.id, c.algorithm)
		if got, ok := key.(ed25519.PublicKey); c.found != (err == nil) || c.found && (!ok || !public.Equal(got)) ||
			!c.found && !errors.Is(err, ErrNoKey) {
			t.Errorf("id %q, %s: %v, %v", c.id, c.algorithm, key, err)
		}
	}
	// Without an id it is not guessed which of two keys is meant.
	keys, _ = newKeys(named, jose.JSONWebKey{Key: other, KeyID: "l"})
	if key, err := keys.Find(t.Context(), "", "EdDSA"); !errors.Is(err, ErrNoKey) {
		t.Errorf("without an id: %v, %v", key, err)
	}
}

// A new key is found at once, and a withdrawn one is gone when the keys are no more fresh.
func TestRotation(t *testing.T) { synctest.Test(t, testRotation) }

func testRotation(t *testing.T) {
	public, _ := newEd(t)
	old, next := jose.JSONWebKey{Key: public, KeyID: "old"}, jose.JSONWebKey{Key: public, KeyID: "next"}
	keys, source := newKeys(old)
	find := func(id string) error {
		_, err := keys.Find(t.Context(), id, "EdDSA")
		return err
	}
	if err := find("old"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(keys.Pause)
	source.keys = []jose.JSONWebKey{next}
	if err := find("next"); err != nil {
		t.Errorf("the new key: %v", err)
	}
	source.keys = []jose.JSONWebKey{old, next}
	time.Sleep(keys.Pause)
	if err := find("old"); err != nil {
		t.Errorf("both: %v", err)
	}
	source.keys = []jose.JSONWebKey{next}
	time.Sleep(keys.Fresh - time.Nanosecond)
	if err := find("old"); err != nil {
		t.Errorf("withdrawn, within the time of fresh keys: %v", err)
	}
	time.Sleep(time.Nanosecond)
	if err := find("old"); !errors.Is(err, ErrNoKey) {
		t.Errorf("withdrawn: %v", err)
	}
}

// Tokens with invented ids make no requests to an issuer, but one in each pause.
func TestInventedIDs(t *testing.T) { synctest.Test(t, testInventedIDs) }

func testInventedIDs(t *testing.T) {
	public, _ := newEd(t)
	keys, source := newKeys(jose.JSONWebKey{Key: public, KeyID: "k"})
	const pauses = 5
	for range pauses * 10 {
		if _, err := keys.Find(t.Context(), rand.Text(), "EdDSA"); !errors.Is(err, ErrNoKey) {
			t.Fatal(err)
		}
		time.Sleep(keys.Pause / 10)
	}
	if n := source.reads.Load(); n != pauses {
		t.Errorf("the keys were read %d times, want %d", n, pauses)
	}
}

// Keys that cannot be read again are valid until they are stale; then no token is.
func TestStaleKeys(t *testing.T) { synctest.Test(t, testStaleKeys) }

func testStaleKeys(t *testing.T) {
	public, _ := newEd(t)
	keys, source := newKeys(jose.JSONWebKey{Key: public, KeyID: "k"})
	if err := keys.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	down := errors.New("out of order")
	source.err = down
	for _, age := range []time.Duration{keys.Fresh, keys.Stale - keys.Fresh - time.Nanosecond} {
		time.Sleep(age)
		if _, err := keys.Find(t.Context(), "k", "EdDSA"); err != nil {
			t.Errorf("not yet stale: %v", err)
		}
	}
	time.Sleep(keys.Pause)
	if _, err := keys.Find(t.Context(), "k", "EdDSA"); !errors.Is(err, down) {
		t.Errorf("stale: %v", err)
	}
	if _, err := keys.Find(t.Context(), "k", "EdDSA"); err == nil {
		t.Error("stale keys are valid in the pause")
	}
	source.err = nil
	time.Sleep(keys.Pause)
	if _, err := keys.Find(t.Context(), "k", "EdDSA"); err != nil {
		t.Errorf("read again: %v", err)
	}
}

// Before the keys were read once there are none, and many callers cause one read, even if the first of them leaves.
func TestFirstRead(t *testing.T) {
	public, _ := newEd(t)
	const callers = 20
	looked := make(chan struct{}, 10*callers)
	var reads atomic.Int32
	ctx, leave := context.WithCancel(t.Context())
	keys := &Keys{Fresh: time.Minute, Stale: time.Hour, Pause: time.Second,
		Now: func() time.Time {
			looked <- struct{}{}
			return time.Now()
		},
		Source: func(ctx context.Context) ([]jose.JSONWebKey, error) {
			if reads.Add(1) == 1 {
				for range callers + 1 { // all have seen that there is no key, the one that reads twice
					<-looked
				}
				leave()
			}
			return []jose.JSONWebKey{{Key: public, KeyID: "k"}}, ctx.Err()
		}}
	found := make(chan error)
	for range callers {
		go func() {
			_, err := keys.Find(ctx, "k", "EdDSA")
			found <- err
		}()
	}
	for range callers {
		if err := <-found; err != nil {
			t.Error(err)
		}
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
}
