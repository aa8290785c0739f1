package live

import (
	"context"
	"iter"

	"github.com/airlock-run/airlock/internal/engine"
)

// Engine is what the room asks of the core.
type Engine interface {
	// CreateSession makes a session with files in it.
	CreateSession(ctx context.Context, caller engine.Caller, req engine.SessionRequest) (engine.Session, error)
	// CheckNetwork refuses what a caller's programs may not contact.
	CheckNetwork(ctx context.Context, caller engine.Caller, asked *engine.Network) error
	// GetSession returns a session that has not expired.
	GetSession(ctx context.Context, caller engine.Caller, id engine.ID) (engine.Session, error)
	// Claim makes this node the one that leads a session, unless another one does.
	Claim(ctx context.Context, session engine.Session) (engine.Session, error)
	// DeleteSession deletes a session with all that runs in it.
	DeleteSession(ctx context.Context, caller engine.Caller, id engine.ID) error
	// SaveSession stores what changed in a live session's workspace.
	SaveSession(ctx context.Context, session engine.Session, limits engine.Limits) (*engine.Saved, error)
	// Vacate gives the workspace of a session without interpreter back.
	Vacate(ctx context.Context, session engine.Session) error
	// Start begins an interpreter.
	Start(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	// Watch gives the events of an interpreter's run, up to its end.
	Watch(ctx context.Context, caller engine.Caller, id engine.ID, after int) (iter.Seq[engine.Event], error)
	// CancelRun returns when nothing of the run is left.
	CancelRun(ctx context.Context, caller engine.Caller, id engine.ID) error
	// Inside reaches into the sandbox of an interpreter, which its session's ID names.
	Inside() engine.Inside
	// Limits returns what zero limits become, and the most that may be asked for.
	Limits() (defaults, maxima engine.Limits)
}

var _ Engine = (*engine.Service)(nil)
