package cli

import (
	"net/http"
	"testing"

	"github.com/airlock-run/airlock/internal/httpd"
)

// What is about folders, projects and conversations asks callers of a trusted
// network for a key.
func TestNoTrustInNetworks(t *testing.T) {
	api := httpd.Mount{Prefix: "/api/v1", Handler: http.NotFoundHandler(), Trusted: true}
	want := map[string]bool{"/api/v1/replies": true, "/api/v1/proposals": true, "/api/v1/projects": true, "/api/v1/outbox": true, "/api/v1/conversations": true}
	for _, m := range projectMounts(api) {
		if m.Trusted || len(m.Open) > 0 {
			t.Errorf("%s is open to trusted networks", m.Prefix)
		}
		delete(want, m.Prefix)
	}
	for prefix := range want {
		t.Errorf("%s is a part of the API that networks are trusted for", prefix)
	}
}
