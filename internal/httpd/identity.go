package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/token"
)

// Identity accepts access tokens of an external identity provider, as JSON Web
// Tokens (RFC 9068), beside the engine's keys. The subject of a token is an owner
// of its own.
type Identity struct {
	IdentityOptions
	keys     *token.Keys
	metadata *url.URL
}

// IdentityOptions say which tokens are valid. All but Now are required.
type IdentityOptions struct {
	Issuer   string       // https://id.example.com, as tokens spell it
	Resource string       // URL that tokens must be for (RFC 8707)
	Scope    string       // that tokens must have
	Client   *http.Client // reaches the issuer
	Now      func() time.Time
}

// NewIdentity returns an Identity. It fetches the keys of the issuer with the first token.
func NewIdentity(o IdentityOptions) (*Identity, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	about, err := url.Parse(o.Resource)
	if err != nil {
		return nil, err
	}
	about.Path = "/.well-known/oauth-protected-resource" + about.Path
	issuer := &token.Issuer{URL: o.Issuer, Client: o.Client}
	return &Identity{IdentityOptions: o, metadata: about, keys: &token.Keys{Source: issuer.Keys, Now: o.Now,
		Fresh: keysFresh, Stale: keysStale, Pause: keysPause}}, nil
}

// Document returns the path of the metadata document of the resource (RFC 9728, section
// 3.1).
func (i *Identity) Document() string { return i.metadata.Path }

// maxSkew bounds the difference between the clocks of the issuer and of this machine.
const maxSkew = 30 * time.Second

// The times of the issuer's keys; see token.Keys.
const (
	keysFresh = 10 * time.Minute
	keysStale = time.Hour
	keysPause = 10 * time.Second
)

// scopeSet is a list of scopes: a JSON array, or one string with spaces.
type scopeSet []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scopeSet) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*s = strings.Fields(text)
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(s))
}

// signatures are the algorithms that tokens may use: those with a public key, without
// none and those with a shared secret.
var signatures = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// tokenError is the reason why a token is refused, with a code of RFC 6750.
type tokenError struct{ code, description string }

func (e *tokenError) Error() string { return e.description }

const insufficientScope = "insufficient_scope"

func badToken(description string) error {
	return &engine.Error{Op: "authenticate", Kind: engine.ErrUnauthorized, Hint: "that token is not valid: " + description,
		Err: &tokenError{"invalid_token", description}}
}

// isToken reports whether a credential is a token, and not a key: a JSON Web
// Token has three parts, and the first is an object in base64.
func isToken(s string) bool { return strings.HasPrefix(s, "ey") && strings.Count(s, ".") == 2 }

// Authenticate returns the caller of a token.
func (i *Identity) Authenticate(ctx context.Context, credential string) (engine.Caller, error) {
	parsed, head, err := token.Parse(credential, signatures)
	if err != nil {
		return engine.Caller{}, badToken("it is no JWT that is signed with a public key")
	}
	typ, _ := head.ExtraHeaders[jose.HeaderType].(string)
	if kind := strings.TrimPrefix(strings.ToLower(typ), "application/"); kind != "" && kind != "jwt" && kind != "at+jwt" {
		return engine.Caller{}, badToken("it is no access token")
	}
	key, err := i.keys.Find(ctx, head.KeyID, head.Algorithm)
	if errors.Is(err, token.ErrNoKey) {
		return engine.Caller{}, badToken("the issuer has no such key")
	}
	if err != nil {
		return engine.Caller{}, &engine.Error{Op: "authenticate", Kind: engine.ErrUnavailable,
			Err: fmt.Errorf("%s: %w", i.Issuer, errors.Join(err, engine.ErrUnavailable))}
	}
	var claims struct {
		jwt.Claims
		Scope scopeSet `json:"scope"`
		SCP   scopeSet `json:"scp"` // some providers' name for it
	}
	if err := parsed.Claims(key, &claims); err != nil {
		return engine.Caller{}, badToken("its signature is not the issuer's")
	}
	if claims.Expiry == nil {
		return engine.Caller{}, badToken("exp is missing")
	}
	err = claims.ValidateWithLeeway(jwt.Expected{
		Issuer: i.Issuer, AnyAudience: jwt.Audience{i.Resource}, Time: i.Now(),
	}, maxSkew)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return engine.Caller{}, badToken("it is expired")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return engine.Caller{}, badToken("it is for another resource than " + i.Resource)
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return engine.Caller{}, badToken("it is of another issuer than " + i.Issuer)
	case err != nil:
		return engine.Caller{}, badToken("it is not valid yet")
	case strings.TrimSpace(claims.Subject) == "":
		return engine.Caller{}, badToken("sub is missing")
	case !slices.Contains(append(claims.Scope, claims.SCP...), i.Scope):
		return engine.Caller{}, &engine.Error{Op: "authenticate", Kind: engine.ErrForbidden,
			Hint: "that token lacks the scope " + i.Scope, Err: &tokenError{insufficientScope, "the scope is missing"}}
	}
	return engine.Caller{Owner: engine.SubjectOwner(i.Issuer, claims.Subject), Key: "oauth"}, nil
}

// challenge returns the parameters of WWW-Authenticate about tokens.
func (i *Identity) challenge(err error) string {
	if i == nil {
		return ""
	}
	text := `, resource_metadata="` + i.metadata.String() + `", scope="` + i.Scope + `"`
	if bad, ok := errors.AsType[*tokenError](err); ok {
		text += `, error="` + bad.code + `", error_description="` + bad.description + `"`
	}
	return text
}
