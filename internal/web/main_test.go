package web

import (
	"testing"

	"go.uber.org/goleak"
)

// notOurs is a goroutine that a dependency of the Gemini SDK starts on import. It cannot be
// stopped.
var notOurs = goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")

// aClock is a goroutine of the regexp package of the lexers. It ends some time after the
// last match.
var aClock = goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, notOurs, aClock) }
