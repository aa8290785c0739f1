package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/wire"
)

// Over TLS the page's cookie has the prefix that binds it to this host, and no other is taken.
func TestCookieOverTLS(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("x"))
	_, key := v.KeyFor("ada")
	ask := func(method, path, cookie, body string) pagetest.Answer {
		t.Helper()
		r := v.another().Request(method, path, strings.NewReader(body))
		r.Header.Set("X-Forwarded-Proto", "https") // a proxy in front
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		return v.another().Send(r)
	}
	pair := func(a pagetest.Answer) string {
		t.Helper()
		set := a.Header.Get("Set-Cookie")
		for _, want := range []string{wire.HostCookie + "=", "; Path=/;", "HttpOnly", "; Secure", "SameSite=Strict"} {
			if !strings.Contains(set, want) {
				t.Errorf("the cookie lacks %s: %s", want, set)
			}
		}
		if strings.Contains(set, "Domain") {
			t.Errorf("the cookie has a domain: %s", set)
		}
		first, _, _ := strings.Cut(set, ";")
		return first
	}
	page := ask("GET", "/sign-in", "", "")
	form := url.Values{"token": {pagetest.TokenOf.FindStringSubmatch(page.Body)[1]}, "key": {key}, "next": {"/"}}
	in := pair(ask("POST", "/sign-in", pair(page), form.Encode()))
	if got := ask("GET", "/", in, ""); got.Status != http.StatusOK || !strings.Contains(got.Body, ">ada<") {
		t.Errorf("signed in, the page is %d", got.Status)
	}
	planted := strings.Replace(in, wire.HostCookie, "airlock", 1)
	if got := ask("GET", "/", planted, ""); got.Status != http.StatusSeeOther {
		t.Errorf("a cookie that another host can plant opens the page: %d", got.Status)
	}
}
