// Package dialect declares what a protocol is to the service that mounts it. Each package
// below exports one Dialect; internal/cli has their list.
package dialect

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Dialect is one protocol.
type Dialect struct {
	Name string // the protocol to which keys may be limited: "api", "mcp"

	// Mount returns the mounts of the protocol, and what to close after the engine's
	// shutdown; nil: nothing.
	Mount func(Deps) ([]httpd.Mount, io.Closer, error)
}

// Deps are the parts of the service that dialects use.
type Deps struct {
	Config  *config.Config // read by Mount alone
	Engine  *engine.Service
	Live    live.Sessions
	Bodies  *wire.Bodies // of all dialects
	Metrics *httpd.Metrics
	Version string
	Log     *slog.Logger

	// Authenticate returns the caller of a key that is valid for the dialect.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)
	// Gather asks other nodes for their part of a list.
	Gather func(w http.ResponseWriter, r *http.Request) [][]byte
	// Client returns a client that connects to these addresses and to public ones.
	Client func(addresses ...string) *http.Client
}

// FormRoom is the space in a form beside the file, in bytes.
const FormRoom = 1 << 20

// SettingError reports settings with which a dialect cannot be mounted.
type SettingError struct {
	Kind engine.Kind // ErrInvalid, or ErrUnavailable if what they name cannot be read
	Hint string      // what to do
	Err  error
}

func (e *SettingError) Error() string { return e.Err.Error() }
func (e *SettingError) Unwrap() error { return e.Err }
