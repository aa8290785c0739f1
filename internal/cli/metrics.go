package cli

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/provider/metrics"
)

// countProviders adds what every process with this data directory has counted of
// providers to the numbers of the service.
func (s *service) countProviders(m *httpd.Metrics) {
	if s.providers != nil {
		m.Registry.MustRegister(metrics.New(s.providers))
	}
}

// countLive adds the interpreters of live sessions.
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
	gauge("interpreters", "Interpreters of live sessions.", func(c live.Counts) int { return c.Interpreters })
	gauge("busy", "Interpreters that run a cell.", func(c live.Counts) int { return c.Busy })
	gauge("limit", "How many interpreters there may be.", func(c live.Counts) int { return c.Total })
	counter("cells", "Cells that were run.", func(c live.Counts) uint64 { return c.Cells })
	counter("lost", "Interpreters that ended in a cell or were killed.", func(c live.Counts) uint64 { return c.Lost })
	counter("evicted", "Interpreters that ended because another needed the room.",
		func(c live.Counts) uint64 { return c.Evicted })
	counter("expired", "Interpreters that ended idle.", func(c live.Counts) uint64 { return c.Expired })
}

// showLive is what the page shows of them.
func showLive(counts func() live.Counts) func() web.Live {
	return func() web.Live {
		c := counts()
		return web.Live{Interpreters: c.Interpreters, Busy: c.Busy, Most: c.Total}
	}
}
