package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// TestStatusShowsPools checks that the status page lists ready and unready pools.
func TestStatusShowsPools(t *testing.T) {
	got := visitSite(t, true, nil).Get("/status")
	for _, want := range []string{"Python alone</th><td>2</td><td>3</td>",
		"Python that plots</th><td colspan=\"2\">starting; until it is ready",
		"<strong>programs start cold</strong>: their interpreter ended while it imported packages: " +
			"ImportError: libopenblas"} {
		if got.Status != 200 || !strings.Contains(got.Body, want) {
			t.Errorf("%d, without %q", got.Status, want)
		}
	}
}

func TestStatusShowsLiveSessions(t *testing.T) {
	const heading = "<dt>Live sessions</dt>"
	got := visitSite(t, true, nil, func(o *Options) {
		o.Live = func() live.Counts { return live.Counts{Interpreters: 5, Busy: 2, Total: 40} }
	}).Get("/status")
	if want := heading + "<dd>5 <small>2 run code now; there is room for 40</small>"; got.Status != 200 ||
		!strings.Contains(got.Body, want) {
		t.Errorf("%d, without %q", got.Status, want)
	}
	if got := visitSite(t, true, nil).Get("/status"); strings.Contains(got.Body, heading) {
		t.Error("a service without live sessions shows them")
	}
}

// TestStatusShowsGrants checks the network grants: an admin sees all keys, other users see their own.
func TestStatusShowsGrants(t *testing.T) {
	v := visitSite(t, false, nil, func(o *Options) { o.Network = []string{"all.example"} })
	admin := engine.Caller{Owner: engine.Local, Admin: true}
	token := func(wanted engine.NewKey) string {
		_, token, err := v.Engine.CreateKey(t.Context(), admin, wanted)
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
		other.SignIn(c.key, "/status")
		got := other.Get("/status").Body
		if !strings.Contains(got, "all.example") || !strings.Contains(got, c.has) || strings.Contains(got, c.none) {
			_, network, _ := strings.Cut(got, `id="network"`)
			t.Errorf("not with %q, or with %q: %s", c.has, c.none, network)
		}
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
		got := v.Get("/status")
		for _, want := range append(texts, "http://n1:8000", "3 of 4", "v9", "<td>api</td>", "ms ago") {
			if !strings.Contains(got.Body, want) {
				t.Errorf("%q is not there", want)
			}
		}
	}
	see("<td>alive</td>", "Give it no new work")
	token := url.Values{"token": {v.Token()}, "node": {"n1:8000"}}
	if got := v.Post("/status/drain", token); got.Status != http.StatusSeeOther || !drained["n1:8000"] {
		t.Errorf("%d, %v", got.Status, drained)
	}
	see("<td>draining</td>", "Give it new work")
	token.Set("undo", "1")
	if got := v.Post("/status/drain", token); got.Status != http.StatusSeeOther || drained["n1:8000"] {
		t.Errorf("%d, %v", got.Status, drained)
	}
	token.Del("token")
	if got := v.Post("/status/drain", token); got.Status != http.StatusForbidden {
		t.Errorf("without a token: %d", got.Status)
	}
}
