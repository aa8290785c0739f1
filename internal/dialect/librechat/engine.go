package librechat

import (
	"context"
	"io"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/toolcall"
)

// Engine is what the dialect asks of the core. Every error is an
// *engine.Error, and what belongs to another owner is ErrNotFound.
type Engine interface {
	Runs
	Files
	Host
}

// Runs starts programs and follows them.
type Runs interface {
	toolcall.Engine
	// Run runs to the end. When ctx ends the run is cancelled.
	Run(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	// GetRun returns a run as it stands.
	GetRun(ctx context.Context, caller engine.Caller, id engine.ID) (*engine.Run, error)
}

// Files keeps files, each in one session or more.
type Files interface {
	// PutFile reads content to its end. When it returns, the file is safe.
	PutFile(ctx context.Context, caller engine.Caller, up engine.Upload, content io.Reader) (engine.File, error)
	// GetFile returns what is known of a file.
	GetFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, error)
	// OpenFile returns the bytes too, which the caller closes.
	OpenFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, engine.Content, error)
	// HasContent reports whether a file's bytes are there.
	HasContent(ctx context.Context, file *engine.File) bool
	DeleteFile(ctx context.Context, caller engine.Caller, id engine.ID) error
	CreateSession(ctx context.Context, caller engine.Caller, req engine.SessionRequest) (engine.Session, error)
	// SessionFile finds a file that is in a session; a use of both.
	SessionFile(ctx context.Context, caller engine.Caller, session, file engine.ID) (
		engine.Session, engine.File, engine.SessionFile, error)
	// UseSession finds all that is in a session, in order of path; a use of all of it.
	UseSession(ctx context.Context, caller engine.Caller, id engine.ID) (
		engine.Session, []engine.File, []engine.SessionFile, error)
}

// Host is where programs run.
type Host interface {
	// Limits returns what zero limits become, and the most that may be asked for.
	Limits() (defaults, maxima engine.Limits)
	// Ready returns nil when runs are accepted.
	Ready(ctx context.Context) error
	// Isolation says what stands between a program and this host.
	Isolation(ctx context.Context) (engine.Isolation, error)
}

var _ Engine = (*engine.Service)(nil)
