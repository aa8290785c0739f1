package web

import (
	"testing"

	"go.uber.org/goleak"
)

// notOurs is a goroutine that a package below the SDK for Gemini starts when it
// is loaded, and that nobody can end.
var notOurs = goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")

// aClock is a goroutine of the expressions that colour code: it ends by itself,
// a while after the last of them.
var aClock = goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, notOurs, aClock) }
