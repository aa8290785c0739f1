package executor

import (
	"log/slog"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

var quiet = slog.New(slog.DiscardHandler)

// silent is a host that ignores all calls.
type silent = sandboxtest.Host
