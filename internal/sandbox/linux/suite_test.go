package linux

import (
	"os"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestSuite(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox { return start(t) },
		Root: os.Geteuid() == 0,
	})
}
