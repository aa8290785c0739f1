package native

import (
	"context"
	"io"
	"iter"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Engine is what the dialect asks of the core. Every error is an
// *engine.Error, and what belongs to another owner is ErrNotFound.
type Engine interface {
	Runs
	Files
	Sessions
	Keys
	// Languages returns the languages that a run can name.
	Languages() []language.Language
	// PackageSets returns the sets of Python packages that a run can name.
	PackageSets() []engine.PackageSet
	// Stats returns the counters of the moment.
	Stats() engine.Stats
	// Limits returns what zero limits become, and the most that may be asked for.
	Limits() (defaults, maxima engine.Limits)
}

// Runs starts programs and follows them.
type Runs interface {
	// Run runs to the end. When ctx ends the run is cancelled.
	Run(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	// Start returns as soon as the run is accepted.
	Start(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	// Watch gives the events with Seq > after, up to the result or the end of ctx.
	Watch(ctx context.Context, caller engine.Caller, id engine.ID, after int) (iter.Seq[engine.Event], error)
	// CancelRun returns when nothing of the run is left.
	CancelRun(ctx context.Context, caller engine.Caller, id engine.ID) error
	GetRun(ctx context.Context, caller engine.Caller, id engine.ID) (*engine.Run, error)
	ListRuns(ctx context.Context, caller engine.Caller, query engine.RunQuery) ([]engine.Run, error)
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
	GetSession(ctx context.Context, caller engine.Caller, id engine.ID) (engine.Session, error)
	ListSessions(ctx context.Context, caller engine.Caller, query engine.SessionQuery) ([]engine.Session, error)
	// DeleteSession kills what runs in it first.
	DeleteSession(ctx context.Context, caller engine.Caller, id engine.ID) error
	// SessionFiles returns the files in order of path, and their places in the same order.
	SessionFiles(ctx context.Context, caller engine.Caller, id engine.ID) ([]engine.File, []engine.SessionFile, error)
}

// Keys manages who may call. Callers that are not Admin get ErrForbidden.
type Keys interface {
	// CreateKey returns the key and its token, which is kept nowhere.
	CreateKey(ctx context.Context, caller engine.Caller, wanted engine.NewKey) (
		engine.Key, string, error)
	// Contacts returns what the caller's programs contacted, or an admin's choice.
	Contacts(ctx context.Context, caller engine.Caller, query engine.ContactQuery) ([]engine.Contact, error)
	ListKeys(ctx context.Context, caller engine.Caller) ([]engine.Key, error)
	RevokeKey(ctx context.Context, caller engine.Caller, id string) error
}

var _ Engine = (*engine.Service)(nil)
