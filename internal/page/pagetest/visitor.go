// Package pagetest has a visitor of the pages, and texts that hurt careless renderers.
package pagetest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Visitor is a user with a browser and no scripts.
type Visitor struct {
	T       *testing.T
	Site    *page.Site
	Engine  *engine.Service
	Index   *enginetest.Index
	url     string
	Browser *http.Client
}

// Visit serves a site over a fake sandbox. If open is set, it admits everyone, as on loopback without
// keys; otherwise visitors must sign in.
func Visit(
	t *testing.T, open bool, program sandboxtest.Program, start func(page.Options, *engine.Service) (*page.Site, error),
) *Visitor {
	t.Helper()
	index := enginetest.NewIndex()
	e := enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(program), enginetest.NewBlobs(), index)
	v := &Visitor{T: t, Engine: e, Index: index}
	site, err := start(page.Options{
		Authenticate: e.Authenticate, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Caller: func(r *http.Request) (engine.Caller, bool) {
			if c, ok := v.Site.SignedIn(r); ok || !open {
				return c, ok
			}
			return engine.Caller{Owner: engine.Local}, true
		},
	}, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = site.Close() })
	v.Site = site
	server := httptest.NewServer(http.StripPrefix("/ui", site))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	v.url, v.Browser = server.URL+"/ui", browser(t)
	return v
}

// browser returns a client that keeps cookies and follows no redirects.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Jar: jar, CheckRedirect: stay}
}

// Another returns a visitor of the same page with a separate browser.
func (v *Visitor) Another() *Visitor {
	other := *v
	other.Browser = browser(v.T)
	return &other
}

// Answer is what the site has answered.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Send sends a request with the visitor's cookies.
func (v *Visitor) Send(r *http.Request) Answer {
	v.T.Helper()
	got, err := v.Browser.Do(r)
	if err != nil {
		v.T.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		v.T.Fatal(err)
	}
	return Answer{got.StatusCode, got.Header, string(body)}
}

// Request returns a request for a path of the site.
func (v *Visitor) Request(method, path string, body io.Reader) *http.Request {
	v.T.Helper()
	r, err := http.NewRequestWithContext(v.T.Context(), method, v.url+path, body)
	if err != nil {
		v.T.Fatal(err)
	}
	return r
}

// Get requests a path of the site.
func (v *Visitor) Get(path string) Answer {
	v.T.Helper()
	return v.Send(v.Request("GET", path, nil))
}

// TokenOf finds the token of a page.
var TokenOf = regexp.MustCompile(`<meta name="airlock-token" content="([^"]+)">`)

// Token returns the token of the visitor's pages.
func (v *Visitor) Token() string {
	v.T.Helper()
	body := v.Get("/").Body
	if !TokenOf.MatchString(body) {
		body = v.Get("/sign-in").Body
	}
	found := TokenOf.FindStringSubmatch(body)
	if found == nil {
		v.T.Fatalf("no token in %.300s", body)
	}
	return found[1]
}

// Post sends a form without files.
func (v *Visitor) Post(path string, fields url.Values) Answer {
	v.T.Helper()
	r := v.Request("POST", path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.Send(r)
}

// KeyFor makes a key.
func (v *Visitor) KeyFor(owner engine.Owner) (engine.Key, string) {
	v.T.Helper()
	key, token, err := v.Engine.CreateKey(v.T.Context(), engine.Caller{Admin: true}, engine.NewKey{Owner: owner})
	if err != nil {
		v.T.Fatal(err)
	}
	return key, token
}

// SignIn sends the sign-in form.
func (v *Visitor) SignIn(key, next string) Answer {
	v.T.Helper()
	return v.Post("/sign-in", url.Values{"token": {v.Token()}, "key": {key}, "next": {next}})
}

// Cookie returns the visitor's cookie, "" without one.
func (v *Visitor) Cookie() string {
	v.T.Helper()
	at, err := url.Parse(v.url + "/")
	if err != nil {
		v.T.Fatal(err)
	}
	for _, c := range v.Browser.Jar.Cookies(at) {
		if c.Name == page.CookieName {
			return c.Value
		}
	}
	return ""
}

// Prints returns a program that prints a text.
func Prints(text string) sandboxtest.Program {
	return func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte(text))
		return sandboxtest.Exit(0), nil
	}
}
