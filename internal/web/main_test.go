package web

import (
	"testing"

	"go.uber.org/goleak"
)

// notOurs is a goroutine that a package below the SDK for Gemini starts when it
// is loaded, and that nobody can end.
var notOurs = goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, notOurs) }
