package httpd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

type healthBody struct {
	Status    string         `json:"status"`            // "ok"; "degraded": runs are not accepted; "draining"
	Problem   string         `json:"problem,omitempty"` // why runs are not accepted, and what to do
	Version   string         `json:"version"`
	Isolation *isolationBody `json:"isolation,omitempty"` // absent when the sandbox does not answer
}

type isolationBody struct {
	Wall    engine.Wall `json:"wall,omitempty"`
	Backend string      `json:"backend"`
	Strict  bool        `json:"strict"`
	Summary string      `json:"summary"`
	Layers  []layerBody `json:"layers"`
}

type layerBody struct {
	Name   string            `json:"name"`
	State  engine.LayerState `json:"state"`
	Detail string            `json:"detail"`
	Cure   string            `json:"cure,omitempty"`
}

// health answers 200 as long as the process can answer at all: a restart would cure none of
// the problems that it reports.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	setRoute(w, "", r.URL.Path)
	body := healthBody{Status: "ok", Version: s.opts.Version}
	if err := s.opts.Engine.Ready(r.Context()); err != nil {
		body.Status, body.Problem = "degraded", problem(err)
	}
	if s.draining.Load() {
		body.Status = "draining"
	}
	if isolation, err := s.opts.Engine.Isolation(r.Context()); err == nil {
		body.Isolation = &isolationBody{
			Wall: isolation.Wall, Backend: isolation.Backend, Strict: isolation.Strict, Summary: isolation.Summary,
			Layers: []layerBody{},
		}
		for _, l := range isolation.Layers {
			body.Isolation.Layers = append(body.Isolation.Layers, layerBody(l))
		}
	}
	writeJSON(w, http.StatusOK, body)
}

// problem returns the public part of the reason why runs are not accepted.
func problem(err error) string {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Hint != "" {
		return "Runs are not accepted at the moment. " + e.Hint
	}
	return "Runs are not accepted at the moment."
}

// ready answers 503 while new runs would be refused.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	setRoute(w, "", r.URL.Path)
	if s.draining.Load() {
		w.Header().Set("Retry-After", "5")
		refuse(w, r, http.StatusServiceUnavailable, "unavailable", "the service is shutting down")
		return
	}
	if err := s.opts.Engine.Ready(r.Context()); err != nil {
		s.opts.Log.Debug("not ready", "err", err)
		w.Header().Set("Retry-After", "5")
		code := "unavailable"
		if engine.KindOf(err) == engine.ErrFull {
			code = "full"
		}
		refuse(w, r, http.StatusServiceUnavailable, code, problem(err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) metrics() http.Handler {
	scrape := s.opts.Metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setRoute(w, "", r.URL.Path)
		scrape.ServeHTTP(w, r)
	})
}

// scraper serves metrics to callers with the metrics token; all others need a key.
func (s *Server) scraper(metrics, keyed http.Handler) http.Handler {
	if s.opts.MetricsToken == "" {
		return keyed
	}
	want := sha256.Sum256([]byte(s.opts.MetricsToken))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, err := tokens(r.Header)
		if err == nil && len(shown) == 1 {
			if got := sha256.Sum256([]byte(shown[0])); subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
				caller := engine.Caller{Owner: engine.Local} // Metrics accepts it; it is for this route only
				metrics.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
				return
			}
		}
		keyed.ServeHTTP(w, r)
	})
}
