package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/providertest"
)

// TestAskEnds shows how code ends, and a turn that is stopped.
func TestAskEnds(t *testing.T) {
	a := ask(t)
	b := open(t, light)
	b.goTo(a.url + "/ask")
	a.model.Rescript(
		providertest.Turn{Steps: []providertest.Step{{Code: "import sys\nprint('\\033[32mfine\\033[0m')\nprint('careful', file=sys.stderr)"}}, Pause: true},
		providertest.Turn{Steps: []providertest.Step{{Code: "print('a' * 20000)\nfor n in range(200): print(n)\nraise ValueError('no such column')"}}, Pause: true},
		providertest.Turn{Text: "It has no such column."})
	b.prompt("Try")
	b.over(1)
	for _, c := range []struct{ step, outcome, says string }{
		{"1", "OK", "fine"}, {"2", "FAILED, exit code 1", "ValueError: no such column"},
	} {
		if got := b.text("#step-1-" + c.step + " .step-head"); !strings.Contains(got, c.outcome) {
			t.Errorf("step %s is headed %q", c.step, got)
		}
		if got := eval[string](b, `document.querySelector('#step-1-`+c.step+` .step-console').textContent`); !strings.Contains(got, c.says) {
			t.Errorf("step %s has printed %q", c.step, got)
		}
	}
	if got := b.text("#step-1-1 .step-head"); !strings.Contains(got, "with warnings") {
		t.Errorf("stderr of code that went well is shown as %q", got)
	}
	if tall := eval[float64](b, `document.querySelector('#step-1-2 .step-console').getBoundingClientRect().height`); tall > 400 {
		t.Errorf("a long result is %v px tall", tall)
	}
	if wide := eval[bool](b, `document.querySelector('#step-1-2 .step-console').scrollWidth > document.querySelector('#step-1-2 .step-console').clientWidth`); wide {
		t.Error("a long line does not wrap")
	}
	b.shoot("ask-ends")

	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "import time\nprint('begun', flush=True)\ntime.sleep(50)"}}, Text: "never"})
	b.prompt("Wait")
	b.wait(`document.querySelector('#step-2-1 .step-console')?.innerText.includes('begun')`)
	b.shoot("ask-running")
	b.do(chromedp.KeyEvent("\x1b"))
	b.over(2)
	if got := b.text("#turn-2 .turn-end"); !strings.Contains(got, "stopped") {
		t.Errorf("a stopped turn ends with %q", got)
	}
}

// TestAskConsent asks a provider elsewhere: nothing leaves before somebody
// agreed, what cannot be shown is not marked, and files of the project go too.
func TestAskConsent(t *testing.T) {
	remote := providertest.NewOpenAI(t)
	a := ask(t, "OPENAI_API_KEY="+providertest.OpenAIKey, "OPENAI_BASE_URL="+remote.URL+"/v1")
	b := open(t, light)
	b.goTo(a.url + "/ask")
	b.choose("#provider", provider.OpenAI)
	b.choose("#model", "gpt-5")
	b.choose("#project", "atlas")
	b.give("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
	b.click("#browse")
	b.wait(`document.querySelector('.browser [data-at="data"]')`)
	b.click(`.browser [data-at="data"]`)
	b.wait(`document.querySelector('.browser [data-path="data/rates.csv"]')`)
	b.click(`.browser [data-path="data/rates.csv"]`)
	b.wait(`document.querySelector('#inputs input[name=path]')`)
	b.shoot("ask-browse")
	remote.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "print(1)", Stdout: "1\n"}}, Text: "One."})
	b.prompt("Look at the rates")
	b.wait(`document.querySelectorAll('.question [name=pick]').length === 2`)
	b.shoot("ask-consent")
	if got := b.text(".question"); !strings.Contains(got, "OpenAI (127.0.0.1") || !strings.Contains(got, "Careful:") || !strings.Contains(got, "data/rates.csv") {
		t.Errorf("the question is %q", got)
	}
	if got := eval[[]bool](b, `[...document.querySelectorAll('.question [name=pick]')].map((box) => box.checked)`); len(got) != 2 || got[0] == got[1] {
		t.Errorf("marked: %v, want the one that is nothing to be careful about", got)
	}
	if remote.Count(providertest.OpUpload) != 0 {
		t.Error("a file was sent before anybody agreed")
	}
	b.click(".question button[value=yes]")
	b.over(1)
	if got := b.text("#turn-1"); !strings.Contains(got, "You agreed to send 1 of 2 files to OpenAI") || !strings.Contains(got, "rates.csv") || !strings.Contains(got, "One.") {
		t.Errorf("the turn is %q", got)
	}
	if n := remote.Count(providertest.OpUpload); n != 1 {
		t.Errorf("%d files were sent", n)
	}
	if got := b.text("#clock"); !strings.Contains(got, "expires in 19:") && !strings.Contains(got, "expires in 20:00") {
		t.Errorf("the clock says %q", got)
	}
	b.run(`window.confirm = () => true`)
	b.click(`form[action$="/close"] button`)
	b.wait(`document.querySelector('.cleaned')`)
	if left := remote.Objects(); len(left) > 0 {
		t.Errorf("left at the provider: %v", left)
	}
}

// TestAskBroken stops the service in the middle of a turn.
func TestAskBroken(t *testing.T) {
	a := ask(t)
	b := open(t, light)
	b.goTo(a.url + "/ask")
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "import time\nprint('begun', flush=True)\ntime.sleep(50)"}}, Text: "never"})
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
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "open('made.txt', 'w').write('x')\nprint('plain')"}}, Text: "Made."})
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
		Text: owned + "\n\n[a](javascript:window.owned=1) ![x](http://192.0.2.1/x.png) <iframe src=/ui/></iframe>\n\n```html\n" + owned + "\n```\n\n`" + owned + "`\n\nevent: ended\ndata: {}\n"})
	b.prompt(owned)
	b.over(1)
	unharmed := func(where string) {
		t.Helper()
		b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 60)) }`)
		b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
		if eval[bool](b, `'owned' in window || [...document.querySelectorAll('main script, main iframe, main object, main embed, main [onerror], main [onload], .said-text img')].length > 0`) {
			t.Errorf("%s: hostile content became part of the page", where)
		}
	}
	unharmed("as it came")
	if got := b.text(".step-console"); !strings.Contains(got, "<script>window.owned = 1</script>") || !strings.Contains(got, "event: result") {
		t.Errorf("the output is not shown as it is: %q", got)
	}
	b.run(`scrollTo(0, 0)`)
	b.shoot("ask-hostile")
	b.goTo(eval[string](b, "location.href"))
	b.over(1)
	unharmed("loaded again")
	for _, file := range eval[[]string](b, `[...document.querySelectorAll('.card-foot a')].map((a) => a.href)`) {
		_, header, _ := a.fetch(strings.TrimPrefix(strings.TrimSuffix(file, "?download=1"), a.url))
		for _, want := range []struct{ name, value string }{{"X-Content-Type-Options", "nosniff"}, {"Content-Security-Policy", "sandbox"}, {"Content-Disposition", "attachment"}} {
			if got := header.Get(want.name); !strings.Contains(got, want.value) {
				t.Errorf("%s: %s is %q", file, want.name, got)
			}
		}
	}
	b.goTo(a.url + "/ask")
	unharmed("the list")
}
