package browser

import (
	"strings"
	"testing"
)

// wide is a large screen.
var wide = look{"1920", false, 1920, 1000}

// TestHistory goes through runs that came by the API and the command line: what they
// were is there, is found, shown beside another and run again with the same inputs.
func TestHistory(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	marker := "zebra" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", ""))
	s.call("POST", "/runs", map[string]any{"language": "python", "entry": "stripes.py", "args": []string{"-n", "7"},
		"code": "# " + marker + " stripes\nimport sys, matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.savefig('p.png')\n" +
			"print(sys.argv[1:], sys.stdin.read())", "stdin": "hay"})
	s.call("POST", "/runs", map[string]any{"language": "python", "keep_code": false, "code": "print('" + marker + " secret')"})
	run := s.command("run", "--server", strings.TrimSuffix(s.url, "/ui"), "-c", "print('"+marker+" from a shell')")
	if out, err := run.Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.goTo(s.url + "/runs?q=" + marker)
	got := b.text(".runs")
	for _, want := range []string{marker + " stripes", "stripes.py, from API, Go-http-client", "CLI", "Code not kept"} {
		if !strings.Contains(got, want) {
			t.Errorf("the list lacks %q: %q", want, got)
		}
	}
	b.wait(`document.querySelector('.past-plot img')?.naturalWidth > 100`)
	b.goTo(s.url + "/runs?q=" + marker + "%20hay")
	if got := eval[int](b, `document.querySelectorAll('.past').length`); got != 1 {
		t.Errorf("%d runs have the words of the first one", got)
	}
	b.click(".past-title")
	b.wait(`document.querySelector('#code')?.value.includes('stripes') && document.querySelector('#stdin')?.value === 'hay'`)
	first := eval[string](b, "location.pathname")
	b.examine("run-of-api")
	b.axeInEachLook("run of the API")
	b.click(`form[action$="/again"] button`)
	b.wait(`location.pathname !== ` + quote(first))
	b.ended()
	if got := b.text("#output"); strings.TrimSpace(got) != "['-n', '7'] hay" {
		t.Errorf("run again it prints %q", got)
	}
	b.run(`[...document.querySelectorAll('.outcome a')].find((a) => a.innerText.startsWith('Compare')).click()`)
	b.wait(`document.querySelector('.past-pick a')`)
	b.examine("compare-with")
	b.axeInEachLook("compare with")
	b.run(`document.querySelector('.past a[href$=` + quote(first) + `]').closest('.past').querySelector('.past-pick a').click()`)
	b.wait(`location.pathname.endsWith('/compare') && document.querySelector('main')?.innerText.includes('No difference')`)
	b.goTo(s.url + "/runs")
	b.seen(wide)
	b.shoot("runs")
	b.examine("runs")
	b.axeInEachLook("runs")
	where := func() string {
		return eval[string](b, `JSON.stringify([...document.querySelectorAll('.bar nav a')].map((a) => Math.round(a.getBoundingClientRect().x * 4)))`)
	}
	at := where()
	b.goTo(s.url + "/?example=walls")
	if got := where(); got != at {
		t.Errorf("the navigation moves between pages: %s, then %s", at, got)
	}
	b.seen(wide)
	b.shoot("run-example")
	b.click("#run")
	b.ended()
	if got := b.text("#output"); strings.Count(got, "refused") < 3 {
		t.Errorf("the walls: %q", got)
	}
	b.examine("run-walls")
	b.axeInEachLook("an example")
}

// Runs and notebooks are renamed where they are listed, and found by their new names.
func TestNamesInLists(t *testing.T) {
	s := &service{t: t, log: t.Output(), data: ownFolder(t)}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs("# A first look\nprint(1)")
	b.runs("print('another')")
	b.notebook(s, "open('made.txt', 'w').write('kept')")
	b.runAll()
	b.saved()
	rename := func(of, to string) {
		b.t.Helper()
		b.wait(`document.querySelector('summary[aria-label=` + quote("Rename "+of) + `]')`)
		b.run(`const d = document.querySelector('summary[aria-label=` + quote("Rename "+of) + `]').parentElement; d.open = true;
			d.querySelector('input[name=name]').value = ` + quote(to) + `; d.querySelector('form').requestSubmit()`)
		b.wait(`document.querySelector('summary[aria-label=` + quote("Rename "+to) + `]')`)
	}
	b.goTo(s.url + "/notebooks")
	rename("analysis", "Tides of March")
	b.run(`document.querySelector('.rename').open = true`)
	b.examine("rename-notebook")
	b.axeInEachLook("rename a notebook")
	b.run(`document.querySelector('.rename').open = false`)
	b.click(".row-title")
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('#title').value === 'Tides of March'`)
	b.wait(`document.querySelector('#files').innerText.includes('Tides of March.ipynb') && !document.querySelector('#files').innerText.includes('analysis.ipynb')`)
	b.wait(`document.querySelector('.cell .cm-content')?.innerText.includes('made.txt')`)

	b.goTo(s.url + "/runs?q=look")
	rename("A first look", "Ebb and flow")
	if got := eval[string](b, "location.search"); got != "?q=look" {
		t.Errorf("after the name the list is %q", got)
	}
	b.goTo(s.url + "/runs?q=ebb")
	b.wait(`document.querySelectorAll('.past').length === 1 && document.querySelector('.past-title').innerText === 'Ebb and flow'`)
	b.goTo(s.url + "/runs?q=tides%20mar")
	b.wait(`document.querySelector('main .row-title')?.innerText === 'Tides of March'`)
	b.examine("history-named")
	b.goTo(s.url + "/runs")
	b.run(`document.querySelector('.past .rename').open = true`)
	b.examine("rename-run")
	b.axeInEachLook("rename a run")
	b.run(`document.querySelectorAll('.past input[type=checkbox]').forEach((box) => box.click())`)
	b.click("#compare-button")
	b.wait(`location.pathname.endsWith('/compare') && document.querySelector('main')?.innerText.includes('another')`)
}
