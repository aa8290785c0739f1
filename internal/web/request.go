package web

import (
	"cmp"
	"container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A visitor has a cookie of 256 random bits, from the first page on. It is
// what forms are bound to, and, once a key was shown, what stands for the key:
// the key itself stays here, so that a cookie that gets out is worth nothing
// after the visitor signs out, the key is revoked, or the service starts anew.

const (
	cookieName  = "airlock"
	cookieBytes = 32
	tokenHeader = "X-Airlock-Token" //nolint:gosec // the name of a header
	signInTime  = 12 * time.Hour    // since the last use
	maxSignIns  = 10_000
	mostCookie  = 64
)

// webRequest is a request with its caller.
type webRequest struct {
	*http.Request
	caller   engine.Caller
	cookie   string
	signedIn bool // by key, so that signing out means something
}

// signInStore maps cookies to the keys that signed in with them.
type signInStore struct {
	secret [32]byte // of the tokens; a new one with each start
	now    func() time.Time
	self   func() engine.Epoch // which node has them

	mu      sync.Mutex
	signIns map[[32]byte]*list.Element
	recent  *list.List // of *signIn, last used first
}

type signIn struct {
	cookie [32]byte // hash
	key    string
	used   time.Time
}

func newSignInStore(now func() time.Time, self func() engine.Epoch) *signInStore {
	v := &signInStore{now: now, self: self, signIns: map[[32]byte]*list.Element{}, recent: list.New()}
	rand.Read(v.secret[:])
	return v
}

// token is what the forms of a visitor's pages bear.
func (v *signInStore) token(cookie string) string {
	mac := hmac.New(sha256.New, v.secret[:])
	mac.Write([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// holds reports whether a token is the one of this visitor's pages.
func (v *signInStore) holds(cookie, token string) bool {
	return cookie != "" && subtle.ConstantTimeCompare([]byte(v.token(cookie)), []byte(token)) == 1
}

// key returns the key that this visitor showed, and counts as a use.
func (v *signInStore) key(cookie string) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.signIns[sha256.Sum256([]byte(cookie))]
	if !ok {
		return "", false
	}
	in := e.Value.(*signIn)
	if v.now().Sub(in.used) > signInTime {
		v.drop(e)
		return "", false
	}
	in.used = v.now()
	v.recent.MoveToFront(e)
	return in.key, true
}

// has reports whether a visitor has signed in.
func (v *signInStore) has(cookie string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.signIns[sha256.Sum256([]byte(cookie))] != nil
}

// enter signs a visitor in under a new cookie, which it returns: one that
// an attacker may have planted before is worth nothing.
func (v *signInStore) enter(key string) (cookie string) {
	cookie = v.newCookie()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.recent.Len() >= maxSignIns {
		v.drop(v.recent.Back())
	}
	in := &signIn{cookie: sha256.Sum256([]byte(cookie)), key: key, used: v.now()}
	v.signIns[in.cookie] = v.recent.PushFront(in)
	return cookie
}

// leave signs a visitor out.
func (v *signInStore) leave(cookie string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.signIns[sha256.Sum256([]byte(cookie))]; ok {
		v.drop(e)
	}
}

func (v *signInStore) drop(e *list.Element) {
	delete(v.signIns, v.recent.Remove(e).(*signIn).cookie)
}

// newCookie says whose it is, so that other nodes pass a visitor's requests on to the one
// that knows of the sign-in.
func (v *signInStore) newCookie() string { return v.self().Prefix() + newSecret() }

// Holder returns the node that a visitor's cookie is from, or the ticket in the path.
func Holder(r *http.Request) engine.Epoch {
	return engine.EpochOf(cmp.Or(ticketOf(r.URL.Path), cookieOf(r)))
}

func newSecret() string {
	var b [cookieBytes]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// cookieOf returns the visitor's cookie, empty if it is none of ours.
func cookieOf(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil || len(c.Value) < base64.RawURLEncoding.EncodedLen(cookieBytes) || len(c.Value) > mostCookie {
		return ""
	}
	return c.Value
}

func (s *Site) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: s.Prefix + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}

// SignedIn returns who signed in at the page with the key for which the
// request's cookie stands. The key is asked for anew each time, so one that is
// revoked opens nothing from then on.
func (s *Site) SignedIn(r *http.Request) (engine.Caller, bool) {
	if ticket := ticketOf(strings.TrimPrefix(r.URL.Path, s.Prefix)); ticket != "" {
		to, ok := s.signIns.admits(ticket)
		if !ok {
			return engine.Caller{}, false
		}
		caller, err := s.Authenticate(r.Context(), to.key)
		return caller, err == nil
	}
	cookie := cookieOf(r)
	if cookie == "" {
		return engine.Caller{}, false
	}
	key, ok := s.signIns.key(cookie)
	if !ok {
		return engine.Caller{}, false
	}
	caller, err := s.Authenticate(r.Context(), key)
	if err != nil {
		if engine.KindOf(err) == engine.ErrUnauthorized {
			s.signIns.leave(cookie)
		}
		return engine.Caller{}, false
	}
	return caller, true
}

// visit identifies the caller of a request. A browser without a cookie gets one.
func (s *Site) visit(w http.ResponseWriter, r *http.Request) (_ *webRequest, known bool) {
	v := &webRequest{Request: r, cookie: cookieOf(r)}
	if v.cookie == "" {
		v.cookie = s.signIns.newCookie()
		s.setCookie(w, r, v.cookie)
	}
	v.caller, known = s.Caller(r)
	v.signedIn = known && v.caller.Key != "" && s.signIns.has(v.cookie)
	return v, known
}

// operator reports whether the visitor may change what is everybody's: with an
// admin key, or on loopback while there are no keys.
func (v *webRequest) operator() bool {
	return v.caller.Admin || v.caller.Owner == engine.Local && v.caller.Key == ""
}

// wants reports whether the request is made by a script that wants this type.
func (v *webRequest) wants(mediaType string) bool {
	return strings.Contains(v.Header.Get("Accept"), mediaType)
}
