package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// A run's page lists its network contacts, and its form grants no more than is allowed.
func TestNetworkOnPage(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"))
	path := v.runs()
	run, err := engine.ParseID(strings.TrimPrefix(path, "/runs/"))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Index.AddContacts(t.Context(), []engine.Contact{
		{Owner: engine.Local, Run: run, Host: "api.example.com", Port: 443, Sent: 1000, Received: 2000,
			Verdict: engine.VerdictAllowed},
		{Owner: engine.Local, Run: run, Host: "<b>evil", Port: 80, Verdict: engine.VerdictRefused, Reason: "<i>no</i>",
			More: 4},
	}); err != nil {
		t.Fatal(err)
	}
	page := v.Get(path).Body
	for _, want := range []string{"api.example.com:443", "allowed, ", "&lt;b&gt;evil:80", "refused: &lt;i&gt;no",
		"and 4 others",
		`name="network"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	status := v.Get("/status").Body
	for _, want := range []string{"api.example.com:443", "<td>allowed</td>", "&lt;b&gt;evil:80 and 4 more",
		"&lt;i&gt;no"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status page lacks %q", want)
		}
	}
	got := v.form(v.Token(), [2]string{"language", "python"}, [2]string{"code", "1"},
		[2]string{"network", "api.example.com, packages"})
	if got.Status != http.StatusForbidden || !strings.Contains(got.Body, "The network: programs of this") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
