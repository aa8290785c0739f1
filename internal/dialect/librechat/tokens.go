package librechat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/token"
)

// Tokens verifies the tokens that LibreChat makes for its users.
type Tokens struct {
	config TokenConfig
	trusts []trust
	keys   *token.Keys
	now    func() time.Time
}

// TokenConfig configures the accepted tokens. Its sources of keys add up; at least one is needed.
type TokenConfig struct {
	PublicKey string // PEM or JWK, Ed25519 or RSA; line ends may be written \n
	Secret    string // shared with LibreChat, for HS256
	KeyID     string // id of PublicKey and Secret; empty: LibreChat's default, lc-codeapi-2026-05
	SecretID  string // of Secret alone; empty: KeyID
	Directory string // directory of public keys called <kid>.pem; reread at run time
	JWKS      string // a JSON Web Key Set, or the name of a file with one, which is reread

	Issuer     string // empty: librechat
	Audience   string // empty: codeapi
	Algorithms string // comma-separated algorithms of tokens; empty: each key's own
	Trust      string // JSON: issuers with audiences, keys, algorithms and sources; replaces the three above

	MaxLife time.Duration // from a token's iat to its exp; 0, and at most: 300 s
	Skew    time.Duration // maximum clock skew; 0, and at most: 30 s; negative: none

	Tenant string // of tokens that do not name one; empty: legacy
	Strict bool   // tokens must name their tenant
}

// LibreChat's defaults.
const (
	defaultKeyID    = "lc-codeapi-2026-05"
	defaultIssuer   = "librechat"
	defaultAudience = "codeapi"
	defaultTenant   = "legacy"
)

// How long keys count after they were read: when they are read again, and when they are
// discarded, should that fail.
const (
	keysFresh = 30 * time.Second
	keysStale = 300 * time.Second
)

const (
	tokenLife = 300 * time.Second // the maximum lifetime of a token
	clockSkew = 30 * time.Second
	maxJTI    = 256
	maxName   = 256 // of a tenant or user
)

// Empty reports whether there is no source of keys.
func (c *TokenConfig) Empty() bool { return c.local().Empty() }

// local returns the sources of keys.
func (c *TokenConfig) local() *token.Local {
	return &token.Local{PublicKey: c.PublicKey, Secret: c.Secret, KeyID: c.KeyID, SecretID: c.SecretID,
		DefaultID: defaultKeyID, Directory: c.Directory, JWKS: c.JWKS}
}

// NewTokens reads the keys. Its error names a source that cannot be read. A source that fails later
// keeps its keys for some minutes.
func NewTokens(c TokenConfig, now func() time.Time) (*Tokens, error) {
	if c.KeyID == defaultKeyID {
		c.KeyID = "" // a JWK may have its own
	}
	c.Issuer, c.Audience, c.Tenant = cmp.Or(c.Issuer, defaultIssuer), cmp.Or(c.Audience, defaultAudience),
		cmp.Or(c.Tenant, defaultTenant)
	c.MaxLife, c.Skew = min(cmp.Or(c.MaxLife, tokenLife), tokenLife), max(min(cmp.Or(c.Skew, clockSkew), clockSkew), 0)
	entries, err := trusts(c)
	if err != nil {
		return nil, err
	}
	keys := &token.Keys{Now: now, Fresh: keysFresh, Stale: keysStale, Pause: keysFresh}
	keys.Source = func(ctx context.Context) ([]jose.JSONWebKey, error) {
		list, err := c.local().Keys(ctx)
		if err == nil {
			err = checkKeys(entries, list)
		}
		return list, err
	}
	if err := keys.Load(context.Background()); err != nil {
		return nil, err
	}
	return &Tokens{config: c, trusts: entries, keys: keys, now: now}, nil
}

// claims are the claims of a token. The context of auth_context_hash changes during a conversation,
// so nothing is stored under it.
type claims struct {
	jwt.Claims
	Source  string `json:"principal_source"`
	Context string `json:"auth_context_hash"`
	Tenant  string `json:"tenant_id"`
}

// Verify returns the caller of a token, or ErrForbidden.
func (t *Tokens) Verify(text string) (engine.Caller, error) {
	caller, err := t.verify(text)
	if err != nil {
		return engine.Caller{}, &engine.Error{Op: "authenticate", Kind: engine.ErrForbidden, Hint: "Invalid bearer token",
			Err: err}
	}
	return caller, nil
}

func (t *Tokens) verify(text string) (engine.Caller, error) {
	parsed, head, err := token.Parse(text, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256, jose.HS256})
	if err != nil {
		return engine.Caller{}, err
	}
	if typ, ok := head.ExtraHeaders[jose.HeaderType]; ok && typ != "JWT" {
		return engine.Caller{}, errors.New("typ is not JWT")
	}
	if head.KeyID == "" {
		return engine.Caller{}, errors.New("there is no kid")
	}
	var c claims
	if err := parsed.UnsafeClaimsWithoutVerification(&c); err != nil { // only to choose the key and rules; verified below
		return engine.Caller{}, err
	}
	at := slices.IndexFunc(t.trusts, func(e trust) bool { return e.Issuer == c.Issuer })
	if at < 0 {
		return engine.Caller{}, errors.New("its issuer is not trusted")
	}
	issuer := &t.trusts[at]
	if !issuer.anyKey && !slices.Contains(issuer.KeyIDs, head.KeyID) {
		return engine.Caller{}, errors.New("its kid is not the issuer's")
	}
	key, err := t.keys.Find(context.Background(), head.KeyID, head.Algorithm)
	if err != nil {
		return engine.Caller{}, err
	}
	// The key determines the algorithm, never the token.
	if alg := token.Algorithm(key); string(alg) != head.Algorithm {
		return engine.Caller{}, fmt.Errorf("the key is for %s, the token is signed by %s", alg, head.Algorithm)
	}
	if !slices.Contains(issuer.Algorithms, head.Algorithm) {
		return engine.Caller{}, fmt.Errorf("%s is not allowed", head.Algorithm)
	}
	c = claims{}
	if err := parsed.Claims(key, &c); err != nil {
		return engine.Caller{}, err
	}
	tenant, err := t.check(issuer, &c)
	if err != nil {
		return engine.Caller{}, err
	}
	owner := userOwner(tenant, c.Subject)
	return engine.Caller{Owner: owner, Key: "jwt:" + head.KeyID}, nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// check checks the claims of a token whose signature is valid, and returns its tenant.
func (t *Tokens) check(issuer *trust, c *claims) (tenant string, err error) {
	if c.Expiry == nil || c.IssuedAt == nil || c.NotBefore == nil {
		return "", errors.New("iat, nbf or exp is missing")
	}
	if life := c.Expiry.Time().Sub(c.IssuedAt.Time()); life <= 0 || life > t.config.MaxLife {
		return "", errors.New("it lives for too long, or for no time")
	}
	expected := jwt.Expected{Issuer: issuer.Issuer, AnyAudience: issuer.Audiences, Time: t.now()}
	if err := c.ValidateWithLeeway(expected, t.config.Skew); err != nil {
		return "", err
	}
	switch {
	case blank(c.Subject) || len(c.Subject) > maxName:
		return "", errors.New("sub is missing, blank or too long")
	case blank(c.ID) || len(c.ID) > maxJTI:
		return "", errors.New("jti is missing, blank or too long")
	case !slices.Contains(issuer.Sources, c.Source):
		return "", errors.New("principal_source is not the issuer's")
	case blank(c.Context):
		return "", errors.New("auth_context_hash is missing or blank")
	case c.Tenant != "" && blank(c.Tenant) || len(c.Tenant) > maxName:
		return "", errors.New("tenant_id is blank or too long")
	case c.Tenant == "" && t.config.Strict:
		return "", errors.New("tenant_id is missing")
	}
	return cmp.Or(c.Tenant, t.config.Tenant), nil
}

// Keys authenticates the keys and tokens of LibreChat's clients.
type Keys struct {
	Tokens *Tokens // LibreChat's own, of its users; nil: not accepted
	Static string  // one key that a whole LibreChat shares; empty: none
	// Others authenticates every other key.
	Others func(ctx context.Context, token string) (engine.Caller, error)
}

// StaticOwner is the owner of requests with the static key.
const StaticOwner engine.Owner = "librechat"

// Any reports whether the dialect has its own keys.
func (k *Keys) Any() bool { return k.Tokens != nil || k.Static != "" }

// Authenticate returns the caller with a key. A bad token in LibreChat's format is ErrForbidden
// where such tokens are accepted: its bearer must not pass for a caller without a key.
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

// looksLikeToken reports whether a key has the format of LibreChat's tokens.
func looksLikeToken(s string) bool { return strings.Count(s, ".") == 2 }

// caller returns the caller of a request with its key outside of the body.
func (a *api) caller(r *http.Request) (engine.Caller, error) {
	caller := a.Caller(r)
	if caller.Owner == "" {
		return caller, errNoKey()
	}
	return caller, nil
}

// callerOf returns the caller of a request whose key may be in its body.
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
			return engine.Caller{}, errNoKey() // another credential does not help
		case !errors.Is(err, engine.ErrUnauthorized):
			return engine.Caller{}, err
		}
	}
	if caller.Owner == "" {
		return engine.Caller{}, errNoKey()
	}
	return caller, nil
}
