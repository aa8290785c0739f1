package cli

import (
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/provider/metrics"
)

// metrics is the registry of a service: its own numbers, and what every process
// with this data directory has counted of providers.
func (s *service) metrics() *httpd.Metrics {
	m := httpd.NewMetrics(s.engine)
	if s.providers != nil {
		m.Registry.MustRegister(metrics.New(s.providers))
	}
	return m
}
