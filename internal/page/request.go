package page

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/oidc"
	"github.com/airlock-run/airlock/internal/wire"
)

// Each visitor has a cookie of 256 random bits. Forms are bound to it, and after a sign-in
// it stands for the key. The key itself stays in memory, so that a leaked cookie is
// useless once the visitor signs out, the key is revoked, or the service restarts.

// Cookies and their lifetimes.
const (
	CookieName  = "airlock"
	hostCookie  = wire.HostCookie // over TLS
	cookieBytes = 32
	TokenHeader = "X-Airlock-Token" //nolint:gosec // the name of a header
	SignInTime  = 12 * time.Hour    // since the last use
	maxSignIns  = 1000              // of one owner; the one that was not used for longest ends
	allSignIns  = 10_000            // of all
	mostCookie  = 64
)

// Request is a request with its caller.
type Request struct {
	*http.Request
	Caller engine.Caller
	cookie string
	HasKey bool // with a key, and can sign out
	parts  *multipart.Reader
}

// signInStore maps cookies to what signed in with them.
type signInStore struct {
	secret [32]byte // of the tokens; a new one with each start
	now    func() time.Time
	self   func() engine.Epoch // the node that has the sign-ins

	signIns wire.Recent[[32]byte, *signIn] // by the hash of their cookies
}

// signIn is a key, or a person of the identity provider.
type signIn struct {
	key  string
	used atomic.Int64 // nanoseconds of Unix time

	mu     sync.Mutex   // of person
	person *oidc.Person // nil: it is of a key
}

func newSignInStore(now func() time.Time, self func() engine.Epoch) *signInStore {
	v := &signInStore{now: now, self: self,
		signIns: wire.Recent[[32]byte, *signIn]{Each: maxSignIns, Total: allSignIns}}
	rand.Read(v.secret[:])
	return v
}

// token returns the token for the forms of a visitor's pages.
func (v *signInStore) token(cookie string) string {
	mac := hmac.New(sha256.New, v.secret[:])
	mac.Write([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// holds reports whether the token belongs to the cookie.
func (v *signInStore) holds(cookie, token string) bool {
	return cookie != "" && subtle.ConstantTimeCompare([]byte(v.token(cookie)), []byte(token)) == 1
}

// find returns a sign-in, and counts as a use of it.
func (v *signInStore) find(cookie string) (*signIn, bool) {
	hash := sha256.Sum256([]byte(cookie))
	in, ok := v.signIns.Get(hash)
	if !ok || !v.good(in) {
		v.signIns.Delete(hash)
		return nil, false
	}
	in.used.Store(v.now().UnixNano())
	return in, true
}

// good reports whether a sign-in has not expired.
func (v *signInStore) good(in *signIn) bool {
	return v.now().Sub(time.Unix(0, in.used.Load())) <= SignInTime
}

// has reports whether a visitor has signed in.
func (v *signInStore) has(cookie string) bool {
	_, ok := v.signIns.Get(sha256.Sum256([]byte(cookie)))
	return ok
}

// enter signs a visitor in and returns a new cookie. It never reuses a cookie that an
// attacker may have planted.
func (v *signInStore) enter(owner engine.Owner, in *signIn) (cookie string) {
	cookie = v.newCookie()
	in.used.Store(v.now().UnixNano())
	v.signIns.Put(owner, sha256.Sum256([]byte(cookie)), in)
	return cookie
}

// leave signs a visitor out.
func (v *signInStore) leave(cookie string) { v.signIns.Delete(sha256.Sum256([]byte(cookie))) }

// newCookie returns a cookie that names this node, so that other nodes can pass requests on
// to the node with the sign-in.
func (v *signInStore) newCookie() string { return v.self().Prefix() + NewSecret() }

// Holder returns the node that made a visitor's cookie, the ticket in the path, or the state of a sign-in with an
// identity provider.
func Holder(r *http.Request) engine.Epoch {
	return engine.EpochOf(cmp.Or(ticketOf(r.URL.Path), stateOf(r), cookieOf(r)))
}

// NewSecret returns 256 random bits in base64.
func NewSecret() string {
	var b [cookieBytes]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// overTLS reports whether the visitor's browser speaks TLS, with this service or with a proxy that
// says so. Whoever says so without TLS gets a cookie that their browser refuses.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// cookieOf returns the visitor's cookie, "" if it is not valid. Over TLS it has a prefix with which
// no other host, such as a sandbox's below the same domain, and no page without TLS can plant one.
func cookieOf(r *http.Request) string {
	name := CookieName
	if overTLS(r) {
		name = hostCookie
	}
	c, err := r.Cookie(name)
	if err != nil || len(c.Value) < base64.RawURLEncoding.EncodedLen(cookieBytes) || len(c.Value) > mostCookie {
		return ""
	}
	return c.Value
}

func (s *Site) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := http.Cookie{Name: CookieName, Value: value, Path: s.Prefix + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
	if overTLS(r) {
		c.Name, c.Path, c.Secure = hostCookie, "/", true // as the prefix wants
	}
	http.SetCookie(w, &c)
}

// SignedIn returns the caller for whom the request's cookie stands. It checks a key each time, so that a revoked one
// is refused at once, and a person of the identity provider when that is due.
func (s *Site) SignedIn(r *http.Request) (engine.Caller, bool) {
	if ticket := ticketOf(strings.TrimPrefix(r.URL.Path, s.Prefix)); ticket != "" {
		to, ok := s.signIns.admits(ticket)
		if !ok {
			return engine.Caller{}, false
		}
		caller, err := s.callerOf(r.Context(), to.by)
		return caller, err == nil
	}
	cookie := cookieOf(r)
	in, ok := s.signIns.find(cookie)
	if !ok {
		return engine.Caller{}, false
	}
	caller, err := s.callerOf(r.Context(), in)
	if err != nil {
		if kind := engine.KindOf(err); kind == engine.ErrUnauthorized || kind == engine.ErrForbidden {
			s.signIns.leave(cookie)
		}
		return engine.Caller{}, false
	}
	return caller, true
}

// callerOf returns whom a sign-in stands for now.
func (s *Site) callerOf(ctx context.Context, in *signIn) (engine.Caller, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.person == nil {
		return s.Authenticate(ctx, in.key)
	}
	if s.Now().After(in.person.Until) {
		renewed, err := s.Provider.Renew(context.WithoutCancel(ctx), in.person)
		if err != nil {
			s.Log.Info("a sign-in ended", "owner", in.person.Caller.Owner, "reason", err)
			return engine.Caller{}, err
		}
		in.person = renewed
	}
	return in.person.Caller, nil
}

// Visit identifies the caller of a request. A browser without a cookie gets one.
func (s *Site) Visit(w http.ResponseWriter, r *http.Request) (_ *Request, known bool) {
	v := &Request{Request: r, cookie: cookieOf(r)}
	if v.cookie == "" {
		v.cookie = s.signIns.newCookie()
		s.setCookie(w, r, v.cookie)
	}
	v.Caller, known = s.Caller(r)
	v.HasKey = known && v.Caller.Key != "" && s.signIns.has(v.cookie)
	return v, known
}

// ID returns the id in the path of a request.
func (v *Request) ID() (engine.ID, error) { return ParseID(v.PathValue("id")) }

// ParseID parses an id. An invalid id returns ErrNotFound.
func ParseID(text string) (engine.ID, error) {
	id, err := engine.ParseID(text)
	if err != nil {
		return id, engine.ErrNotFound
	}
	return id, nil
}

// After returns the id after which a list continues, zero for its beginning.
func (v *Request) After() (id engine.ID, err error) {
	if text := v.URL.Query().Get("after"); text != "" {
		return ParseID(text)
	}
	return id, nil
}

// Owner returns the name under which the caller's data is kept.
func (v *Request) Owner() string { return string(v.Caller.Owner) }

// script reports whether a script of this package sent the request. Scripts expect JSON.
func (v *Request) script() bool {
	return v.Wants("application/json") || v.Wants("text/event-stream") || v.Header.Get(TokenHeader) != ""
}

// Operator reports whether the visitor may change shared settings: with an admin key, or on
// loopback while there are no keys.
func (v *Request) Operator() bool {
	return v.Caller.Operator()
}

// Wants reports whether a script asks for this type.
func (v *Request) Wants(mediaType string) bool {
	return strings.Contains(v.Header.Get("Accept"), mediaType)
}
