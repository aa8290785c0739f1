package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/airlock-run/airlock/internal/engine"
)

// Members are counted by role and state, and told by name, also while two lives of one
// are in the table.
func TestNodeMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(nodeMetrics(func() []engine.Node {
		return []engine.Node{
			{Name: "a", Role: engine.RoleAPI, Load: engine.Load{Queued: 3}},
			{Name: "w", Role: engine.RoleWorker, Slots: 4, Load: engine.Load{Running: 2, Held: 1, DiskFree: 5, MemoryFree: 6},
				Silent: time.Second},
			{Name: "w", Role: engine.RoleWorker, Dead: true}, {Name: "w", Role: engine.RoleWorker, Silent: time.Hour},
		}
	}))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, want := range []string{
		`airlock_node_runs_running{node="a"} 0`, `airlock_node_runs_running{node="w"} 2`,
		`airlock_node_runs_queued{node="a"} 3`, `airlock_node_held{node="w"} 1`, `airlock_node_slots{node="w"} 4`,
		`airlock_node_silent_seconds{node="w"} 1`, `airlock_node_disk_free_bytes{node="w"} 5`,
		`airlock_node_memory_available_bytes{node="w"} 6`, `airlock_nodes{role="api",state="alive"} 1`,
		`airlock_nodes{role="worker",state="alive"} 1`, `airlock_nodes{role="worker",state="dead"} 1`,
		`airlock_nodes{role="worker",state="silent"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("%s is not in %s", want, w.Body)
		}
	}
}
