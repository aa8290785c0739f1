package browser

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	jsonFails = "import json\ndef load(text):\n    return json.loads(text)\nload('x')"
	fails     = "import openpyxl_templates"
)

// folded checks that what an element says of json's failure is folded to the own lines, with all of it still there.
func (b *tab) folded(element string) {
	b.t.Helper()
	at := `document.querySelector(` + quote(element) + `)`
	b.wait(at + `?.querySelector('details.frames > summary')`)
	if got := b.text(element + " .frames > summary"); got != "3 frames of libraries" {
		b.t.Errorf("the fold says %q", got)
	}
	shown := eval[string](b, at+`.innerText`)
	if strings.Contains(shown, "decoder.py") || !strings.Contains(shown, "json.loads(text)") ||
		!strings.Contains(shown, "JSONDecodeError: Expecting value") {
		b.t.Errorf("folded: %q", shown)
	}
	b.run(at + `.querySelector('summary').click()`)
	b.wait(at + `.querySelector('details').open`)
	all := eval[string](b, `(() => { getSelection().selectAllChildren(`+at+`); return getSelection().toString() })()`)
	own, library := strings.Index(all, "load('x')"), strings.Index(all, "decoder.py")
	message := strings.Index(all, "Expecting")
	if own < 0 || library < own || message < library || strings.Contains(all, "frames of") ||
		strings.Count(all, "json/decoder.py") != 2 {
		b.t.Errorf("copied: %q", all)
	}
	b.run(`getSelection().empty(); ` + at + `.querySelector('summary').click()`)
}

// hinted checks that the hint of an element is there once, and not in the colour of errors.
func (b *tab) hinted(element string) {
	b.t.Helper()
	at := `document.querySelector(` + quote(element) + `)`
	b.wait(at + `?.querySelector('.hint')`)
	if got := b.text(element + " .hint"); !strings.HasPrefix(got, "airlock: openpyxl_templates") {
		b.t.Errorf("the hint says %q", got)
	}
	if n := eval[int](b, at+`.textContent.split('airlock: ').length - 1`); n != 1 {
		b.t.Errorf("the hint is there %d times", n)
	}
	colour := func(of string) string {
		return eval[string](b, `getComputedStyle(`+at+`.querySelector('`+of+`')).color`)
	}
	if colour(".hint") == colour(".err") {
		b.t.Error("the hint looks like an error")
	}
}

// TestRunFailure folds the traceback of a program when it ends, and when its page is opened again.
func TestRunFailure(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs(jsonFails)
	b.folded("#output")
	b.examine("run-folded")
	b.goTo(eval[string](b, "location.href"))
	b.folded("#output")

	b.goTo(s.url + "/")
	b.runs(fails)
	b.hinted("#output")
	b.examine("run-hint")
	b.axeInEachLook("a hint")
}

// TestNotebookFailure folds the tracebacks of cells, also of a notebook that is opened again.
func TestNotebookFailure(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	column := "import pandas as pd\npd.DataFrame({'a': [1]})['b']"
	b.notebook(s, jsonFails, fails, column)
	for i := range 3 {
		b.run(`document.querySelectorAll('.cell-run')[` + strconv.Itoa(i) + `].click()`)
		b.idle()
	}
	seen := func() {
		b.folded(".cell:nth-of-type(1) .out-error")
		b.hinted(".cell:nth-of-type(2) .out-error")
		b.wait(`document.querySelector('.cell:nth-of-type(3) .out-error .frames')`)
		shown := eval[string](b, `document.querySelector('.cell:nth-of-type(3) .out-error').innerText`)
		if strings.Contains(shown, "site-packages") || strings.Contains(shown, ".pyx") ||
			!strings.Contains(shown, "['b']") || strings.Count(shown, "KeyError: 'b'") != 2 {
			t.Errorf("a missing column: %q", shown)
		}
	}
	seen()
	b.examine("notebook-folded")
	b.axeInEachLook("a folded traceback")
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	seen()
}

// TestDurationWords has the page say times as the service does.
func TestDurationWords(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.wait(`performance.getEntriesByType('resource').some((e) => /\/words/.test(e.name))`)
	times := []float64{0, 0.4, 1, 9.5, 10, 130, 999, 1000, 1200, 59_000, 60_000, 90_000, 3_600_000, 5_400_000}
	list, err := json.Marshal(times)
	if err != nil {
		t.Fatal(err)
	}
	said := eval[[]string](b, `(async () => {
		const { duration } = await import(performance.getEntriesByType('resource').find((e) => /\/words/.test(e.name)).name);
		return `+string(list)+`.map(duration) })()`)
	for i, ms := range times {
		if want := engine.DurationText(time.Duration(ms * float64(time.Millisecond))); said[i] != want {
			t.Errorf("%v ms: %q, want %q", ms, said[i], want)
		}
	}
}

// What failed is folded in a copy and in an export as on the page, and a cell of Bash that failed is marked when the
// notebook is opened again, though Bash puts out no error.
func TestFailureKept(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, jsonFails)
	b.runAll()
	b.folded(".cell-out")
	b.saved()
	export := b.exported("#export-html")
	if strings.Count(export, `<details class="frames"><summary>3 frames of libraries</summary>`) != 1 ||
		!strings.Contains(export, "decoder.py") {
		t.Errorf("the export does not fold frames: %.2000s", export)
	}
	b.run(`document.querySelector('#share').click(); document.querySelector('#look form').requestSubmit()`)
	b.wait(`document.querySelector('#look input[readonly]')`)
	link := eval[string](b, `document.querySelector('#look input[readonly]').value`)
	other := open(t, light)
	other.goTo(link)
	other.folded(".cell-out")

	b.goTo(s.url + "/notebooks/new?language=bash")
	b.wait(`document.querySelector('.cm-content')`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"), "echo printed; (exit 3)"))
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell').dataset.state === 'error'`)
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell').dataset.state === 'error'`)
}
