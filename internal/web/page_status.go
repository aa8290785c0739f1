package web

import (
	"context"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// Health is what the status page asks of the core.
type Health interface {
	// Ready returns nil when runs are accepted.
	Ready(ctx context.Context) error
	// Isolation says what stands between a program and this host.
	Isolation(ctx context.Context) (engine.Isolation, error)
	// Stats returns the counters of the moment.
	Stats() engine.Stats
}

// Disk is the room where the service keeps its data, in bytes.
type Disk struct{ Free, Total int64 }

// statusView is what the status page shows.
type statusView struct {
	Problem   string // why no runs are accepted; empty if they are
	Stats     engine.Stats
	Isolation engine.Isolation
	Disk      *Disk
}

func (s *Site) statusPage(health Health) {
	s.nav = append(s.nav, navEntry{"status", "Status", "/status"})
	s.mux.HandleFunc("GET /status", s.handle(func(w http.ResponseWriter, v *visit) error {
		body := statusView{Stats: health.Stats()}
		if err := health.Ready(v.Context()); err != nil {
			p := describe(err)
			body.Problem = p.Message + " " + p.Cure
		} else if body.Isolation, err = health.Isolation(v.Context()); err != nil {
			return err
		}
		if s.Disk != nil {
			disk := s.Disk()
			body.Disk = &disk
		}
		s.render(w, v, http.StatusOK, "status", "Status", body)
		return nil
	}))
}
