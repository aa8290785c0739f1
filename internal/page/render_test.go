package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestCommands(t *testing.T) {
	for text, want := range map[string]string{
		"Run `airlock doctor`, then wait.": "Run <code>airlock doctor</code>, then wait.",
		"<b>`<i>`":                         "&lt;b&gt;<code>&lt;i&gt;</code>",
		"one ` only":                       "one ` only",
		"":                                 "",
	} {
		if got := string(commands(text)); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestCookieNamesNode checks that a visitor's cookie names the node with the sign-in.
func TestCookieNamesNode(t *testing.T) {
	for _, self := range []engine.Epoch{0, engine.NewEpoch()} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		cookie := newSignInStore(time.Now, func() engine.Epoch { return self }).enter("ada", "key")
		r.AddCookie(&http.Cookie{Name: CookieName, Value: cookie})
		if cookieOf(r) != cookie || self != 0 && Holder(r) != self {
			t.Errorf("%d: %q, %q, %d", self, cookie, cookieOf(r), Holder(r))
		}
	}
}
