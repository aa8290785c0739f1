package web

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// visitor is a visitor of the service's pages.
type visitor struct{ *pagetest.Visitor }

// visitSite serves the page over a fake sandbox. See Visit.
func visitSite(t *testing.T, open bool, program sandboxtest.Program, change ...func(*Options)) *visitor {
	t.Helper()
	return &visitor{pagetest.Visit(t, open, program, func(o page.Options, e *engine.Service) (*page.Site, error) {
		options := Options{Site: o, Engine: e, Languages: func(context.Context) []Language {
			return []Language{{"python", "Python", true}, {"d", "D", false}}
		}}
		for _, c := range change {
			c(&options)
		}
		return New(options)
	})}
}

// another returns a visitor of the same page with a separate browser.
func (v *visitor) another() *visitor { return &visitor{v.Another()} }

// form posts a program's form, with the token first.
func (v *visitor) form(token string, fields ...[2]string) pagetest.Answer {
	v.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if token != "" {
		fields = append([][2]string{{"token", token}}, fields...)
	}
	for _, f := range fields {
		if err := form.WriteField(f[0], f[1]); err != nil {
			v.T.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		v.T.Fatal(err)
	}
	r := v.Request("POST", "/runs", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	return v.Send(r)
}

func (v *visitor) runs(fields ...[2]string) string {
	v.T.Helper()
	got := v.form(v.Token(), append([][2]string{{"language", "python"}, {"code", "print(1)"}}, fields...)...)
	if got.Status != http.StatusSeeOther {
		v.T.Fatalf("a run is answered %d: %s", got.Status, got.Body)
	}
	path := strings.TrimPrefix(got.Header.Get("Location"), "/ui")
	id, err := engine.ParseID(path[strings.LastIndex(path, "/")+1:])
	if err != nil {
		v.T.Fatal(err)
	}
	events, err := v.Engine.Watch(v.T.Context(), engine.Caller{Owner: engine.Local}, id, 0)
	if err != nil {
		v.T.Fatal(err)
	}
	for range events { // to its end
	}
	return path
}

func TestRunWithoutScripts(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("<script>x</script>\x1b[31mred\x1b[0m\n"))
	path := v.runs()
	page := v.Get(path).Body
	for _, want := range []string{"&lt;script&gt;x&lt;/script&gt;red", `class="badge ok">OK`, "print(1)",
		"<span>on the kernel of this machine</span>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the run's page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script>x") {
		t.Error("output is part of the document")
	}
	if got := v.Get("/runs?q=PRINT").Body; !strings.Contains(got, path) {
		t.Error("a search for a word of the code does not find the run")
	}
	if got := v.Get("/runs?q=pears").Body; strings.Contains(got, path) {
		t.Error("a search for another word finds the run")
	}
}

func TestEveryPageHasItsHeaders(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"))
	run := v.runs()
	for _, path := range []string{"/", run, "/runs", "/runs/compare", "/files", "/status",
		"/sign-in", "/nothing", "/static/0/none.js"} {
		got := v.Get(path)
		policy := got.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %q: %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %s", path, policy)
		}
		if got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, got.Header)
		}
		if regexp.MustCompile(`<script(>| [^>]*>[^<])|<style| on[a-z]+=| style=`).MatchString(got.Body) {
			t.Errorf("%s has a script or a style in the document", path)
		}
	}
}

func TestAssets(t *testing.T) {
	v := visitSite(t, true, nil)
	page := v.Get("/").Body
	found := regexp.MustCompile(`/ui(/static/[0-9a-f]{12}/[a-z]+\.(?:js|css|svg))`).FindAllStringSubmatch(page, -1)
	if len(found) < 4 {
		t.Fatalf("the page names %d files", len(found))
	}
	for _, f := range found {
		got := v.Get(f[1])
		if got.Status != 200 || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %s", f[1], got.Status, got.Header.Get("Cache-Control"))
		}
		for _, name := range regexp.MustCompile(`from\s*"\./([^"]+)"`).FindAllStringSubmatch(got.Body, -1) {
			if strings.HasSuffix(f[1], "/editor.js") {
				continue
			}
			if v.Get(path.Dir(f[1])+"/"+name[1]).Status != 200 {
				t.Errorf("%s imports %s, which is not there", f[1], name[1])
			}
		}
	}
}

// TestPartsAreOptional checks that without the assistant its pages and their links are missing.
func TestPartsAreOptional(t *testing.T) {
	v := visitSite(t, true, nil)
	for _, path := range []string{"/review", "/projects", "/outbox", "/ask"} {
		if got := v.Get(path); got.Status != 404 {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
	if strings.Contains(v.Get("/").Body, `href="/ui/review"`) {
		t.Error("a link that leads nowhere")
	}
}
