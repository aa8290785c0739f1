// Package oidc signs people in with an identity provider that speaks OpenID Connect: the authorization code
// flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636).
//
// What stands for a sign-in between its two requests is one secret of the browser, from which SignInURL and Finish
// derive the state, the nonce and the verifier. The provider's tokens stay in memory.
package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/airlock-run/airlock/internal/engine"
)

// Options configure a Provider. Issuer, ClientID, Return and Client are required.
type Options struct {
	Issuer       string // https://id.example.com/realms/main, as tokens spell it
	ClientID     string
	ClientSecret string // empty: a public client, which has PKCE alone
	Return       string // address of the page to which the provider sends browsers back
	Scopes       []string

	Domains     []string // of e-mail addresses that the provider has verified; empty: all people of the provider
	Groups      []string // of which a person needs one; empty: none is needed
	Admins      []string // groups that have admin rights
	GroupsClaim string   // the name of the claim with groups; dots lead into objects

	Client *http.Client     // reaches the provider
	Now    func() time.Time // nil: time.Now
}

// Provider is an identity provider. It is asked for its addresses and keys with the first sign-in.
type Provider struct {
	Options

	mu       sync.Mutex
	found    *found
	failed   error // of the last attempt to find it
	failedAt time.Time
}

// The provider is given answerTime for what one call asks of it. After a failure it is left alone for pauseTime: those
// who come meanwhile would wait for each other.
const (
	answerTime = 10 * time.Second
	pauseTime  = 5 * time.Second
)

// found is what a provider has told of itself.
type found struct {
	provider *oidc.Provider
	config   oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// Person is somebody who has signed in.
type Person struct {
	Caller engine.Caller
	Until  time.Time // then Renew is due

	subject string
	checked time.Time // when the provider last answered for the person
	tokens  *oauth2.Token
}

// maxSkew bounds the difference between the clocks of the provider and of this machine.
const maxSkew = 30 * time.Second

// New returns a Provider.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Provider{Options: o}
}

// Host returns the host name of the provider, for people.
func (p *Provider) Host() string {
	if u, err := url.Parse(p.Issuer); err == nil {
		return u.Hostname()
	}
	return p.Issuer
}

// find asks the provider for its addresses, until it has answered once.
func (p *Provider) find(ctx context.Context) (*found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	if p.failed != nil && p.Now().Sub(p.failedAt) < pauseTime {
		return nil, p.failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime) // who leaves is no failure of it
	defer cancel()
	provider, err := oidc.NewProvider(p.with(ctx), p.Issuer)
	if err != nil {
		p.failed, p.failedAt = p.unavailable(err), p.Now()
		return nil, p.failed
	}
	p.found = &found{
		provider: provider,
		config: oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, RedirectURL: p.Return,
			Endpoint: provider.Endpoint(), Scopes: p.Scopes},
		verifier: provider.Verifier(&oidc.Config{ClientID: p.ClientID,
			Now: func() time.Time { return p.Now().Add(-maxSkew) }}),
	}
	return p.found, nil
}

// with returns a context in which the provider's client sends requests.
func (p *Provider) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.Client)
}

// unavailable is the error of a provider that does not answer, or not as one.
func (p *Provider) unavailable(err error) error {
	return &engine.Error{Op: "sign in", Kind: engine.ErrUnavailable, Err: fmt.Errorf("%s: %w", p.Issuer, err),
		Hint: p.Host() + " does not answer as an identity provider. Sign in with a key, or try again in a moment."}
}

// refused is the error of a sign-in that is not accepted. Nobody but the operator learns err.
func (p *Provider) refused(hint string, err error) error {
	return &engine.Error{Op: "sign in", Kind: engine.ErrForbidden, Hint: hint, Err: err}
}

// again is the hint of a sign-in that a new attempt mends.
const again = "Sign in again."

// derive returns what a secret of the browser stands for.
func derive(secret, use string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(use))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// SignInURL returns the address of the provider's sign-in, which leads back to Finish with the same secret. prefix is
// put before the state; see Finish.
func (p *Provider) SignInURL(ctx context.Context, prefix, secret string) (string, error) {
	f, err := p.find(ctx)
	if err != nil {
		return "", err
	}
	return f.config.AuthCodeURL(prefix+derive(secret, "state"), oidc.Nonce(derive(secret, "nonce")),
		oauth2.S256ChallengeOption(derive(secret, "verifier"))), nil
}

// Finish returns who has signed in, by what the provider has sent back with the browser.
func (p *Provider) Finish(ctx context.Context, prefix, secret string, query url.Values) (*Person, error) {
	if secret == "" || !hmac.Equal([]byte(query.Get("state")), []byte(prefix+derive(secret, "state"))) {
		return nil, p.refused("This is not the end of a sign-in that was begun in this browser in the last minutes. "+again,
			errors.New("the state is not the browser's"))
	}
	if code := query.Get("error"); code != "" {
		return nil, p.refused(p.Host()+" has not signed you in. "+again,
			fmt.Errorf("%.100s: %.300s", code, query.Get("error_description")))
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f, err := p.find(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := f.config.Exchange(p.with(ctx), query.Get("code"), oauth2.VerifierOption(derive(secret, "verifier")))
	if err != nil {
		return nil, p.denied(err)
	}
	id, err := p.verify(ctx, f, tokens)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(id.Nonce), []byte(derive(secret, "nonce"))) {
		return nil, p.refused("The answer of "+p.Host()+" is not for this sign-in. "+again, errors.New("the nonce differs"))
	}
	return p.person(ctx, f, id, tokens)
}

// denied is the error of a request for tokens: a refusal, unless the provider is only busy or away.
func (p *Provider) denied(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if ok && e.Response.StatusCode < http.StatusInternalServerError &&
		e.Response.StatusCode != http.StatusTooManyRequests {
		return p.refused(p.Host()+" does not accept this sign-in any more. "+again, err)
	}
	return p.unavailable(err)
}

// verify checks the ID token of an answer.
func (p *Provider) verify(ctx context.Context, f *found, tokens *oauth2.Token) (*oidc.IDToken, error) {
	const bad = " has sent a token that is not valid for this service. "
	text, _ := tokens.Extra("id_token").(string)
	id, err := f.verifier.Verify(p.with(ctx), text)
	if err != nil {
		return nil, p.refused(p.Host()+bad+again, err)
	}
	var claims struct {
		Party string `json:"azp"`
	}
	err = id.Claims(&claims)
	if err == nil && id.AccessTokenHash != "" {
		err = id.VerifyAccessToken(tokens.AccessToken)
	}
	switch {
	case err != nil:
	case len(id.Audience) > 1 && claims.Party != p.ClientID, claims.Party != "" && claims.Party != p.ClientID:
		err = errors.New("it is for another party")
	case id.IssuedAt.After(p.Now().Add(maxSkew)):
		err = errors.New("it is of the future")
	case id.Subject == "":
		err = errors.New("it has no subject")
	}
	if err != nil {
		return nil, p.refused(p.Host()+bad+again, err)
	}
	return id, nil
}

// person returns who a verified token is about, if that person may use the service.
func (p *Provider) person(ctx context.Context, f *found, id *oidc.IDToken, tokens *oauth2.Token) (*Person, error) {
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return nil, p.refused(again, err)
	}
	if err := p.addUserInfo(ctx, f, id.Subject, tokens, claims); err != nil {
		return nil, err
	}
	groups := texts(lookUp(claims, p.GroupsClaim))
	email, _ := claims["email"].(string)
	if reason := p.excluded(groups, email, claims["email_verified"]); reason != "" {
		return nil, p.refused(reason+" Ask whoever runs this service.", nil)
	}
	now := p.Now()
	until := id.Expiry
	if tokens.RefreshToken != "" {
		until = now.Add(renewAfter)
	}
	return &Person{
		Caller: engine.Caller{Owner: engine.SubjectOwner(p.Issuer, id.Subject), Key: CallerKey, Name: nameIn(claims),
			Admin: slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(p.Admins, g) })},
		Until: until, subject: id.Subject, checked: now, tokens: tokens,
	}, nil
}

// CallerKey stands for a key in callers that have signed in with a provider.
const CallerKey = "oidc"

// addUserInfo adds the claims that the provider tells on demand alone, if one is missing that is needed.
func (p *Provider) addUserInfo(
	ctx context.Context, f *found, subject string, tokens *oauth2.Token, claims map[string]any,
) error {
	needed := nameIn(claims) == "" || len(p.Domains) > 0 && claims["email"] == nil ||
		len(p.Groups)+len(p.Admins) > 0 && lookUp(claims, p.GroupsClaim) == nil
	if !needed || f.provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := f.provider.UserInfo(p.with(ctx), oauth2.StaticTokenSource(tokens))
	if err != nil {
		return p.unavailable(err)
	}
	if info.Subject != subject { // section 5.3.2
		return p.refused(again, errors.New("the claims are about another person"))
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return p.unavailable(err)
	}
	for name, value := range more {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return nil
}

// nameIn returns what people call a person, "" if nothing tells.
func nameIn(claims map[string]any) string {
	for _, claim := range []string{"name", "preferred_username", "email"} {
		if name, ok := claims[claim].(string); ok && name != "" {
			return name
		}
	}
	return ""
}

// excluded returns why a person may not use the service; "": they may.
func (p *Provider) excluded(groups []string, email string, verified any) string {
	if len(p.Domains) > 0 {
		_, domain, _ := strings.Cut(email, "@")
		switch {
		case verified != true && verified != "true":
			return p.Host() + " does not say that your e-mail address is verified."
		case !slices.ContainsFunc(p.Domains, func(d string) bool { return strings.EqualFold(d, domain) }):
			return "Your e-mail address is of a domain that may not sign in here."
		}
	}
	in := func(g string) bool { return slices.Contains(p.Groups, g) || slices.Contains(p.Admins, g) }
	if len(p.Groups) > 0 && !slices.ContainsFunc(groups, in) {
		return "You are in no group that may sign in here."
	}
	return ""
}

// lookUp returns a claim. Dots in its name lead into objects, as in realm_access.roles.
func lookUp(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, deeper := strings.Cut(name, ".")
	inner, ok := claims[first].(map[string]any)
	if !deeper || !ok {
		return nil
	}
	return lookUp(inner, rest)
}

// texts returns the strings of a claim: a list, or a single one.
func texts(claim any) (list []string) {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		for _, one := range claim {
			if text, ok := one.(string); ok {
				list = append(list, text)
			}
		}
	}
	return list
}

// The times of a sign-in that the provider renews: it is asked again after renewAfter, and if it cannot be reached,
// each retryAfter until it has not answered for staleAfter.
const (
	renewAfter = 5 * time.Minute
	retryAfter = 30 * time.Second
	staleAfter = time.Hour
)

// Renew asks the provider whether a person is still signed in. It returns ErrForbidden if not, and ErrUnavailable
// if the provider has not answered for too long.
func (p *Provider) Renew(ctx context.Context, of *Person) (*Person, error) {
	if of.tokens.RefreshToken == "" {
		return nil, p.refused("Your sign-in has expired. "+again, nil)
	}
	later := *of
	later.Until = p.Now().Add(retryAfter)
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	stale := p.Now().Sub(of.checked) > staleAfter
	f, err := p.find(ctx)
	if err != nil {
		if stale {
			return nil, err
		}
		return &later, nil
	}
	tokens, err := f.config.TokenSource(p.with(ctx), &oauth2.Token{RefreshToken: of.tokens.RefreshToken}).Token()
	if err != nil {
		err = p.denied(err)
		if engine.KindOf(err) == engine.ErrUnavailable && !stale {
			return &later, nil
		}
		return nil, err
	}
	if tokens.Extra("id_token") == nil { // it may tell nothing new
		later.Until, later.checked, later.tokens = p.Now().Add(renewAfter), p.Now(), tokens
		return &later, nil
	}
	id, err := p.verify(ctx, f, tokens)
	if err != nil {
		return nil, err
	}
	if id.Subject != of.subject {
		return nil, p.refused(again, errors.New("the tokens are of another person"))
	}
	return p.person(ctx, f, id, tokens)
}
