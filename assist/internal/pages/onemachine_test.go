package pages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
)

// TestOneMachine checks that on several nodes the page omits features that keep data on one
// machine, and says why.
func TestOneMachine(t *testing.T) {
	r := newReviewer(t)
	r.Site.OneMachine = func() string { return "It is kept on one machine." }
	for _, path := range []string{"/review", "/projects", "/outbox", "/projects/p/local"} {
		got := r.Get(path)
		if got.Status != http.StatusConflict || !strings.Contains(got.Body, "It is kept on one machine.") {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	r.do("/projects", nil, http.StatusConflict)
	a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
	if got := a.Get("/status"); !strings.Contains(got.Body, `data-title="Ask"`) {
		t.Error("Ask is not in the navigation")
	}
	a.Site.OneMachine = r.Site.OneMachine
	if got := a.Get("/status"); strings.Contains(got.Body, `data-title="Ask"`) {
		t.Error("the navigation leads to Ask")
	}
	if got := a.Get("/ask"); got.Status != http.StatusConflict {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
