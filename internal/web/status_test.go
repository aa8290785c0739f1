package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/provider"
)

// TestStatusShowsPools checks that the status page lists ready and unready pools.
func TestStatusShowsPools(t *testing.T) {
	got := visitSite(t, true, nil).get("/status")
	for _, want := range []string{"Python alone</th><td>2</td><td>3</td>",
		"Python that plots</th><td colspan=\"2\">the interpreter is starting",
		"<strong>programs start cold</strong>: their interpreter ended while it imported packages: " +
			"ImportError: libopenblas"} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d, without %q", got.status, want)
		}
	}
}

func TestStatusShowsLiveSessions(t *testing.T) {
	const heading = "<dt>Live sessions</dt>"
	got := visitSite(t, true, nil, func(o *Options) {
		o.Live = func() live.Counts { return live.Counts{Interpreters: 5, Busy: 2, Total: 40} }
	}).get("/status")
	if want := heading + "<dd>5 <small>2 of them run code; 40 at most</small>"; got.status != 200 ||
		!strings.Contains(got.body, want) {
		t.Errorf("%d, without %q", got.status, want)
	}
	if got := visitSite(t, true, nil).get("/status"); strings.Contains(got.body, heading) {
		t.Error("a service without live sessions shows them")
	}
}

// TestStatusShowsGrants checks the network grants: an admin sees all keys, other users see their own.
func TestStatusShowsGrants(t *testing.T) {
	v := visitSite(t, false, nil, func(o *Options) { o.Network = []string{"all.example"} })
	admin := engine.Caller{Owner: engine.Local, Admin: true}
	token := func(wanted engine.NewKey) string {
		_, token, err := v.engine.CreateKey(t.Context(), admin, wanted)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	ada := token(engine.NewKey{Owner: "ada", Network: []string{"ada.example", "packages"}})
	bob := token(engine.NewKey{Owner: "bob"})
	boss := token(engine.NewKey{Owner: "boss", Admin: true})
	for _, c := range []struct {
		key       string
		has, none string
	}{
		{ada, "ada.example, packages", "of ada"}, {bob, "all.example", "ada.example"},
		{boss, "of ada</th><td>ada.example, packages", "Your programs"},
	} {
		other := v.another()
		other.signIn(c.key, "/status")
		got := other.get("/status").body
		if !strings.Contains(got, "all.example") || !strings.Contains(got, c.has) || strings.Contains(got, c.none) {
			_, network, _ := strings.Cut(got, `id="network"`)
			t.Errorf("not with %q, or with %q: %s", c.has, c.none, network)
		}
	}
}

func TestCommands(t *testing.T) {
	for text, want := range map[string]string{
		"Run `airlock doctor`, then wait.": "Run <code>airlock doctor</code>, then wait.",
		"<b>`<i>`":                         "&lt;b&gt;<code>&lt;i&gt;</code>",
		"one ` only":                       "one ` only",
		"":                                 "",
	} {
		if got := string(commands(text)); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestCookieNamesNode checks that a visitor's cookie names the node with the sign-in.
func TestCookieNamesNode(t *testing.T) {
	for _, self := range []engine.Epoch{0, engine.NewEpoch()} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		cookie := newSignInStore(time.Now, func() engine.Epoch { return self }).enter("ada", "key")
		r.AddCookie(&http.Cookie{Name: cookieName, Value: cookie})
		if cookieOf(r) != cookie || self != 0 && Holder(r) != self {
			t.Errorf("%d: %q, %q, %d", self, cookie, cookieOf(r), Holder(r))
		}
	}
}

// TestOneMachine checks that on several nodes the page omits features that keep data on one
// machine, and says why.
func TestOneMachine(t *testing.T) {
	r := newReviewer(t)
	r.site.OneMachine = func() string { return "It is kept on one machine." }
	for _, path := range []string{"/review", "/projects", "/outbox", "/projects/p/local"} {
		got := r.get(path)
		if got.status != http.StatusConflict || !strings.Contains(got.body, "It is kept on one machine.") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	r.do("/projects", nil, http.StatusConflict)
	a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
	if got := a.get("/status"); !strings.Contains(got.body, `data-title="Ask"`) {
		t.Error("Ask is not in the navigation")
	}
	a.site.OneMachine = r.site.OneMachine
	if got := a.get("/status"); strings.Contains(got.body, `data-title="Ask"`) {
		t.Error("the navigation leads to Ask")
	}
	if got := a.get("/ask"); got.status != http.StatusConflict {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestNodes checks that operators see the nodes and can drain one.
func TestNodes(t *testing.T) {
	drained := map[string]bool{}
	v := visitSite(t, true, nil, func(o *Options) {
		o.Nodes = func() []engine.Node {
			return []engine.Node{{Name: "n1:8000", Role: engine.RoleAPI, Slots: 4, Load: engine.Load{Running: 3}, Version: "v9",
				Address: "http://n1:8000", Draining: drained["n1:8000"], Silent: 700 * time.Millisecond}}
		}
		o.Drain = func(_ context.Context, name string, drain bool) error { drained[name] = drain; return nil }
	})
	see := func(texts ...string) {
		t.Helper()
		got := v.get("/status")
		for _, want := range append(texts, "http://n1:8000", "3 of 4", "v9", "<td>api</td>", "ms ago") {
			if !strings.Contains(got.body, want) {
				t.Errorf("%q is not there", want)
			}
		}
	}
	see("<td>alive</td>", "Take none")
	token := url.Values{"token": {v.token()}, "node": {"n1:8000"}}
	if got := v.post("/status/drain", token); got.status != http.StatusSeeOther || !drained["n1:8000"] {
		t.Errorf("%d, %v", got.status, drained)
	}
	see("<td>draining</td>", "Take it again")
	token.Set("undo", "1")
	if got := v.post("/status/drain", token); got.status != http.StatusSeeOther || drained["n1:8000"] {
		t.Errorf("%d, %v", got.status, drained)
	}
	token.Del("token")
	if got := v.post("/status/drain", token); got.status != http.StatusForbidden {
		t.Errorf("without a token: %d", got.status)
	}
}
