package pages

import (
	"testing"

	"go.uber.org/goleak"
)

// notOurs is a goroutine that a dependency of the Gemini SDK starts on import. It cannot be
// stopped.
var notOurs = goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, notOurs) }
