package browser

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/airlock-run/airlock/internal/oidc/oidctest"
)

// freeAddress returns an address of the loopback on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestSingleSignOn goes in with an identity provider, as a user and as an operator, and out; and not at all when the
// provider or the operator says so.
func TestSingleSignOn(t *testing.T) {
	at := freeAddress(t)
	provider := oidctest.Start(t, "http://"+at+"/ui/sign-in/return")
	s := &service{t: t, log: t.Output(), data: dataFolder(t), args: []string{"--public-url", "http://" + at,
		"--oidc-issuer", provider.URL, "--oidc-client-id", oidctest.ClientID, "--oidc-groups", "staff",
		"--oidc-admin-groups", "operators", "--oidc-scopes", "openid,profile,email,offline_access"},
		env: []string{"AIRLOCK_OIDC_CLIENT_SECRET=" + oidctest.ClientSecret}}
	t.Cleanup(func() { os.RemoveAll(s.data) })
	t.Cleanup(s.stop)
	s.start(at)
	inEachSize(t, func(t *testing.T, how look) { signInElsewhere(t, s, provider, how) })
}

func signInElsewhere(t *testing.T, s *service, provider *oidctest.Provider, how look) {
	t.Helper()
	b := open(t, how)
	enter := func(path string) {
		t.Helper()
		b.goTo(s.url + path) // without a key, although it is the loopback
		b.wait(`document.querySelector('a[href*="/sign-in/provider"]')`)
		b.click(`a[href*="/sign-in/provider"]`)
		b.wait(`document.querySelector('#enter') || document.querySelector('.owner')`)
		if eval[bool](b, `!!document.querySelector('#enter')`) {
			b.do(chromedp.SendKeys(chromedp.CSS("#username"), oidctest.Ada),
				chromedp.SendKeys(chromedp.CSS("#password"), oidctest.Password+"\r"))
		}
	}
	provider.SetGroups("others")
	enter("/runs?q=x")
	b.wait(`document.querySelector('[role=alert]')`)
	if got := b.text("[role=alert]"); !strings.Contains(got, "in no group that may sign in") {
		t.Errorf("who is in no group reads %q", got)
	}
	b.show("sign-on-refused")
	provider.SetGroups("staff")
	enter("/runs?q=x")
	b.wait(`location.pathname === '/ui/runs' && location.search === '?q=x' && document.querySelector('.owner')`)
	if got := eval[string](b, `document.querySelector('.owner').textContent`); got != "Test User2" {
		t.Errorf("the visitor is %q", got)
	}
	b.goTo(s.url + "/")
	b.runs("print('signed in')")
	if eval[bool](b, `!!document.querySelector('nav a[href$="/ask"]')`) {
		t.Error("a user has the page of operators")
	}
	b.click(".site-menu > summary")
	b.click(".visitor button")
	b.wait(`document.querySelector('#key')`)
	b.show("sign-on")
	b.goTo(s.url + "/sign-in/return?code=x&state=x") // an old answer, or somebody else's
	b.wait(`document.querySelector('[role=alert]')`)
	provider.SetGroups("operators")
	enter("/")
	// The page after the return names the visitor too, and then leads on.
	b.wait(`location.pathname === '/ui/' && document.querySelector('.owner') && document.readyState === 'complete'`)
	if !eval[bool](b, `!!document.querySelector('nav a[href$="/ask"]')`) {
		t.Error("an operator has no page of operators")
	}
	b.click(".site-menu > summary")
	b.click(".visitor button")
	b.wait(`document.querySelector('#key')`)
}
