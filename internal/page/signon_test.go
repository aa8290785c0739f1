package page_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/oidc"
	"github.com/airlock-run/airlock/internal/oidc/oidctest"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// signOn is a site whose visitors sign in with a provider, and a clock that can be moved.
type signOn struct {
	*pagetest.Visitor
	provider *oidctest.Provider
	ahead    atomic.Int64
}

func visitSignOn(t *testing.T) *signOn {
	const back = "http://localhost:1/ui/sign-in/return"
	s := &signOn{provider: oidctest.Start(t, back)}
	now := func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	start := func(o page.Options, _ *engine.Service) (*page.Site, error) {
		o.Now = now
		o.Provider = oidc.New(oidc.Options{Issuer: s.provider.URL, ClientID: oidctest.ClientID,
			ClientSecret: oidctest.ClientSecret, Return: back, Client: http.DefaultClient, Now: now,
			Scopes: []string{"openid", "profile", "offline_access"}})
		return page.New(o, page.Part{Add: func(s *page.Site) {
			s.Mux.HandleFunc("GET /{$}", s.Handle(func(w http.ResponseWriter, v *page.Request) error {
				_, err := w.Write([]byte("the page of " + v.Caller.Name))
				return err
			}))
		}})
	}
	s.Visitor = pagetest.Visit(t, false, pagetest.Prints("x"), start)
	return s
}

var hiddenID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// back goes to the provider, signs in there, and returns the path to which that leads back.
func (s *signOn) back(next string) string {
	s.T.Helper()
	at := s.Get("/sign-in/provider?next=" + url.QueryEscape(next)).Header.Get("Location")
	for range 5 {
		switch {
		case strings.HasPrefix(at, "http://localhost:1/ui"):
			return strings.TrimPrefix(at, "http://localhost:1/ui")
		case strings.HasPrefix(at, "/"):
			at = s.provider.URL + at
		}
		r, err := http.NewRequestWithContext(s.T.Context(), "GET", at, nil)
		if err != nil {
			s.T.Fatal(err)
		}
		got := s.Send(r)
		if id := hiddenID.FindStringSubmatch(got.Body); id != nil {
			form := url.Values{"id": {id[1]}, "username": {oidctest.Ada}, "password": {oidctest.Password}}
			r, err = http.NewRequestWithContext(s.T.Context(), "POST", s.provider.URL+"/login/username",
				strings.NewReader(form.Encode()))
			if err != nil {
				s.T.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			got = s.Send(r)
		}
		at = got.Header.Get("Location")
	}
	s.T.Fatalf("the provider leads to %q", at)
	return ""
}

func (s *signOn) isIn() bool {
	s.T.Helper()
	return s.Get("/").Body == "the page of Test User2"
}

func TestSignOn(t *testing.T) {
	s := visitSignOn(t)
	before := s.Cookie()
	got := s.Get(s.back("//elsewhere.example.com/"))
	if got.Status != http.StatusOK || got.Header.Get("Refresh") != "0; url=/ui/" || !s.isIn() {
		t.Fatalf("signed in: %d, %v", got.Status, got.Header)
	}
	if s.Cookie() == before {
		t.Error("the cookie of before stands for the sign-in")
	}
	s.ahead.Store(int64(6 * time.Minute)) // it is renewed
	if !s.isIn() {
		t.Error("it was not renewed")
	}
	s.provider.Revoke(t)
	s.ahead.Add(int64(4 * time.Minute))
	if !s.isIn() {
		t.Error("it was asked too soon")
	}
	s.ahead.Add(int64(2 * time.Minute))
	if s.isIn() {
		t.Error("what the provider has revoked goes on")
	}
}

// A sign-in ends in the browser in which it was begun, and within minutes.
func TestSignOnBelongsToItsBrowser(t *testing.T) {
	s := visitSignOn(t)
	back := s.back("/")
	if got := s.Another().Get(back); got.Status != http.StatusForbidden || !strings.Contains(got.Body, "Sign in again") {
		t.Errorf("another browser is answered %d", got.Status)
	}
	s.ahead.Store(int64(11 * time.Minute))
	if got := s.Get(back); got.Status != http.StatusForbidden || s.isIn() {
		t.Errorf("after eleven minutes it is answered %d", got.Status)
	}
	s.ahead.Store(0)
	back = s.back("/")
	if got := s.Get(back); got.Status != http.StatusOK || !s.isIn() {
		t.Fatalf("in time it is answered %d", got.Status)
	}
	if got := s.Get(back); got.Status != http.StatusForbidden {
		t.Errorf("the second time it is answered %d", got.Status)
	}
}
