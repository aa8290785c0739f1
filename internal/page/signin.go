package page

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// signInView is the data of the sign-in form.
type signInView struct {
	Next     string
	Problem  string
	Provider string // host of the identity provider; empty: there is none
	Refused  string // why it has not signed the visitor in
}

// requireSignIn redirects a browser to the sign-in form, which returns to the page. A
// script gets an error.
func (s *Site) requireSignIn(w http.ResponseWriter, v *Request) {
	if v.Method != http.MethodGet || v.script() {
		s.Fail(w, v, &engine.Error{Op: "page", Kind: engine.ErrUnauthorized})
		return
	}
	target := s.URL("/sign-in")
	if here := v.URL.RequestURI(); here != "/" {
		target += "?" + url.Values{"next": {here}}.Encode()
	}
	http.Redirect(w, v.Request, target, http.StatusSeeOther)
}

func (s *Site) newSignInView(next string) signInView {
	view := signInView{Next: next}
	if s.Provider != nil {
		view.Provider = s.Provider.Host()
	}
	return view
}

func (s *Site) signInForm(w http.ResponseWriter, r *http.Request) {
	v, known := s.Visit(w, r)
	if known {
		http.Redirect(w, r, s.URL("/"), http.StatusSeeOther)
		return
	}
	s.Render(w, v, http.StatusOK, "signin", "Sign in", s.newSignInView(r.URL.Query().Get("next")))
}

// signIn checks a key and sets a cookie for it.
func (s *Site) signIn(w http.ResponseWriter, r *http.Request) {
	v, _ := s.Visit(w, r)
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	if err := r.ParseForm(); err != nil || !s.signIns.holds(v.cookie, r.PostForm.Get("token")) {
		s.Fail(w, v, ErrToken)
		return
	}
	form := s.newSignInView(r.PostForm.Get("next"))
	key := strings.TrimSpace(r.PostForm.Get("key"))
	caller, err := s.Authenticate(r.Context(), key)
	s.Act(r.Context(), caller, engine.ActSignIn, "the page, with a key", "", err)
	switch {
	case err == nil:
		s.signIns.leave(v.cookie)
		s.setCookie(w, r, s.signIns.enter(caller.Owner, &signIn{key: key}))
		http.Redirect(w, r, s.URL(OwnPath(form.Next)), http.StatusSeeOther)
	case engine.KindOf(err) == engine.ErrUnauthorized:
		form.Problem = "This key is not known here, or it was revoked."
		s.Render(w, v, http.StatusUnauthorized, "signin", "Sign in", form)
	default:
		s.Fail(w, v, err)
	}
}

// maxSignIn bounds the sign-in form.
const maxSignIn = 16 << 10

func (s *Site) signOut(w http.ResponseWriter, v *Request) error {
	s.Act(v.Context(), v.Caller, engine.ActSignOut, "the page", "", nil)
	s.signIns.leave(v.cookie)
	s.setCookie(w, v.Request, s.signIns.newCookie())
	return s.Redirect(w, v, "/sign-in")
}

// OwnPath returns the path below the prefix of a link, "/" if it has none: a link to the
// sign-in must not lead to another site.
func OwnPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	clean := path.Clean(u.Path)
	if u.RawQuery != "" {
		clean += "?" + u.RawQuery
	}
	return clean
}
