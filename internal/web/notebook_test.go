package web

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// TestAPIForScripts requests the native API through the page, with and without the token.
func TestAPIForScripts(t *testing.T) {
	asked := ""
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI()
		_, _ = io.WriteString(w, "passed on")
	})
	v := visitSite(t, false, prints("x"), func(o *Options) { o.API = api })
	_, key := v.keyFor("ada")
	v.signIn(key, "/")
	for _, c := range []struct {
		method, path, token string
		want                int
		asks                string
	}{
		{"GET", "/api/sessions/x/cells?a=b", v.token(), 200, "GET /sessions/x/cells?a=b"},
		{"POST", "/api/sessions", v.token(), 200, "POST /sessions"},
		{"GET", "/api/sessions/x/cells", "", 403, ""}, // another page's request has the cookie, not the token
		{"POST", "/api/sessions", "wrong", 403, ""},
		{"GET", "/api/sessions/x/ports/80/", v.token(), 404, ""},    // would have the page's origin
		{"GET", "/api/sessions/x/%70orts/80/a", v.token(), 404, ""}, // nor in another encoding
		{"GET", "/api/sessions/x/./ports/80/", v.token(), 404, ""},  // nor with dot segments
		{"GET", "/api/keys", v.token(), 404, ""},                    // notebooks do not need it
		{"POST", "/api/sessions/../keys", v.token(), 404, ""},
	} {
		asked = ""
		r := v.request(c.method, c.path, nil)
		if c.token != "" {
			r.Header.Set(tokenHeader, c.token)
		}
		got := v.send(r)
		if got.status >= 300 && got.status < 400 { // a path that is not clean is sent to the clean one
			again := v.request(c.method, strings.TrimPrefix(got.header.Get("Location"), "/ui"), nil)
			again.Header = r.Header
			got = v.send(again)
		}
		if got.status != c.want || asked != c.asks {
			t.Errorf("%s %s: %d, asks %q; want %d, %q", c.method, c.path, got.status, asked, c.want, c.asks)
		}
	}
	if got := v.another().get("/api/sessions"); got.status == 200 {
		t.Errorf("a stranger is answered %d", got.status)
	}
}

// TestNotebookOfOthers opens a notebook of another owner, and a session without a notebook.
func TestNotebookOfOthers(t *testing.T) {
	v := visitSite(t, false, prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	ada, err := v.engine.CreateSession(t.Context(), engine.Caller{Owner: "ada"}, engine.SessionRequest{
		Origin: engine.OriginNative, Kind: engine.SessionLive, Live: `{"language":"python"}`})
	if err != nil {
		t.Fatal(err)
	}
	_, key := v.keyFor("eve")
	v.signIn(key, "/")
	if got := v.get("/notebooks/" + ada.ID.String()); got.status != http.StatusNotFound {
		t.Errorf("another owner's notebook is answered %d", got.status)
	}
	got := v.get("/notebooks/new")
	policy := got.header.Get("Content-Security-Policy")
	if got.status != 200 || !strings.Contains(policy, "frame-src 127.0.0.1:") || !strings.Contains(policy, "/ui/frame/") {
		t.Errorf("a new notebook: %d, policy %s", got.status, policy)
	}
	if strings.Contains(v.get("/").header.Get("Content-Security-Policy"), "frame-src") {
		t.Error("other pages may hold frames too")
	}
}

// TestFrames checks the policy of the frames of outputs.
func TestFrames(t *testing.T) {
	v := visitSite(t, true, prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	for kind, script := range viewers {
		got := v.get("/frame/" + kind)
		policy := got.header.Get("Content-Security-Policy")
		for _, want := range []string{"sandbox allow-scripts;", "default-src 'none'", "script-src 'nonce-",
			"form-action 'none'", "frame-ancestors 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: no %q in %s", kind, want, policy)
			}
		}
		if strings.Contains(policy, "allow-same-origin") || strings.Contains(policy, "connect-src") {
			t.Errorf("%s: %s", kind, policy)
		}
		address, err := v.site.assets.address(script)
		if err != nil || !strings.Contains(got.body, address) {
			t.Errorf("%s lacks its script: %v", kind, err)
		}
		served := v.get(strings.TrimPrefix(address, "/ui"))
		if served.status != 200 || served.header.Get("Cross-Origin-Resource-Policy") != "cross-origin" ||
			len(served.body) < 10_000 {
			t.Errorf("%s: %d, %d bytes", address, served.status, len(served.body))
		}
	}
	if got := v.get("/frame/other"); got.status != http.StatusNotFound {
		t.Errorf("an unknown kind is answered %d", got.status)
	}
}

// TestCellMarkdown renders a text cell. Raw HTML and pictures stay text.
func TestCellMarkdown(t *testing.T) {
	v := visitSite(t, true, prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	send := func(text, token string) answer {
		r := v.request("POST", "/markdown", strings.NewReader(text))
		r.Header.Set(tokenHeader, token)
		return v.send(r)
	}
	got := send("*a* <script>x</script>\n\n[l](javascript:alert(1)) ![p](http://192.0.2.1/p.png)", v.token())
	if got.status != 200 || !strings.Contains(got.body, "<em>a</em>") || strings.Contains(got.body, "<script") ||
		strings.Contains(got.body, "javascript:") || strings.Contains(got.body, "<img") {
		t.Errorf("%d: %s", got.status, got.body)
	}
	if got := send(strings.Repeat("x", maxMarkdown+1), v.token()); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a text beyond the bound is answered %d", got.status)
	}
	if got := send("x", "wrong"); got.status != http.StatusForbidden {
		t.Errorf("without the token it is answered %d", got.status)
	}
}
