package librechat

import "net/http"

type healthBody struct {
	Status    string `json:"status"`
	Version   string `json:"version"`
	Isolation string `json:"isolation,omitempty"`
	Error     string `json:"error,omitempty"`
}

// health says that somebody is there, and so it does while the service drains:
// who wants to know whether it takes work asks for ready.
func (a *api) health(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, healthBody{Status: "healthy", Version: a.Version})
	return nil
}

func (a *api) healthDetailed(w http.ResponseWriter, r *http.Request) error {
	body := healthBody{Status: "healthy", Version: a.Version}
	if isolation, err := a.engine.Isolation(r.Context()); err == nil {
		body.Isolation = isolation.Summary
	}
	if a.engine.Ready(r.Context()) != nil {
		body.Status, body.Error = "degraded", "the service takes no programs at the moment"
	}
	writeJSON(w, http.StatusOK, body)
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
