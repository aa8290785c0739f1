package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSignIn goes in with a key, and out.
func TestSignIn(t *testing.T) {
	s := serve(t)
	key := s.key("--owner", "ada", "--admin")
	inEachSize(t, func(t *testing.T, how look) { signInAndOut(t, s, key, how) })
}

func signInAndOut(t *testing.T, s *service, key string, how look) {
	t.Helper()
	b := open(t, how)
	b.goTo(s.url + "/runs")
	b.wait(`document.querySelector('#key')`)
	b.show("sign-in")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), "ak_nonsense\r"))
	b.wait(`document.querySelector('[role=alert]')`)
	b.show("sign-in-refused")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), key+"\r"))
	b.wait(`location.pathname === '/ui/runs' && document.querySelector('.owner')`)
	b.click(".site-menu > summary")
	if got := b.text(".owner"); got != "ada" {
		t.Errorf("the owner is %q", got)
	}
	if got := eval[string](
		b, "document.cookie + location.href + document.documentElement.outerHTML + JSON.stringify(localStorage)"); strings.Contains(got, key) || strings.Contains(got, "airlock=") {
		t.Error("the key or the cookie can be read in the page")
	}
	b.goTo(s.url + "/")
	b.runs("print('signed in')")
	b.click(".site-menu > summary")
	b.click(".visitor button")
	b.wait(`document.querySelector('#key')`)
	b.goTo(s.url + "/files")
	b.wait(`document.querySelector('#key')`)
	if code, _, _ := s.fetch("/files/" + strings.Repeat("A", 21) + "/content"); code != 200 { // the sign-in form
		t.Errorf("a stranger's request for a file is answered %d", code)
	}
	_, _, body := s.fetch("/files/" + strings.Repeat("A", 21) + "/content")
	if !strings.Contains(body, "Sign in") {
		t.Error("a stranger is not sent to the sign-in")
	}
}

// TestAccess audits every page in every look, filled and empty.
func TestAccess(t *testing.T) {
	s := shared(t)
	first := open(t, light)
	first.goTo(s.url + "/")
	first.runs(plots + "\nimport sys; print('a warning', file=sys.stderr)\n" +
		"print(''.join(f'\\033[3{i}m{i}\\033[0m\\033[4{i}m{i}\\033[0m' for i in range(8)))")
	run := strings.TrimPrefix(eval[string](first, "location.href"), s.url)
	first.goTo(s.url + "/")
	first.runs("import sys; sys.exit(1)")
	failed := strings.TrimPrefix(eval[string](first, "location.href"), s.url)
	compare := "/runs/compare?run=" + run[len("/runs/"):] + "&run=" + failed[len("/runs/"):]
	first.goTo(s.url + run)
	file := strings.TrimPrefix(eval[string](first, "[...document.querySelectorAll('.file-name')].at(-1).href"), s.url)
	for path, name := range map[string]string{
		"/": "blank", run: "run", failed: "failed", "/runs": "runs", compare: "compared", "/files": "files", file: "file",
		"/status": "status", "/tools": "tools-off", "/nothing": "nothing", "/runs/compare?run=x": "no-two-runs",
		"/review": "review-empty", "/projects": "projects-none", "/outbox": "outbox-empty",
	} {
		first.goTo(s.url + path)
		if path == "/" || path == run {
			first.wait(`document.querySelector('.cm-content')`)
		}
		first.examine(name)
	}
}

// TestFocus keeps the focus where it was while output comes, moves nothing, and
// announces what happens.
func TestFocus(t *testing.T) { inEachSize(t, keepFocus) }

func keepFocus(t *testing.T, how look) {
	s := shared(t)
	b := open(t, how)
	b.goTo(s.url + "/")
	b.write("import time\nfor i in range(60):\n    print('line', i, flush=True)\n    time.sleep(0.01)")
	b.run(`document.querySelector('.cm-content').focus()`)
	b.run(watchShifts)
	b.run(`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }))`)
	b.wait(`document.querySelector('#output').innerText.includes('line 59')`)
	if got := eval[float64](b, "window.shifts"); got > 0.01 {
		t.Errorf("the page shifts by %.4f while output comes", got)
	}
	b.ended()
	if got := eval[string](b, "document.activeElement.className"); !strings.Contains(got, "cm-content") {
		t.Errorf("after the run the focus is on %q", got)
	}
	if got := b.text("#announce"); !strings.Contains(got, "The program has ended: OK") {
		t.Errorf("it announces %q", got)
	}
}
