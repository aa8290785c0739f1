package changes_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A package below the SDK for Gemini starts a goroutine of its own when it is
// loaded, and has no way to end it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
