package web

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// TestAPIForScripts requests the native API through the page, with and without the token.
func TestAPIForScripts(t *testing.T) {
	asked := ""
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI()
		_, _ = io.WriteString(w, "passed on")
	})
	v := visitSite(t, false, pagetest.Prints("x"), func(o *Options) { o.API = api })
	_, key := v.KeyFor("ada")
	v.SignIn(key, "/")
	for _, c := range []struct {
		method, path, token string
		want                int
		asks                string
	}{
		{"GET", "/api/sessions/x/cells?a=b", v.Token(), 200, "GET /sessions/x/cells?a=b"},
		{"POST", "/api/sessions", v.Token(), 200, "POST /sessions"},
		{"GET", "/api/sessions/x/cells", "", 403, ""}, // another page's request has the cookie, not the token
		{"POST", "/api/sessions", "wrong", 403, ""},
		{"GET", "/api/sessions/x/ports/80/", v.Token(), 404, ""},    // would have the page's origin
		{"GET", "/api/sessions/x/%70orts/80/a", v.Token(), 404, ""}, // nor in another encoding
		{"GET", "/api/sessions/x/./ports/80/", v.Token(), 404, ""},  // nor with dot segments
		{"GET", "/api/keys", v.Token(), 404, ""},                    // notebooks do not need it
		{"POST", "/api/sessions/../keys", v.Token(), 404, ""},
	} {
		asked = ""
		r := v.Request(c.method, c.path, nil)
		if c.token != "" {
			r.Header.Set(page.TokenHeader, c.token)
		}
		got := v.Send(r)
		if got.Status >= 300 && got.Status < 400 { // a path that is not clean is sent to the clean one
			again := v.Request(c.method, strings.TrimPrefix(got.Header.Get("Location"), "/ui"), nil)
			again.Header = r.Header
			got = v.Send(again)
		}
		if got.Status != c.want || asked != c.asks {
			t.Errorf("%s %s: %d, asks %q; want %d, %q", c.method, c.path, got.Status, asked, c.want, c.asks)
		}
	}
	if got := v.another().Get("/api/sessions"); got.Status == 200 {
		t.Errorf("a stranger is answered %d", got.Status)
	}
}

// TestNotebookOfOthers opens a notebook of another owner, and a session without a notebook.
func TestNotebookOfOthers(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	ada, err := v.Engine.CreateSession(t.Context(), engine.Caller{Owner: "ada"}, engine.SessionRequest{
		Origin: engine.OriginNative, Kind: engine.SessionLive, Live: `{"language":"python"}`})
	if err != nil {
		t.Fatal(err)
	}
	_, key := v.KeyFor("eve")
	v.SignIn(key, "/")
	if got := v.Get("/notebooks/" + ada.ID.String()); got.Status != http.StatusNotFound {
		t.Errorf("another owner's notebook is answered %d", got.Status)
	}
	got := v.Get("/notebooks/new")
	policy := got.Header.Get("Content-Security-Policy")
	if got.Status != 200 || !strings.Contains(policy, "frame-src 127.0.0.1:") || !strings.Contains(policy, "/ui/frame/") {
		t.Errorf("a new notebook: %d, policy %s", got.Status, policy)
	}
	if strings.Contains(v.Get("/").Header.Get("Content-Security-Policy"), "frame-src") {
		t.Error("other pages may hold frames too")
	}
}

// TestFrames checks the policy of the frames of outputs.
func TestFrames(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	for kind, script := range viewers {
		got := v.Get("/frame/" + kind)
		policy := got.Header.Get("Content-Security-Policy")
		scripts := "script-src 'nonce-"
		if kind == foreign { // what a script with a nonce imports has it too
			scripts = "/" + script + " blob:;"
		}
		for _, want := range []string{"sandbox allow-scripts;", "default-src 'none'", scripts, "form-action 'none'",
			"worker-src 'none'", "frame-ancestors 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: no %q in %s", kind, want, policy)
			}
		}
		if kind == foreign && strings.Contains(policy, "nonce") || strings.Contains(policy, "allow-same-origin") ||
			strings.Contains(policy, "connect-src") {
			t.Errorf("%s: %s", kind, policy)
		}
		address := regexp.MustCompile(`"/ui(/static/[0-9a-f]{12}/` + regexp.QuoteMeta(script) + `)"`).
			FindStringSubmatch(got.Body)
		if address == nil {
			t.Errorf("%s lacks its script", kind)
			continue
		}
		served := v.Get(address[1])
		if served.Status != 200 || served.Header.Get("Cross-Origin-Resource-Policy") != "cross-origin" ||
			len(served.Body) < 10_000 {
			t.Errorf("%s: %d, %d bytes", script, served.Status, len(served.Body))
		}
	}
	if got := v.Get("/frame/other"); got.Status != http.StatusNotFound {
		t.Errorf("an unknown kind is answered %d", got.Status)
	}
}

// TestCellMarkdown renders a text cell. Raw HTML and pictures stay text.
func TestCellMarkdown(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	send := func(text, token string) pagetest.Answer {
		r := v.Request("POST", "/markdown", strings.NewReader(text))
		r.Header.Set(page.TokenHeader, token)
		return v.Send(r)
	}
	got := send("*a* <script>x</script>\n\n[l](javascript:alert(1)) ![p](http://192.0.2.1/p.png)", v.Token())
	if got.Status != 200 || !strings.Contains(got.Body, "<em>a</em>") || strings.Contains(got.Body, "<script") ||
		strings.Contains(got.Body, "javascript:") || strings.Contains(got.Body, "<img") {
		t.Errorf("%d: %s", got.Status, got.Body)
	}
	if got := send(strings.Repeat("x", page.MaxMarkdown+1), v.Token()); got.Status != http.StatusUnprocessableEntity {
		t.Errorf("a text beyond the bound is answered %d", got.Status)
	}
	if got := send("x", "wrong"); got.Status != http.StatusForbidden {
		t.Errorf("without the token it is answered %d", got.Status)
	}
}
