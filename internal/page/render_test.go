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
		cookie := newSignInStore(time.Now, func() engine.Epoch { return self }).enter("ada", &signIn{key: "key"})
		r.AddCookie(&http.Cookie{Name: CookieName, Value: cookie})
		if cookieOf(r) != cookie || self != 0 && Holder(r) != self {
			t.Errorf("%d: %q, %q, %d", self, cookie, cookieOf(r), Holder(r))
		}
	}
}

// TestFormulas checks what of an answer is mathematics: its source is kept whole, and prices are text.
func TestFormulas(t *testing.T) {
	math := func(class, source string) string { return `<span class="` + class + `">` + source + `</span>` }
	for text, want := range map[string]string{
		"so $x^2$ holds":         "so " + math("math", "$x^2$") + " holds",
		"$a_1 * b_1 * c_1$":      math("math", "$a_1 * b_1 * c_1$"),
		"it is $5 or $6":         "it is $5 or $6",
		"from $5 to 6$ each":     "from " + math("math", "$5 to 6$") + " each",
		"$$\n\\int x < 1\n$$":    math("math display", "$$\n\\int x &lt; 1\n$$"),
		`that \(y\) and \[z\]`:   "that " + math("math", `\(y\)`) + " and " + math("math display", `\[z\]`),
		"`$x$` is code":          "<code>$x$</code> is code",
		"a lone $$ and the rest": "a lone $$ and the rest",
	} {
		if got := string(RenderAnswer(text)); got != "<p>"+want+"</p>\n" {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
