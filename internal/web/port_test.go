package web

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/wire"
)

// TestPortTicket opens a port of a session as a browser does, without cookies for
// subresources. It then tries invalid tickets.
func TestPortTicket(t *testing.T) {
	now := time.Now()
	asked := ""
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI() + " " + wire.PortPrefix(r.Context())
		_, _ = io.WriteString(w, "served")
	})
	v := visitSite(t, false, pagetest.Prints("x"), func(o *Options) {
		o.API, o.Site.Now = api,
			func() time.Time { return now }
	})
	session, err := v.Engine.CreateSession(t.Context(), engine.Caller{Owner: "ada"}, engine.SessionRequest{
		Origin: engine.OriginNative, Kind: engine.SessionLive, Live: `{"language":"python"}`})
	if err != nil {
		t.Fatal(err)
	}
	link := "/sessions/" + session.ID.String() + "/ports/8000"
	if got := v.Get(link); strings.Contains(got.Header.Get("Location"), page.PortPath) {
		t.Errorf("a stranger gets %v", got.Header)
	}
	_, eve := v.KeyFor("eve")
	other := v.another()
	other.SignIn(eve, "/")
	if got := other.Get(link); got.Status != http.StatusNotFound {
		t.Errorf("another owner gets %d, %v", got.Status, got.Header)
	}
	key, token := v.KeyFor("ada")
	v.SignIn(token, "/")
	for _, bad := range []string{"0", "65536", "-1", "x"} {
		if got := v.Get("/sessions/" + session.ID.String() + "/ports/" + bad); got.Status != http.StatusNotFound {
			t.Errorf("port %s: %d", bad, got.Status)
		}
	}
	at := strings.TrimPrefix(v.Get(link).Header.Get("Location"), "/ui")
	ticket := strings.TrimSuffix(strings.TrimPrefix(at, page.PortPath), "/")
	if ticket == "" || at != page.PortPath+ticket+"/" {
		t.Fatalf("the port is at %q", at)
	}
	nobody := v.another() // has no cookie
	open := func(path string) pagetest.Answer { asked = ""; return nobody.Get(path) }
	inside := "/sessions/" + session.ID.String() + "/ports/8000"
	for _, c := range [][2]string{{"", "/"}, {"a/b?c=d", "/a/b?c=d"}, {"a%2Fb", "/a%2Fb"}} {
		got := open(at + c[0])
		if want := "GET " + inside + c[1] + " /ui" + strings.TrimSuffix(at, "/"); got.Body != "served" || asked != want {
			t.Errorf("%q is answered %d and asks %q, want %q", c[0], got.Status, asked, want)
		}
		for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy"} {
			if value := got.Header.Get(name); value != "" { // the API's own count
				t.Errorf("%s: %s", name, value)
			}
		}
	}
	refused := func(what, path string) {
		t.Helper()
		if got := open(path); got.Body == "served" || asked != "" {
			t.Errorf("%s: %d, asks %q", what, got.Status, asked)
		}
	}
	for i := range ticket {
		c := byte('A')
		if ticket[i] == c {
			c = 'B'
		}
		changed := ticket[:i] + string(c) + ticket[i+1:]
		if i == len(ticket)-1 { // some of its bits do not count
			changed = ticket[:i]
		}
		refused(fmt.Sprint("changed at ", i), page.PortPath+changed+"/")
	}
	for _, elsewhere := range []string{"../../api/sessions", "../../files", "%2e%2e/%2e%2e/api/sessions"} {
		refused(elsewhere, at+elsewhere)
	}
	refused("a token of forms", page.PortPath+v.Token()+"/")
	for _, path := range []string{"/", "/files", "/runs"} {
		if got := nobody.Get(path); got.Status == http.StatusOK && strings.Contains(got.Body, "Sign out") {
			t.Errorf("a ticket signs in at %s", path)
		}
	}
	now = now.Add(page.SignInTime - time.Hour)
	v.Get("/") // a use of the sign-in extends it
	if open(at).Body != "served" {
		t.Error("it ends before its time")
	}
	now = now.Add(2 * time.Hour)
	refused("after its time", at)

	at = strings.TrimPrefix(v.Get(link).Header.Get("Location"), "/ui")
	if open(at).Body != "served" {
		t.Error("a new one is not good")
	}
	if err := v.Engine.RevokeKey(t.Context(), engine.Caller{Admin: true}, key.ID); err != nil {
		t.Fatal(err)
	}
	refused("after the key was revoked", at)

	_, token = v.KeyFor("ada")
	v.SignIn(token, "/")
	at = strings.TrimPrefix(v.Get(link).Header.Get("Location"), "/ui")
	if open(at).Body != "served" {
		t.Error("one of another key is not good")
	}
	v.Post("/sign-out", url.Values{"token": {v.Token()}})
	refused("after signing out", at)
}
