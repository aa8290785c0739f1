package browser

import (
	"strings"
	"testing"
)

const hostile = `import os, zlib, struct
owned = "<script>window.owned = 1</script><img src=x onerror=window.owned=1>"
print(owned)
print("\x1b]8;;javascript:window.owned=1\x07click\x1b]8;;\x07")
print("\n\nevent: result\ndata: {\"status\":\"ok\"}\n\n")
os.makedirs("d")
open("d/<img src=x onerror=window.owned=1>.txt", "w").write(owned)
open("'\"><svg onload=window.owned=1>.csv", "w").write("<script>window.owned=1</script>,b\n<img src=x onerror=window.owned=1>,2\n")
open("picture.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" onload="window.owned=1"><script>window.owned=1;top.owned=1</script><rect width="9" height="9"/></svg>')
open("page.html", "w").write("<!doctype html><body onload='window.owned=1'>" + owned)
open("x.xhtml", "w").write('<html xmlns="http://www.w3.org/1999/xhtml"><script>window.owned=1</script></html>')
open("s.js", "w").write("window.owned = 1")
open("lies.png", "w").write("<!doctype html>" + owned)
open("n.md", "w").write(owned + "\n\n[a](javascript:window.owned=1) ![x](http://192.0.2.1/x.png) <iframe src=/ui/></iframe>\n")
`

// TestHostile has a program print and leave what would take the page over if
// any of it were taken for more than text.
func TestHostile(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	unharmed := func(where string) {
		t.Helper()
		if eval[bool](b,
			`'owned' in window || [...document.querySelectorAll('main script, main iframe, main object, main embed, main [onerror], main [onload]')].length > 0`) {
			t.Errorf("%s: hostile content became part of the page", where)
		}
	}
	b.goTo(s.url + "/")
	b.runs(hostile)
	b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 60)) }`)
	b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
	unharmed("the run's page")
	if got := b.text("#output"); !strings.Contains(got, "<script>window.owned = 1</script>") ||
		!strings.Contains(got, "event: result") || !strings.Contains(got, "click") {
		t.Errorf("the output is not shown as it is: %q", got)
	}
	b.run(`scrollTo(0, 0)`)
	b.examine("hostile")
	files := eval[[]string](b, `[...document.querySelectorAll('.file-name')].map((a) => a.href)`)
	if len(files) != 8 {
		t.Errorf("%d files, want 8", len(files))
	}
	run := eval[string](b, "location.href")
	b.goTo(run)
	unharmed("the run's link")
	for _, page := range []string{"/files", "/runs", "/runs?q=" + "%3Cscript%3E"} {
		b.goTo(s.url + page)
		unharmed(page)
	}
	for _, file := range files {
		b.goTo(file)
		unharmed(file)
		name := b.text("h1")
		_, header, _ := s.fetch(strings.TrimPrefix(file, s.url) + "/content")
		for _, want := range []struct{ name, value string }{
			{"X-Content-Type-Options", "nosniff"}, {"Content-Security-Policy", "sandbox"},
			{"Cross-Origin-Resource-Policy", "same-origin"}, {"Content-Disposition", "attachment"},
		} {
			if got := header.Get(want.name); !strings.Contains(got, want.value) {
				t.Errorf("%s: %s is %q", name, want.name, got)
			}
		}
		if kind := header.Get("Content-Type"); kind != "text/plain; charset=utf-8" && kind != "application/octet-stream" {
			t.Errorf("%s is served as %s", name, kind)
		}
	}
}
