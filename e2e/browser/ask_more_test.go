package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// TestAskEnds shows how code ends, a turn that is stopped, and one that goes on
// while the connection breaks.
func TestAskEnds(t *testing.T) {
	a := ask(t)
	inEachSize(t, func(t *testing.T, how look) { askEnds(t, a, open(t, how)) })
	t.Run("the connection breaks", func(t *testing.T) { askCut(t, a) })
}

func askEnds(t *testing.T, a *asking, b *tab) {
	b.goTo(a.url + "/ask")
	a.model.Rescript(
		providertest.Turn{Steps: []providertest.Step{
			{Code: "import sys\nprint('\\033[32mfine\\033[0m')\nprint('careful', file=sys.stderr)"}}, Pause: true},
		providertest.Turn{Steps: []providertest.Step{
			{Code: "print('a' * 20000)\nfor n in range(200): print(n)\nraise ValueError('no such column')"}}, Pause: true},
		providertest.Turn{Text: "It has no such column."})
	b.prompt("Try")
	b.over(1)
	for _, c := range []struct{ step, outcome, says string }{
		{"1", "OK", "fine"}, {"2", "FAILED, exit code 1", "ValueError: no such column"},
	} {
		if got := b.text("#step-1-" + c.step + " .step-head"); !strings.Contains(got, c.outcome) {
			t.Errorf("step %s is headed %q", c.step, got)
		}
		if got := eval[string](b, `document.querySelector('#step-1-`+c.step+
			` .step-console').textContent`); !strings.Contains(got, c.says) {
			t.Errorf("step %s has printed %q", c.step, got)
		}
	}
	if got := b.text("#step-1-1 .step-head"); !strings.Contains(got, "with warnings") {
		t.Errorf("stderr of code that went well is shown as %q", got)
	}
	if tall := eval[float64](
		b, `document.querySelector('#step-1-2 .step-console').getBoundingClientRect().height`); tall > 400 {
		t.Errorf("a long result is %v px tall", tall)
	}
	if wide := eval[bool](
		b, `document.querySelector('#step-1-2 .step-console').scrollWidth > document.querySelector('#step-1-2 .step-console').clientWidth`); wide {
		t.Error("a long line does not wrap")
	}
	b.inspect("ask-ends")

	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{
		{Code: "import time\nprint('begun', flush=True)\ntime.sleep(50)"}}, Text: "never"})
	b.prompt("Wait")
	b.wait(`document.querySelector('#step-2-1 .step-console')?.innerText.includes('begun')`)
	b.inspect("ask-running")
	if b.look == light {
		b.click("#stop")
	} else {
		b.do(chromedp.KeyEvent("\x1b"))
	}
	b.over(2)
	if got := b.text("#turn-2 .turn-end"); !strings.Contains(got, "stopped") {
		t.Errorf("a stopped turn ends with %q", got)
	}
}

// askCut breaks the connection in the middle of a turn: what came meanwhile is
// shown, once, and questions are still answered, though it takes three tries.
func askCut(t *testing.T, a *asking) {
	c, url := newCutter(t, a.service)
	b := open(t, narrow)
	b.goTo(url + "/ask")
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "import time\nfor i in range(30):\n" +
		"    print('line', i, flush=True)\n    time.sleep(0.05)\n_ = open('made.txt', 'w').write('x')"}},
		Text: "It is *over*."})
	b.choose("#project", "atlas")
	b.prompt("Count")
	for _, line := range []int{4, 15} {
		b.wait(fmt.Sprintf(`document.querySelector('.step-console')?.innerText.includes('line %d\n')`, line))
		c.cut()
	}
	b.wait(`document.querySelector('.questions .question')`)
	c.cut()
	b.wait(`document.querySelector('#notice').hidden`)
	// The first try does not leave, the answer to the second does not come.
	b.run(`const real = fetch; let tries = 0; window.fetch = async (...of) => {
		if (of[1]?.method !== 'POST' || tries > 1) return real(...of);
		if (tries++) await real(...of);
		throw new TypeError('cut');
	}`)
	// By the page, not by the pointer: what comes back with the connection moves the question.
	b.run(`document.querySelector('.question button[value=yes]').click()`)
	b.over(1)
	b.wait(`document.querySelector('#notice').hidden`)
	var want strings.Builder
	for i := range 30 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if got := eval[string](b, `document.querySelector('.step-console').textContent`); strings.TrimSpace(
		got) != strings.TrimSpace(want.String()) {
		t.Errorf("after three cuts the output is %q", got)
	}
	if n := eval[int](
		b, `document.querySelectorAll('.said-text').length * 100 + document.querySelectorAll('.card').length * 10 + document.querySelectorAll('.step').length`); n != 111 {
		t.Errorf("texts, files and code are there %d times", n)
	}
	if got := a.reads("made.txt"); got != "x" {
		t.Errorf("saved: %q; the page says %q, and of the turn %q", got, b.text("#notice"), b.text("#turn-1"))
	}
}

// TestAskBroken stops the service in the middle of a turn.
func TestAskBroken(t *testing.T) {
	a := ask(t)
	b := open(t, light)
	b.goTo(a.url + "/ask")
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{
		{Code: "import time\nprint('begun', flush=True)\ntime.sleep(50)"}}, Text: "never"})
	b.prompt("Wait")
	b.wait(`document.querySelector('#step-1-1 .step-console')?.innerText.includes('begun')`)
	a.kill()
	b.wait(`document.querySelector('#notice').innerText.includes('The connection is lost')`)
	a.restart()
	b.wait(`document.querySelector('#notice').innerText.includes('The service was stopped while this turn ran')`)
	b.wait(`document.querySelector('#turn-1 .turn-end').innerText.includes('cut short')`)
	b.forgive()
	here := eval[string](b, "location.href")
	a.model.Rescript(providertest.Turn{Text: "Still here."})
	b.goTo(here)
	b.prompt("And now?")
	b.over(2)
	if got := b.text("#turn-2 .said-text"); got != "Still here." {
		t.Errorf("after a restart it goes on with %q", got)
	}
}

// TestAskWithoutScripts asks with a plain form.
func TestAskWithoutScripts(t *testing.T) {
	a := ask(t)
	b := open(t, narrow)
	b.scriptsOff()
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{
		{Code: "open('made.txt', 'w').write('x')\nprint('plain')"}}, Text: "Made."})
	b.goTo(a.url + "/ask")
	b.do(chromedp.SendKeys(chromedp.CSS("#prompt"), "Make a file"))
	b.click("#send")
	b.do(chromedp.WaitVisible(chromedp.CSS("#turn-1 .step-console")))
	b.shoot("ask-plain")
	b.click(`#output-1-o1 .settle button.primary`)
	b.do(chromedp.WaitVisible(chromedp.CSS("#output-1-o1 .where")))
	if made, err := os.ReadFile(filepath.Join(a.project, "made.txt")); err != nil || string(made) != "x" {
		t.Errorf("saved: %q, %v", made, err)
	}
}

// TestAskHostile has a model and its code say what would take the page over if
// any of it were taken for more than text.
func TestAskHostile(t *testing.T) {
	a := ask(t)
	b := open(t, light)
	b.goTo(a.url + "/ask")
	owned := "<script>window.owned = 1</script><img src=x onerror=window.owned=1>"
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: hostile}},
		Text: owned + "\n\n[a](javascript:window.owned=1) ![x](http://192.0.2.1/x.png) <iframe src=/ui/></iframe>\n\n" +
			"```html\n" + owned + "\n```\n\n`" + owned + "`\n\nevent: ended\ndata: {}\n"})
	b.prompt(owned)
	b.over(1)
	unharmed := func(where string) {
		t.Helper()
		b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 60)) }`)
		b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
		if eval[bool](b,
			`'owned' in window || [...document.querySelectorAll('main script, main iframe, main object, main embed, main [onerror], main [onload], .said-text img')].length > 0`) {
			t.Errorf("%s: hostile content became part of the page", where)
		}
	}
	unharmed("as it came")
	if got := b.text(".step-console"); !strings.Contains(got, "<script>window.owned = 1</script>") ||
		!strings.Contains(got, "event: result") {
		t.Errorf("the output is not shown as it is: %q", got)
	}
	b.run(`scrollTo(0, 0)`)
	b.shoot("ask-hostile")
	b.goTo(eval[string](b, "location.href"))
	b.over(1)
	unharmed("loaded again")
	for _, file := range eval[[]string](b, `[...document.querySelectorAll('.card-foot a')].map((a) => a.href)`) {
		_, header, _ := a.fetch(strings.TrimPrefix(strings.TrimSuffix(file, "?download=1"), a.url))
		for _, want := range []struct{ name, value string }{{"X-Content-Type-Options", "nosniff"},
			{"Content-Security-Policy", "sandbox"}, {"Content-Disposition", "attachment"}} {
			if got := header.Get(want.name); !strings.Contains(got, want.value) {
				t.Errorf("%s: %s is %q", file, want.name, got)
			}
		}
	}
	b.goTo(a.url + "/ask")
	unharmed("the list")
}
