package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
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
	v := visitSite(t, false, prints("x"), func(o *Options) { o.API, o.Now = api, func() time.Time { return now } })
	session, err := v.engine.CreateSession(t.Context(), engine.Caller{Owner: "ada"}, engine.SessionRequest{
		Origin: engine.OriginNative, Kind: engine.SessionLive, Live: `{"language":"python"}`})
	if err != nil {
		t.Fatal(err)
	}
	link := "/sessions/" + session.ID.String() + "/ports/8000"
	if got := v.get(link); strings.Contains(got.header.Get("Location"), portPath) {
		t.Errorf("a stranger gets %v", got.header)
	}
	_, eve := v.keyFor("eve")
	other := v.another()
	other.signIn(eve, "/")
	if got := other.get(link); got.status != http.StatusNotFound {
		t.Errorf("another owner gets %d, %v", got.status, got.header)
	}
	key, token := v.keyFor("ada")
	v.signIn(token, "/")
	for _, bad := range []string{"0", "65536", "-1", "x"} {
		if got := v.get("/sessions/" + session.ID.String() + "/ports/" + bad); got.status != http.StatusNotFound {
			t.Errorf("port %s: %d", bad, got.status)
		}
	}
	at := strings.TrimPrefix(v.get(link).header.Get("Location"), "/ui")
	ticket := ticketOf(at)
	if ticket == "" || at != portPath+ticket+"/" {
		t.Fatalf("the port is at %q", at)
	}
	nobody := v.another() // has no cookie
	open := func(path string) answer { asked = ""; return nobody.get(path) }
	inside := "/sessions/" + session.ID.String() + "/ports/8000"
	for _, c := range [][2]string{{"", "/"}, {"a/b?c=d", "/a/b?c=d"}, {"a%2Fb", "/a%2Fb"}} {
		got := open(at + c[0])
		if want := "GET " + inside + c[1] + " /ui" + strings.TrimSuffix(at, "/"); got.body != "served" || asked != want {
			t.Errorf("%q is answered %d and asks %q, want %q", c[0], got.status, asked, want)
		}
		for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy"} {
			if value := got.header.Get(name); value != "" { // the API's own count
				t.Errorf("%s: %s", name, value)
			}
		}
	}
	refused := func(what, path string) {
		t.Helper()
		if got := open(path); got.body == "served" || asked != "" {
			t.Errorf("%s: %d, asks %q", what, got.status, asked)
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
		refused(fmt.Sprint("changed at ", i), portPath+changed+"/")
	}
	for _, elsewhere := range []string{"../../api/sessions", "../../files", "%2e%2e/%2e%2e/api/sessions"} {
		refused(elsewhere, at+elsewhere)
	}
	refused("a token of forms", portPath+v.token()+"/")
	for _, path := range []string{"/", "/files", "/runs"} {
		if got := nobody.get(path); got.status == http.StatusOK && strings.Contains(got.body, "Sign out") {
			t.Errorf("a ticket signs in at %s", path)
		}
	}
	now = now.Add(signInTime - time.Hour)
	v.get("/") // a use of the sign-in extends it
	if open(at).body != "served" {
		t.Error("it ends before its time")
	}
	now = now.Add(2 * time.Hour)
	refused("after its time", at)

	at = strings.TrimPrefix(v.get(link).header.Get("Location"), "/ui")
	if open(at).body != "served" {
		t.Error("a new one is not good")
	}
	if err := v.engine.RevokeKey(t.Context(), engine.Caller{Admin: true}, key.ID); err != nil {
		t.Fatal(err)
	}
	refused("after the key was revoked", at)

	_, token = v.keyFor("ada")
	v.signIn(token, "/")
	at = strings.TrimPrefix(v.get(link).header.Get("Location"), "/ui")
	if open(at).body != "served" {
		t.Error("one of another key is not good")
	}
	v.site.signIns.leave(v.cookie())
	refused("after signing out", at)
}
