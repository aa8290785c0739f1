package onyx

import (
	"context"
	_ "embed"
	"errors"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// healthBody says how the service is and what really keeps a program in.
type healthBody struct {
	Status    string  `json:"status"` // "ok" or "error"
	Message   *string `json:"message"`
	Version   string  `json:"version"`
	Backend   *string `json:"executor_backend"`  // "linux"; null while the sandbox does not answer
	Isolation *string `json:"network_isolation"` // "network_namespace"; null where there is none
}

func (a *api) state(ctx context.Context) healthBody {
	body := healthBody{Status: "ok", Version: Version}
	if err := a.engine.Ready(ctx); err != nil {
		body.Status = "error"
		message := "The sandbox is not available. Run airlock doctor on the host."
		if e, ok := errors.AsType[*engine.Error](err); ok && e.Hint != "" {
			message = e.Hint
		}
		body.Message = &message
	}
	isolation, err := a.engine.Isolation(ctx)
	if err != nil {
		return body
	}
	body.Backend = &isolation.Backend
	for _, layer := range isolation.Layers {
		if layer.Name == "network" && layer.State == engine.LayerEnforced {
			own := "network_namespace"
			body.Isolation = &own
		}
	}
	return body
}

// health answers 200 for as long as the process can answer at all.
func (a *api) health(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, a.state(r.Context()))
	return nil
}

// ready answers 503 while runs would be refused.
func (a *api) ready(w http.ResponseWriter, r *http.Request) error {
	body, status := a.state(r.Context()), http.StatusOK
	if body.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
	return nil
}

func (a *api) metrics(w http.ResponseWriter, r *http.Request) error {
	a.Metrics.ServeHTTP(w, r)
	return nil
}

//go:embed openapi.json
var openAPI []byte

//go:embed docs.html
var docs []byte

func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
	return nil
}

func (a *api) docs(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(docs)
	return nil
}
