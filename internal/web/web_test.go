package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// visitor is a user with a browser and no scripts.
type visitor struct {
	t      *testing.T
	site   *Site
	engine *engine.Service
	index  *enginetest.Index
	url    string
	client *http.Client
}

// visitSite serves the page over a fake sandbox. If open is set, it admits everyone, as on
// loopback without keys; otherwise visitors must sign in.
func visitSite(t *testing.T, open bool, program sandboxtest.Program, change ...func(*Options)) *visitor {
	t.Helper()
	index := enginetest.NewIndex()
	e := enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(program), enginetest.NewBlobs(), index)
	v := &visitor{t: t, engine: e, index: index}
	options := Options{
		Engine: e, Authenticate: e.Authenticate, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Languages: func(context.Context) []Language { return []Language{{"python", "Python", true}, {"d", "D", false}} },
		Caller: func(r *http.Request) (engine.Caller, bool) {
			if c, ok := v.site.SignedIn(r); ok || !open {
				return c, ok
			}
			return engine.Caller{Owner: engine.Local}, true
		},
	}
	for _, c := range change {
		c(&options)
	}
	site, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = site.Close() })
	v.site = site
	server := httptest.NewServer(http.StripPrefix("/ui", site))
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	v.url, v.client = server.URL+"/ui", &http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return v
}

// another returns a visitor of the same page with a separate browser.
func (v *visitor) another() *visitor {
	other := *v
	jar, err := cookiejar.New(nil)
	if err != nil {
		v.t.Fatal(err)
	}
	other.client = &http.Client{Jar: jar, CheckRedirect: v.client.CheckRedirect}
	return &other
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (v *visitor) send(r *http.Request) answer {
	v.t.Helper()
	got, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(body)}
}

func (v *visitor) request(method, path string, body io.Reader) *http.Request {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, body)
	if err != nil {
		v.t.Fatal(err)
	}
	return r
}

func (v *visitor) get(path string) answer {
	v.t.Helper()
	return v.send(v.request("GET", path, nil))
}

var tokenOf = regexp.MustCompile(`<meta name="airlock-token" content="([^"]+)">`)

// token returns the token of the visitor's pages.
func (v *visitor) token() string {
	v.t.Helper()
	body := v.get("/").body
	if !tokenOf.MatchString(body) {
		body = v.get("/sign-in").body
	}
	found := tokenOf.FindStringSubmatch(body)
	if found == nil {
		v.t.Fatalf("no token in %.300s", body)
	}
	return found[1]
}

func (v *visitor) post(path string, fields url.Values) answer {
	v.t.Helper()
	r := v.request("POST", path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.send(r)
}

// form posts a program's form, with the token first.
func (v *visitor) form(token string, fields ...[2]string) answer {
	v.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if token != "" {
		fields = append([][2]string{{"token", token}}, fields...)
	}
	for _, f := range fields {
		if err := form.WriteField(f[0], f[1]); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		v.t.Fatal(err)
	}
	r := v.request("POST", "/runs", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	return v.send(r)
}

func prints(text string) sandboxtest.Program {
	return func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte(text))
		return sandboxtest.Exit(0), nil
	}
}

func (v *visitor) runs(fields ...[2]string) string {
	v.t.Helper()
	got := v.form(v.token(), append([][2]string{{"language", "python"}, {"code", "print(1)"}}, fields...)...)
	if got.status != http.StatusSeeOther {
		v.t.Fatalf("a run is answered %d: %s", got.status, got.body)
	}
	path := strings.TrimPrefix(got.header.Get("Location"), "/ui")
	id, err := engine.ParseID(path[strings.LastIndex(path, "/")+1:])
	if err != nil {
		v.t.Fatal(err)
	}
	events, err := v.engine.Watch(v.t.Context(), engine.Caller{Owner: engine.Local}, id, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	for range events { // to its end
	}
	return path
}

func TestRunWithoutScripts(t *testing.T) {
	v := visitSite(t, true, prints("<script>x</script>\x1b[31mred\x1b[0m\n"))
	path := v.runs()
	page := v.get(path).body
	for _, want := range []string{"&lt;script&gt;x&lt;/script&gt;red", `class="badge ok">OK`, "print(1)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the run's page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script>x") {
		t.Error("output is part of the document")
	}
	if got := v.get("/runs?q=PRINT").body; !strings.Contains(got, path) {
		t.Error("a search for a word of the code does not find the run")
	}
	if got := v.get("/runs?q=pears").body; strings.Contains(got, path) {
		t.Error("a search for another word finds the run")
	}
}

func TestEveryPageHasItsHeaders(t *testing.T) {
	v := visitSite(t, true, prints("x"))
	run := v.runs()
	for _, path := range []string{"/", run, "/runs", "/runs/compare", "/files", "/status",
		"/sign-in", "/nothing", "/static/0/none.js"} {
		got := v.get(path)
		policy := got.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %q: %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %s", path, policy)
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, got.header)
		}
		if regexp.MustCompile(`<script(>| [^>]*>[^<])|<style| on[a-z]+=| style=`).MatchString(got.body) {
			t.Errorf("%s has a script or a style in the document", path)
		}
	}
}

func TestAssets(t *testing.T) {
	v := visitSite(t, true, nil)
	page := v.get("/").body
	found := regexp.MustCompile(`/ui(/static/[0-9a-f]{12}/[a-z]+\.(?:js|css|svg))`).FindAllStringSubmatch(page, -1)
	if len(found) < 4 {
		t.Fatalf("the page names %d files", len(found))
	}
	for _, f := range found {
		got := v.get(f[1])
		if got.status != 200 || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %s", f[1], got.status, got.header.Get("Cache-Control"))
		}
		for _, name := range regexp.MustCompile(`from\s*"\./([^"]+)"`).FindAllStringSubmatch(got.body, -1) {
			if strings.HasSuffix(f[1], "/editor.js") {
				continue
			}
			if v.get(path.Dir(f[1])+"/"+name[1]).status != 200 {
				t.Errorf("%s imports %s, which is not there", f[1], name[1])
			}
		}
	}
}
