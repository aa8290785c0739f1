package httpd

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

type callerKey struct{}

// CallerFrom returns the caller of a request, and whether it is known. Behind
// a mount that is not Public it always is.
func CallerFrom(ctx context.Context) (engine.Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(engine.Caller)
	return c, ok
}

// Caller returns the caller of a request, or the zero Caller, which owns nothing, if it
// is not known.
func Caller(r *http.Request) engine.Caller {
	c, _ := CallerFrom(r.Context())
	return c
}

// authenticate puts the caller into the context, or answers 401 before the
// body is read.
func (s *Server) authenticate(m Mount, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := forwardOf(r.Context()); f != nil {
			caller := f.Caller
			if caller == nil && m.SignedIn != nil { // the peer does not know the mount's sign-ins
				if c, ok := m.SignedIn(r); ok {
					caller = &c
				}
			}
			if caller != nil {
				r = withCaller(w, r, *caller)
			}
			next.ServeHTTP(w, r)
			return
		}
		m := m
		public := m.Public || slices.Contains(m.Open, below(m.Prefix, r).URL.Path)
		if m.Access != nil {
			network, everyone := m.Access(below(m.Prefix, r))
			m.Trusted, public = network, public || everyone
		}
		caller, err := s.caller(m, r)
		if err == nil {
			next.ServeHTTP(w, withCaller(w, r, caller))
			return
		}
		if public {
			next.ServeHTTP(w, r)
			return
		}
		if kind := engine.KindOf(err); kind != engine.ErrUnauthorized && kind != engine.ErrForbidden {
			s.opts.Log.Error("authenticate", "request_id", w.Header().Get(requestIDHeader), "err", err)
			w.Header().Set("Retry-After", "5")
			m.refuse(w, r, http.StatusServiceUnavailable, "unavailable", "keys cannot be checked at the moment")
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="airlock"`+m.Identity.challenge(err))
		hangUp(w, r)
		if e, ok := errors.AsType[*engine.Error](err); ok && errors.Is(err, engine.ErrOnly) {
			m.refuse(w, r, http.StatusForbidden, "forbidden", e.Hint)
			return
		}
		if bad, ok := errors.AsType[*tokenError](err); ok && bad.code == insufficientScope {
			m.refuse(w, r, http.StatusForbidden, bad.code, bad.description)
			return
		}
		message := "a valid key is needed"
		if e, ok := errors.AsType[*engine.Error](err); ok && e.Hint != "" {
			message = e.Hint
			if e.Err != nil { // a caller must not learn it
				s.refusals.Do(func() {
					s.opts.Log.Warn("a token was refused", "request_id", w.Header().Get(requestIDHeader), "path", r.URL.Path,
						"reason", e.Err)
				})
			}
		}
		m.refuse(w, r, http.StatusUnauthorized, "unauthorized", message)
	})
}

// withCaller returns a request with its caller in the context, and notes it for the log.
func withCaller(w http.ResponseWriter, r *http.Request, caller engine.Caller) *http.Request {
	if v := watch(w); v != nil {
		v.caller = caller
	}
	Authenticated(r.Context())
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
}

const badKey = "that key is not valid"

// errBadKey reports keys of which none is valid.
var errBadKey = unauthorized(badKey)

// caller authenticates a request. A key in it must be valid, even where no key is
// needed: the client means to act as its owner.
func (s *Server) caller(m Mount, r *http.Request) (engine.Caller, error) {
	tokens, err := tokens(r.Header)
	if err == nil && m.QueryKey != "" {
		tokens, err = queryTokens(tokens, r.URL.Query()[m.QueryKey])
	}
	if err != nil {
		return engine.Caller{}, err
	}
	if len(tokens) > 0 {
		var found engine.Caller
		var refused error
		for _, token := range tokens {
			caller, err := s.holder(r.Context(), m, token)
			_, badToken := errors.AsType[*tokenError](err)
			switch {
			case badToken, errors.Is(err, engine.ErrOnly):
				return engine.Caller{}, err // the error names the fault
			case err == nil:
				found = cmp.Or(found, caller)
			case errors.Is(err, engine.ErrForbidden):
				refused = err // even beside a valid key
			case !errors.Is(err, engine.ErrUnauthorized):
				return engine.Caller{}, err
			}
		}
		switch {
		case refused != nil:
			return engine.Caller{}, &engine.Error{Op: "authenticate", Kind: engine.ErrUnauthorized, Hint: badKey,
				Err: fmt.Errorf("%.300s", refused.Error())}
		case found.Owner != "":
			return found, nil
		case !m.Lenient:
			return engine.Caller{}, errBadKey
		}
	}
	if m.SignedIn != nil {
		if caller, ok := m.SignedIn(r); ok {
			return caller, nil
		}
	}
	from := originOf(r.Context())
	if m.SignedIn != nil {
		if caller, ok := s.opts.Proxy.caller(r.Header, from); ok {
			return caller, nil
		}
	}
	switch {
	case from.unix && (from.peerUID == 0 || from.peerUID >= 0 && from.peerUID == os.Getuid()):
		return engine.Caller{Owner: engine.Local, Admin: true}, nil
	case from.loopback && from.remote.IsLoopback() && !forwarded(r.Header) && !m.Keyed && m.Identity == nil:
		needed, err := s.opts.Engine.NeedsKey(r.Context())
		if err != nil {
			return engine.Caller{}, err
		}
		if !needed {
			return engine.Caller{Owner: engine.Local}, nil
		}
	}
	if m.Trusted && s.trusts(from) {
		return engine.Caller{Owner: engine.Local}, nil
	}
	if len(tokens) > 0 {
		return engine.Caller{}, errBadKey
	}
	return engine.Caller{}, unauthorized("a key is needed, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'")
}

// holder returns the caller of a key or a token.
func (s *Server) holder(ctx context.Context, m Mount, credential string) (engine.Caller, error) {
	switch {
	case m.Identity != nil && isToken(credential):
		return m.Identity.Authenticate(ctx, credential)
	case m.Authenticate != nil:
		return m.Authenticate(ctx, credential)
	}
	return s.opts.Engine.Authenticate(ctx, credential)
}

func (s *Server) trusts(from connOrigin) bool { return within(s.opts.TrustNetworks, from.remote) }

// within reports whether an address is of one of the networks.
func within(networks []netip.Prefix, address netip.Addr) bool {
	return address.IsValid() &&
		slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// forwarded reports whether a proxy forwarded the request. Anyone may be behind the
// proxy, so that its address is no credential.
func forwarded(h http.Header) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"},
		func(name string) bool { return h.Get(name) != "" })
}

const maxToken = 8 << 10

// tokens returns the keys in a header, in the order in which they are tried. A token of a
// dialect and a key of the engine may come together. An empty header counts as none, since
// clients send it when no key is set.
func tokens(h http.Header) ([]string, error) {
	var found []string
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		values := slices.DeleteFunc(slices.Clone(h[name]), func(v string) bool { return v == "" })
		if len(values) == 0 {
			continue
		}
		if len(values) > 1 {
			return nil, unauthorized("more than one " + name + " header")
		}
		if name == "X-Api-Key" {
			found = append(found, values[0])
			continue
		}
		scheme, rest, _ := strings.Cut(values[0], " ")
		switch strings.ToLower(scheme) {
		case "bearer":
			found = append(found, rest)
		case "token": // Jupyter's, whose clients send the word alone when no key is set
			if rest != "" {
				found = append(found, rest)
			}
		case "basic":
			parts, ok := basic(rest)
			if !ok {
				return nil, unauthorized("the Authorization header cannot be read")
			}
			found = append(found, parts...)
		default:
			return nil, unauthorized("the Authorization header must be 'Bearer KEY'")
		}
	}
	for _, token := range found {
		if !plainToken(token) {
			return nil, unauthorized("that is not a key")
		}
	}
	return found, nil
}

// queryTokens adds the keys in a query to those of the header. Clients may send the same key
// at both places.
func queryTokens(found, query []string) ([]string, error) {
	for _, token := range query {
		if token == "" || slices.Contains(found, token) {
			continue
		}
		if !plainToken(token) {
			return nil, unauthorized("that is not a key")
		}
		found = append(found, token)
	}
	if len(found) > maxShown {
		return nil, unauthorized("more than one key")
	}
	return found, nil
}

// maxShown bounds the keys in one request.
const maxShown = 4

// basic returns the user and the password of basic authentication. Some clients omit the
// colon after a user without a password.
func basic(encoded string) ([]string, bool) {
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, false
	}
	user, password, _ := strings.Cut(string(text), ":")
	parts := slices.DeleteFunc([]string{user, password}, func(s string) bool { return s == "" })
	return parts, len(parts) > 0
}

func plainToken(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	return !strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

func unauthorized(hint string) error {
	return &engine.Error{Op: "authenticate", Kind: engine.ErrUnauthorized, Hint: hint}
}
