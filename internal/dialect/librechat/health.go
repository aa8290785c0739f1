package librechat

import "net/http"

type healthBody struct {
	Status    string `json:"status"`
	Version   string `json:"version"`
	Isolation string `json:"isolation,omitempty"`
	Error     string `json:"error,omitempty"`
}

const healthy = "healthy"

// health answers that the service is alive, also while it drains: ready reports whether it accepts
// work.
func (a *api) health(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, healthBody{Status: healthy, Version: a.Version})
	return nil
}

// detailedBody is health with its parts.
type detailedBody struct {
	healthBody
	Services map[string]serviceBody `json:"services"`
	Summary  summaryBody            `json:"summary"`
}

type serviceBody struct {
	Status string `json:"status"`
}

type summaryBody struct {
	Total     int `json:"total"`
	Healthy   int `json:"healthy"`
	Unhealthy int `json:"unhealthy"`
}

func (a *api) healthDetailed(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.caller(r); err != nil {
		return err
	}
	body := detailedBody{healthBody: healthBody{Status: healthy, Version: a.Version}, Services: map[string]serviceBody{}}
	isolation, err := a.engine.Isolation(r.Context())
	if err == nil {
		body.Isolation = isolation.Summary
	}
	for name, well := range map[string]bool{"api": true, "execution": err == nil && a.engine.Ready(r.Context()) == nil} {
		body.Summary.Total++
		if well {
			body.Services[name] = serviceBody{healthy}
			body.Summary.Healthy++
			continue
		}
		body.Services[name] = serviceBody{"unhealthy"}
		body.Summary.Unhealthy++
	}
	status := http.StatusOK
	if body.Summary.Unhealthy > 0 {
		status, body.Status, body.Error = http.StatusServiceUnavailable, "degraded",
			"the service takes no programs at the moment"
	}
	writeJSON(w, status, body)
	return nil
}

// metrics answers with the metrics of the whole service.
func (a *api) metrics(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.caller(r); err != nil {
		return err
	}
	if a.Metrics == nil {
		return refuse(http.StatusNotFound, "Not found")
	}
	a.Metrics.ServeHTTP(w, r)
	return nil
}

func (a *api) ready(w http.ResponseWriter, r *http.Request) error {
	status, body := http.StatusOK, healthBody{Status: "ready", Version: a.Version}
	if a.engine.Ready(r.Context()) != nil {
		status, body.Status = http.StatusServiceUnavailable, "unavailable"
	}
	writeJSON(w, status, body)
	return nil
}
