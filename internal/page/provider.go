package page

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// A visitor signs in with the identity provider in two requests, between which the provider has the browser. What
// connects them is a cookie of its own, because the browser comes back from another site, and so without the cookie
// of the page. Nothing is kept here meanwhile.

// Paths of a sign-in with the identity provider.
const (
	providerPath = "/sign-in/provider"
	returnPath   = "/sign-in/return"
)

// ReturnPath is where the provider sends browsers back to, below the prefix.
const ReturnPath = returnPath

// begunTime is how long a visitor may take at the provider.
const begunTime = 10 * time.Minute

// stateOf returns the state of a request that comes back from the provider, which begins with the prefix of the node
// that sent it there.
func stateOf(r *http.Request) string {
	if !strings.HasSuffix(r.URL.Path, returnPath) {
		return ""
	}
	return r.URL.Query().Get("state")
}

// begun is a sign-in that waits for its end: a secret, the time, and where it leads.
type begun struct{ secret, next string }

// sealBegun returns the value of the cookie.
func (v *signInStore) sealBegun(next string) (value string) {
	fields := NewSecret() + "." + strconv.FormatInt(v.now().Unix(), 10) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(next))
	return fields + "." + v.token("begun\x00"+fields)
}

// openBegun returns what a cookie has, if this node has made it in the last minutes; else it is empty.
func (v *signInStore) openBegun(value string) begun {
	last := strings.LastIndexByte(value, '.')
	if last < 0 || !v.holds("begun\x00"+value[:last], value[last+1:]) {
		return begun{}
	}
	parts := strings.Split(value[:last], ".")
	if len(parts) != 3 {
		return begun{}
	}
	at, err := strconv.ParseInt(parts[1], 10, 64)
	next, failed := base64.RawURLEncoding.DecodeString(parts[2])
	age := v.now().Sub(time.Unix(at, 0))
	if err != nil || failed != nil || age < -time.Second || age > begunTime {
		return begun{}
	}
	return begun{value, string(next)}
}

// begunCookie returns the cookie of a sign-in that waits for its end.
func (s *Site) begunCookie(r *http.Request) *http.Cookie {
	c := &http.Cookie{Name: "airlock-sign-in", Path: s.Prefix + "/sign-in", HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	if overTLS(r) {
		c.Name, c.Path, c.Secure = wire.HostCookie+"-sign-in", "/", true
	}
	return c
}

// beginSignIn sends the browser to the provider.
func (s *Site) beginSignIn(w http.ResponseWriter, r *http.Request) {
	c := s.begunCookie(r)
	c.Value, c.MaxAge = s.signIns.sealBegun(OwnPath(r.URL.Query().Get("next"))), int(begunTime/time.Second)
	to, err := s.Provider.SignInURL(r.Context(), s.signIns.self().Prefix(), c.Value)
	if err != nil {
		s.refuseSignIn(w, r, err)
		return
	}
	http.SetCookie(w, c)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// finishSignIn signs in whom the provider has sent back.
func (s *Site) finishSignIn(w http.ResponseWriter, r *http.Request) {
	c := s.begunCookie(r)
	c.MaxAge = -1
	http.SetCookie(w, c) // it is good for one attempt
	w.Header().Set("Cache-Control", "no-store")
	var of begun // without one the provider's answer is refused
	if sent, err := r.Cookie(c.Name); err == nil {
		of = s.signIns.openBegun(sent.Value)
	}
	person, err := s.Provider.Finish(r.Context(), s.signIns.self().Prefix(), of.secret, r.URL.Query())
	if err != nil {
		s.refuseSignIn(w, r, err)
		return
	}
	s.signIns.leave(cookieOf(r))
	s.setCookie(w, r, s.signIns.enter(person.Caller.Owner, &signIn{person: person}))
	s.Act(r.Context(), person.Caller, engine.ActSignIn, "the page, with "+s.Provider.Host(), person.Caller.Name, nil)
	s.Log.Info("signed in", "owner", person.Caller.Owner, "admin", person.Caller.Admin)
	// The browser comes from another site: if it were redirected, it would not send the new cookie.
	next, err := url.Parse(s.URL(OwnPath(of.next)))
	if err != nil {
		next = &url.URL{Path: s.URL("/")}
	}
	w.Header().Set("Refresh", "0; url="+next.String())
	v := &Request{Request: r, Caller: person.Caller}
	s.Render(w, v, http.StatusOK, "signedin", "Signed in", signedInView{Name: person.Caller.Name, Next: next.String()})
}

// signedInView is the data of the page that leads on after a sign-in.
type signedInView struct{ Name, Next string }

// refuseSignIn shows the sign-in form with the reason why a sign-in with the provider has failed.
func (s *Site) refuseSignIn(w http.ResponseWriter, r *http.Request, err error) {
	v, _ := s.Visit(w, r)
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || e.Hint == "" {
		s.Fail(w, v, err)
		return
	}
	s.Act(r.Context(), engine.Caller{}, engine.ActSignIn, "the page, with "+s.Provider.Host(), "", err)
	s.Log.Warn("a sign-in was refused", "reason", err)
	view := s.newSignInView("")
	view.Refused = e.Hint
	status := http.StatusForbidden
	if e.Kind == engine.ErrUnavailable {
		status = http.StatusServiceUnavailable
	}
	s.Render(w, v, status, "signin", "Sign in", view)
}
