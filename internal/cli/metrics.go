package cli

import (
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/provider/metrics"
)

// countProviders adds what every process with this data directory has counted of
// providers to the numbers of the service.
func (s *service) countProviders(m *httpd.Metrics) {
	if s.providers != nil {
		m.Registry.MustRegister(metrics.New(s.providers))
	}
}
