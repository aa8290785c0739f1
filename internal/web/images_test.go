package web

import (
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Where there are images, the page has a choice, and shows in which one a program ran.
func TestImagesOnPage(t *testing.T) {
	e := enginetest.Start(t, engine.Config{Images: engine.ImageRules{Store: enginetest.SomeImages(), Default: "old"}},
		sandboxtest.NewFake(pagetest.Prints("x")))
	v := visitSite(t, true, pagetest.Prints("x"), func(o *Options) { o.Engine = e })
	v.Engine = e
	chosen := regexp.MustCompile(`<option value="(\w+)" selected>`)
	choice := func(path string) string {
		_, form, _ := strings.Cut(v.Get(path).Body, `<select id="image"`)
		form, _, _ = strings.Cut(form, "</select>")
		return strings.Join(chosen.FindStringSubmatch(form), " ")
	}
	if got := choice("/"); !strings.Contains(got, ` old`) {
		t.Errorf("a new program gets %q", got)
	}
	path := v.runs([2]string{"image", "py313"})
	if got := choice(path); !strings.Contains(got, ` py313`) {
		t.Errorf("a run that is shown gets %q", got)
	}
	if got := v.Get(path).Body; !strings.Contains(got, "<span>image py313</span>") ||
		!strings.Contains(got, `data-language="python">Python in py313<`) {
		t.Error("the run does not say where it ran")
	}
	if got := v.Get(v.runs([2]string{"image", "host"})).Body; strings.Contains(got, "<span>in ") {
		t.Error("a run without an image says that it had one")
	}
	if got := visitSite(t, true, pagetest.Prints("x")).Get("/").Body; strings.Contains(got, `id="image"`) {
		t.Error("there is a choice without images")
	}
}
