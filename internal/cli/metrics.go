package cli

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/live"
)

// countLive adds the metrics of live interpreters.
func countLive(m *httpd.Metrics, counts func() live.Counts) {
	gauge := func(name, help string, of func(live.Counts) int) {
		m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "airlock_live_" + name, Help: help},
			func() float64 { return float64(of(counts())) }))
	}
	counter := func(name, help string, of func(live.Counts) uint64) {
		m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "airlock_live_" + name + "_total", Help: help},
			func() float64 { return float64(of(counts())) }))
	}
	seconds := func(name, help string, of func(live.Counts) time.Duration) {
		m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "airlock_live_" + name + "_seconds_total", Help: help},
			func() float64 { return of(counts()).Seconds() }))
	}
	seconds("computing", "For how long cells ran.", func(c live.Counts) time.Duration { return c.Computed })
	seconds("alive", "For how long interpreters were alive, computing or idle.",
		func(c live.Counts) time.Duration { return c.Lived })
	gauge("interpreters", "Interpreters of live sessions.", func(c live.Counts) int { return c.Interpreters })
	gauge("busy", "Interpreters that run a cell.", func(c live.Counts) int { return c.Busy })
	gauge("limit", "How many interpreters there may be.", func(c live.Counts) int { return c.Total })
	counter("cells", "Cells that were run.", func(c live.Counts) uint64 { return c.Cells })
	counter("lost", "Interpreters that ended in a cell or were killed.", func(c live.Counts) uint64 { return c.Lost })
	counter("evicted", "Interpreters that ended because another needed the room.",
		func(c live.Counts) uint64 { return c.Evicted })
	counter("expired", "Interpreters that ended idle.", func(c live.Counts) uint64 { return c.Expired })
}

// nodeMetrics are the members of the cluster, as this service sees them.
type nodeMetrics func() []engine.Node

func nodeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("airlock_"+name, help, labels, nil)
}

var (
	descNodes   = nodeDesc("nodes", "Nodes of the cluster as this one sees them, by role and state.", "role", "state")
	descSlots   = nodeDesc("node_slots", "Programs that a node runs at once.", "node")
	descRunning = nodeDesc("node_runs_running", "Programs that a node runs.", "node")
	descQueued  = nodeDesc("node_runs_queued", "Programs that wait at a node.", "node")
	descHeld    = nodeDesc("node_held", "Workspaces and interpreters that stay at a node.", "node")
	descDisk    = nodeDesc("node_disk_free_bytes", "Room on the disk of a node's data directory.", "node")
	descMemory  = nodeDesc("node_memory_available_bytes", "Memory of a node's machine that new programs could have.",
		"node")
	descSilent = nodeDesc("node_silent_seconds", "Time since a node was last heard.", "node")
)

// Describe implements prometheus.Collector.
func (nodeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descNodes, descSlots, descRunning, descQueued, descHeld, descDisk, descMemory,
		descSilent} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m nodeMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counts, seen := map[[2]string]int{}, map[string]bool{}
	for _, n := range m() {
		counts[[2]string{string(n.Role), n.State()}]++
		if seen[n.Name] || n.Dead { // one incarnation of a name
			continue
		}
		seen[n.Name] = true
		gauge(descSlots, float64(n.Slots), n.Name)
		gauge(descRunning, float64(n.Load.Running), n.Name)
		gauge(descQueued, float64(n.Load.Queued), n.Name)
		gauge(descHeld, float64(n.Load.Held), n.Name)
		gauge(descSilent, n.Silent.Seconds(), n.Name)
		if n.Load.DiskFree > 0 { // it is known
			gauge(descDisk, float64(n.Load.DiskFree), n.Name)
		}
		if n.Load.MemoryFree > 0 {
			gauge(descMemory, float64(n.Load.MemoryFree), n.Name)
		}
	}
	for of, n := range counts {
		gauge(descNodes, float64(n), of[0], of[1])
	}
}
