package e2b

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// Every route of the control plane that names a sandbox tells which node has it.
func TestHolderOfRoutes(t *testing.T) {
	h := &Handler{}
	h.controlRoutes()
	node := engine.NewEpoch()
	id, found := newSandboxID(node), 0
	for _, pattern := range h.patterns {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(path, "/sandboxes/{id}") {
			continue
		}
		found++
		if got := h.Holder(httptest.NewRequest(method, strings.ReplaceAll(path, "{id}", id), nil)); got != node {
			t.Errorf("%s: %d", pattern, got)
		}
	}
	if found < 10 {
		t.Errorf("%d routes", found)
	}
}
