package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/wire"
)

// Over TLS the page's cookie has the prefix that binds it to this host, and no other is taken.
func TestCookieOverTLS(t *testing.T) {
	v := visitSite(t, false, prints("x"))
	_, key := v.keyFor("ada")
	ask := func(method, path, cookie, body string) answer {
		t.Helper()
		r := v.another().request(method, path, strings.NewReader(body))
		r.Header.Set("X-Forwarded-Proto", "https") // a proxy in front
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		return v.another().send(r)
	}
	pair := func(a answer) string {
		t.Helper()
		set := a.header.Get("Set-Cookie")
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
	form := url.Values{"token": {tokenOf.FindStringSubmatch(page.body)[1]}, "key": {key}, "next": {"/"}}
	in := pair(ask("POST", "/sign-in", pair(page), form.Encode()))
	if got := ask("GET", "/", in, ""); got.status != http.StatusOK || !strings.Contains(got.body, ">ada<") {
		t.Errorf("signed in, the page is %d", got.status)
	}
	planted := strings.Replace(in, wire.HostCookie, cookieName, 1)
	if got := ask("GET", "/", planted, ""); got.status != http.StatusSeeOther {
		t.Errorf("a cookie that another host can plant opens the page: %d", got.status)
	}
}
