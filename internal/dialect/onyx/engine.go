package onyx

import (
	"context"
	"io"
	"iter"

	"github.com/airlock-run/airlock/internal/engine"
)

// Engine is what the dialect asks of the core. Every error is an
// *engine.Error, and what belongs to another owner is ErrNotFound.
type Engine interface {
	Runs
	Files
	Sessions
	Host
}

// Runs starts programs and follows them.
type Runs interface {
	// Run runs to the end. When ctx ends the run is cancelled.
	Run(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	// Start returns as soon as the run is accepted.
	Start(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	// AwaitTurn returns when a run has its slot or has ended, ErrBusy when it was
	// cancelled before.
	AwaitTurn(ctx context.Context, caller engine.Caller, id engine.ID) error
	// Watch gives the events with Seq > after, up to the result or the end of ctx.
	Watch(ctx context.Context, caller engine.Caller, id engine.ID, after int) (iter.Seq[engine.Event], error)
	// CancelRun returns when nothing of the run is left.
	CancelRun(ctx context.Context, caller engine.Caller, id engine.ID) error
}

// Files stores files.
type Files interface {
	// PutFile reads content to its end. When it returns, the file is safe.
	PutFile(ctx context.Context, caller engine.Caller, up engine.Upload, content io.Reader) (engine.File, error)
	GetFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, error)
	// OpenFile returns the bytes too, which the caller closes.
	OpenFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, engine.Content, error)
	ListFiles(ctx context.Context, caller engine.Caller, query engine.FileQuery) ([]engine.File, error)
	DeleteFile(ctx context.Context, caller engine.Caller, id engine.ID) error
}

// Sessions keeps workspaces over several runs.
type Sessions interface {
	CreateSession(ctx context.Context, caller engine.Caller, req engine.SessionRequest) (engine.Session, error)
	// DeleteSession kills what runs in it first.
	DeleteSession(ctx context.Context, caller engine.Caller, id engine.ID) error
}

// Host is where programs run.
type Host interface {
	// Limits returns what zero limits become, and the most that may be asked for.
	Limits() (defaults, maxima engine.Limits)
	// Ready returns nil when runs are accepted.
	Ready(ctx context.Context) error
	// Isolation says what stands between a program and this host.
	Isolation(ctx context.Context) (engine.Isolation, error)
	// Stats returns the counters of the moment.
	Stats() engine.Stats
}

var _ Engine = (*engine.Service)(nil)
