package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// notebook opens a notebook of cells, each of a kind: code unless it begins with "# md".
func (b *tab) notebook(s *service, sources ...string) {
	b.t.Helper()
	cells := make([]map[string]any, len(sources))
	for i, source := range sources {
		kind := "code"
		if text, ok := strings.CutPrefix(source, "# md\n"); ok {
			kind, source = "markdown", text
		}
		cells[i] = map[string]any{"cell_type": kind, "source": source, "metadata": map[string]any{}}
		if kind == "code" {
			cells[i]["outputs"], cells[i]["execution_count"] = []any{}, nil
		}
	}
	text, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 4, "metadata": map[string]any{},
		"cells": cells})
	if err != nil {
		b.t.Fatal(err)
	}
	b.openNotebook(s, string(text))
	// Tests press what is in them.
	b.wait(fmt.Sprintf(`document.querySelectorAll('.cell').length >= %d`, min(len(sources), 10)))
}

// openNotebook opens a file as a notebook, as somebody who chooses it does.
func (b *tab) openNotebook(s *service, text string) {
	b.t.Helper()
	name := filepath.Join(b.t.TempDir(), "analysis.ipynb")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.goTo(s.url + "/notebooks")
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#import"), []string{name}))
	b.wait(`document.querySelector('#notebook')?.dataset.ready`)
}

// runAll runs the cells of a notebook, and waits until all are done.
func (b *tab) runAll() {
	b.t.Helper()
	b.run(`document.querySelector('#run-all').click()`)
	b.idle()
}

func (b *tab) idle() {
	b.t.Helper()
	b.wait(`document.querySelector('#interrupt').disabled && ![...document.querySelectorAll('.cell-count')].some((c) => c.textContent === '[*]')`)
}

func (b *tab) saved() {
	b.t.Helper()
	b.wait(`document.querySelector('#saved').textContent === 'saved'`)
}

// TestNotebook goes the way of somebody with a CSV: drop, cells that share variables and
// files, rich output, a reload, and the file that Jupyter opens.
func TestNotebook(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "# md\n# Sales\n\nA *first* look, with $e^{i\\pi} = -1$.\n\n- one\n- two",
		"import pandas as pd\nsales = pd.read_csv('sales.csv')\nsales",
		"import matplotlib.pyplot as plt\nsales.plot.bar(x='month', y='units')\nplt.show()\nprint('\\033[32mgreen\\033[0m')",
		"from IPython.display import display, HTML, JSON, Latex, SVG\n"+
			"display({'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'x': ['a', 'b'], 'y': [3, 5]}], 'layout': {'height': 260}}}, raw=True)\n"+
			"display({'application/vnd.vegalite.v5+json': {'mark': 'line', 'data': {'values': [{'x': 1, 'y': 2}, {'x': 2, 'y': 5}]}, "+
			"'encoding': {'x': {'field': 'x', 'type': 'quantitative'}, 'y': {'field': 'y', 'type': 'quantitative'}}}}, raw=True)\n"+
			"display(HTML('<b id=bold>bold</b>'), JSON({'a': [1, 2]}), Latex('$x^2$'))\nlen(sales)")
	csv := filepath.Join(t.TempDir(), "sales.csv")
	if err := os.WriteFile(csv, []byte("month,units\nJan,5\nFeb,9\nMar,7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#upload"), []string{csv}))
	b.wait(`document.querySelector('#files').innerText.includes('sales.csv')`)
	b.runAll()
	if got := b.text("#notice"); got != "" {
		t.Errorf("it says %q", got)
	}
	b.wait(`document.querySelector('.cell-text math') && document.querySelector('.cell-text em')`)
	for _, want := range []string{".grid td.number", ".out-image", ".out-frame[src$='/plotly']",
		".out-frame[src$='/vega']",
		".out-frame[src$='/html']", ".cell-out details", ".out-math math", ".cell-out .green"} {
		if !eval[bool](b, `!!document.querySelector(`+quote(want)+`)`) {
			t.Errorf("there is no %s", want)
		}
	}
	// Browsers draw frames when they come into sight.
	b.run(`for (const f of document.querySelectorAll('.out-frame')) { f.scrollIntoView(); await new Promise((r) => setTimeout(r, 250)) }`)
	b.wait(`document.querySelector('.out-frame[src$="/html"]').style.height !== '40px'`)
	b.wait(`document.querySelector('#variables').innerText.includes('sales')`)
	b.saved()
	b.wait(`[...document.querySelectorAll('.out-frame')].every((f) => f.style.height !== '420px')`)
	b.examine("notebook")
	b.axeInEachLook("notebook")

	// It is all there after a reload, in another tab, and as a file.
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook').dataset.ready`)
	b.wait(`document.querySelectorAll('.cell').length === 4 && document.querySelector('.out-image')`)
	if got := eval[string](b, `document.querySelector('#title').value`); got != "analysis" {
		t.Errorf("after the reload it is called %q", got)
	}
	b.goTo(s.url + "/notebooks")
	if got := b.text(".rows"); !strings.Contains(got, "analysis") {
		t.Errorf("the list has %q", got)
	}
	b.examine("notebooks")
	b.axeInEachLook("notebooks")
}

// TestNotebookBegins looks at a new notebook whose browser does not say what it kept:
// there is a cell to write in, and what is written there stays.
func TestNotebookBegins(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.early(`const open = indexedDB.open.bind(indexedDB); let wake; const woken = new Promise((r) => { wake = r }); window.wake = wake;
		indexedDB.open = (...a) => { const real = open(...a); const late = {};
			for (const on of ['onsuccess', 'onerror', 'onupgradeneeded']) Object.defineProperty(late, on, { set: (f) => { real[on] = on === 'onsuccess' ? () => woken.then(f) : f } });
			Object.defineProperty(late, 'result', { get: () => real.result });
			return late }`)
	b.goTo(s.url + "/notebooks/new")
	b.wait(`document.querySelector('.cell .cm-content')`) // ready to write: the store has not answered
	b.shoot("notebook-new")
	b.seen(narrow)
	for _, words := range []string{"ready", "not started"} {
		b.run(`document.querySelector('#state').textContent = ` + quote(words))
		if !eval[bool](b, `document.querySelector('#run-all').getBoundingClientRect().top >= document.querySelector('#state').getBoundingClientRect().bottom`) {
			t.Errorf("on a phone the buttons are beside the state %q", words)
		}
	}
	b.seen(light)
	b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"), "print(6 * 7)"))
	b.run(`wake()`)
	b.wait(`document.querySelector('#notebook').dataset.ready`)
	if got := b.text("#cells"); !strings.Contains(got, "print(6 * 7)") {
		t.Errorf("the cells are %q", got)
	}
	b.runAll()
	b.wait(`document.querySelector('.cell-out').innerText.trim() === '42'`)
	b.axeInEachLook("new notebook")
}

// TestNotebookInterrupt stops a cell, restarts the interpreter and is asked for input.
func TestNotebookInterrupt(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "x = 41\nimport time\nprint('begun', flush=True)\ntime.sleep(60)", "print('never')")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell-out').innerText.includes('begun')`)
	b.run(`document.querySelector('#interrupt').click()`)
	b.idle()
	b.wait(`document.querySelector('.cell-out').innerText.includes('KeyboardInterrupt')`) // it is drawn with the next frame
	if eval[bool](b, `document.querySelector('#cells').innerText.includes('never\n')`) {
		t.Error("the cell after the interrupted one ran")
	}
	b.notebook(s, "name = input('Who? ')\nprint('hello', name)")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell-input input')`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cell-input input"), "Ada\r"))
	b.idle()
	b.wait(`document.querySelector('.cell-out').innerText.includes('Who? Ada\nhello Ada')`)
	b.run(`document.querySelector('#restart').click()`)
	b.wait(`document.querySelector('#state').textContent === 'restarted'`)
}

// TestNotebookFile has nbformat validate what the page writes, and executes it with its reader.
func TestNotebookFile(t *testing.T) {
	python := filepath.Join(installJupyterLab(t), "python")
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "# md\ntext with *stars*", "print('out')\n1 + 1", "raise ValueError('no')")
	b.runAll()
	b.saved()
	session := eval[string](b, `location.pathname.split('/').pop()`)
	answer, err := http.Get(strings.TrimSuffix(s.url, "/ui") + "/api/v1/sessions/" + session +
		"/fs/read?path=analysis.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	cmd := exec.Command(python, "-c", `import sys, nbformat
n = nbformat.read(sys.stdin, as_version=nbformat.NO_CONVERT)
nbformat.validate(n)
print([c.cell_type for c in n.cells], n.cells[1].outputs[1].data["text/plain"], n.cells[2].outputs[0].ename, n.cells[1].execution_count)`)
	cmd.Stdin = answer.Body
	out, err := cmd.CombinedOutput()
	if want := "['markdown', 'code', 'code'] 2 ValueError 1\n"; err != nil || string(out) != want {
		t.Errorf("nbformat says %v: %s, want %s", err, out, want)
	}
}

// validated has nbformat, the library that Jupyter reads notebooks with, read a notebook without converting it, and validate it.
func validated(t *testing.T, text string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(installJupyterLab(t), "python"), "-c", `import sys, nbformat
nbformat.validate(nbformat.read(sys.stdin, as_version=nbformat.NO_CONVERT))`)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("nbformat says %v: %s", err, out)
	}
}

// TestNotebookTabs opens one notebook in two tabs of one browser: one edits at a time.
func TestNotebookTabs(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "print(1)")
	b.runAll()
	b.saved()
	ctx, leave := chromedp.NewContext(b.ctx)
	defer leave()
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as this context
		t.Fatal(err)
	}
	second := &tab{t: t, ctx: ctx, look: light}
	second.goTo(eval[string](b, "location.href"))
	second.wait(`document.querySelector('#notice').innerText.includes('Another tab edits this notebook')`)
	if !eval[bool](second, `[...document.querySelectorAll('.cell')].every((c) => c.inert)`) {
		t.Error("the second tab can edit too")
	}
	second.run(`document.querySelector('#notice button').click()`)
	second.wait(`document.querySelector('#notebook')?.dataset.ready && !document.querySelector('.read-only') && document.querySelector('.cell .cm-content')`)
	b.wait(`document.querySelector('#notice').innerText.includes('Another tab edits this notebook')`)
}

// TestNotebookRestored types, loses the service in a running cell, and goes on.
func TestNotebookRestored(t *testing.T) {
	s := &service{t: t, data: ownFolder(t)}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, light)
	b.notebook(s, "print('before', flush=True)\nimport time\ntime.sleep(100)")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell-out').innerText.includes('before')`)
	b.run(`document.querySelector('#add-code').click()`)
	b.wait(`document.querySelectorAll('.cell').length === 2`)
	b.run(`const area = document.querySelectorAll('.cell textarea')[1]; area.value = 'typed = 1'; area.dispatchEvent(new Event('input'))`)
	b.saved()
	s.kill()
	b.run(`const area = document.querySelectorAll('.cell textarea')[1]; area.value = 'typed = 2'; area.dispatchEvent(new Event('input'))`)
	b.wait(`document.querySelector('#saved').textContent === 'kept in this browser only'`)
	s.restart()
	b.wait(`document.querySelector('#notice').innerText.includes('service was restarted')`)
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.ready`)
	b.wait(`document.querySelectorAll('.cell textarea')[1]?.value === 'typed = 2'`)
	if got := b.text(".cell-out"); !strings.Contains(got, "before") {
		t.Errorf("what was printed before the end is gone: %q", got)
	}
	b.forgive()
}

// TestNotebookNumbers measures what a notebook promises. Each is printed; run with -v.
func TestNotebookNumbers(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "print(1)", "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
		"open('big.csv', 'w').write('a,b,c\\n' + ''.join(f'{i},row {i},{i * 1.5}\\n' for i in range(100_000)))")
	b.runAll()
	b.wait(`document.querySelector('#files').innerText.includes('big.csv')`)
	for i, name := range []string{"print(1)", "a plot"} {
		took := eval[[]float64](b, `(async () => {
			const cell = document.querySelectorAll('.cell')[`+string(rune('0'+i))+`], out = cell.querySelector('.cell-out'), all = [];
			for (let n = 0; n < 11; n++) {
				const start = performance.now();
				cell.querySelector('.cell-head button').click();
				while (out.children.length || n < 0) await new Promise((r) => setTimeout(r));
				while (!out.querySelector('.block, img')) await new Promise((r) => setTimeout(r));
				all.push(performance.now() - start);
				while (!document.querySelector('#interrupt').disabled) await new Promise((r) => setTimeout(r, 5));
			}
			return all.sort((a, b) => a - b) })()`)
		t.Logf("click to output of %s: median of 11 %.0f ms, best %.0f ms, worst %.0f ms", name, took[5], took[0], took[10])
	}
	b.run(`[...document.querySelectorAll('.tree-name')].find((x) => x.textContent === 'big.csv').click()`)
	b.wait(`document.querySelector('#look-body').dataset.took`)
	b.wait(`document.querySelector('#look .grid[data-ready] .grid-bar')?.innerText.includes('100,000 rows')`)
	t.Logf("a table of 100,000 rows opens in %s ms", eval[string](b, `document.querySelector('#look-body').dataset.took`))
	if n := eval[int](b, `document.querySelectorAll('#look tr').length`); n > 200 {
		t.Errorf("%d rows of the table are in the document", n)
	}
	b.run(`document.querySelector('#look regular-table').scrollTop = 1e9`)
	b.wait(`document.querySelector('#look .grid').innerText.includes('row 99999')`)
	for _, order := range []string{"ascending", "descending"} {
		b.run(`document.querySelector('#look th:nth-child(3)').dispatchEvent(new MouseEvent('mousedown', { bubbles: true, button: 0 }))`)
		b.wait(`document.querySelector('#look th:nth-child(3)').ariaSort === '` + order + `'`)
	}
	b.wait(`document.querySelector('#look tbody td:nth-child(3)').textContent === '149998.5'`)
	b.axeInEachLook("table")
	b.shoot("notebook-table")
	b.run(`document.querySelector('#look').close()`)
	took := b.manyCells(s)
	t.Logf("a notebook of 10,000 cells opens in %.0f ms", took)
	if n := eval[int](b, `document.querySelectorAll('.cell').length`); n != 10_000 {
		t.Errorf("of 10,000 cells %d are there", n)
	}
	if n := eval[int](b, `document.querySelectorAll('.cm-editor').length`); n > 100 {
		t.Errorf("%d editors for what is in sight", n)
	}
}

// manyCells opens a notebook of 10,000 cells, and says how many milliseconds the page
// takes from its address to the first editor.
func (b *tab) manyCells(s *service) float64 {
	b.t.Helper()
	b.openNotebook(s, many(10_000))
	b.wait(`document.querySelector('.cell-head button')`)
	b.run(`document.querySelector('.cell-head button').click()`) // makes the session
	b.idle()
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.took && document.querySelector('.cell .cm-content')`)
	return eval[float64](b, `Number(document.querySelector('#notebook').dataset.took)`)
}

// TestUnseenOutputs changes a long notebook at its beginning: what is far below, and was
// not looked at, is in the file as it was.
func TestUnseenOutputs(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	cells := make([]string, 200)
	for i := range cells {
		cells[i] = fmt.Sprintf(`{"cell_type":"code","metadata":{},"source":"x","execution_count":null,
			"outputs":[{"output_type":"stream","name":"stdout","text":"kept %d."}]}`, i)
	}
	b.openNotebook(s, `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[`+strings.Join(cells, ",")+"]}")
	b.wait(`document.querySelector('.cell-head button')`)
	b.run(`document.querySelector('.cell-more').click(); document.querySelector('#cell-menu [data-command=fold]').click()`)
	if n := eval[int](b, `document.querySelectorAll('.cell-out').length`); n >= 100 {
		t.Errorf("%d cells are made for what is in sight", n)
	}
	file := b.exported("#export-ipynb")
	for i := range cells {
		if !strings.Contains(file, fmt.Sprintf("kept %d.", i)) {
			t.Fatalf("the output of cell %d is lost", i)
		}
	}
	// Far below it is shown when it comes into sight, and can be run.
	b.run(`document.querySelector('.cell:last-child').scrollIntoView()`)
	b.wait(`document.querySelector('.cell:last-child .cell-out')?.innerText.includes('kept 199.')`)
}

func many(n int) string {
	return `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[` +
		strings.TrimSuffix(strings.Repeat(`{"cell_type":"code","metadata":{},"source":"x = 1","outputs":[],"execution_count":null},`, n), ",") + "]}"
}

// TestTerminal types into a shell of the sandbox, which the page joins again when it was loaded anew.
func TestTerminal(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "open('made.txt', 'w').write('by a cell')")
	b.runAll()
	b.run(`document.querySelector('#terminal-open').click()`)
	b.wait(`document.querySelector('#terminal .xterm-helper-textarea')`)
	b.do(chromedp.SendKeys(chromedp.CSS(".xterm-helper-textarea"), "cat made.txt; echo $((6*7))\r"))
	b.wait(`document.querySelector('#terminal').innerText.includes('by a cell') && document.querySelector('#terminal').innerText.includes('42')`)
	b.shoot("notebook-terminal")
	b.axeInEachLook("terminal")
	// It is as light or dark as the page, and yellow can be read on both.
	ground := `getComputedStyle(document.querySelector('#terminal .xterm-scrollable-element')).backgroundColor`
	b.seen(dark)
	b.wait(ground + ` === 'rgb(21, 23, 22)'`)
	b.seen(light)
	b.wait(ground + ` === 'rgb(241, 239, 235)'`)
	b.do(chromedp.SendKeys(chromedp.CSS(".xterm-helper-textarea"), "clear; printf '\\e[93mpa%s\\e[0m\\n' le\r"))
	pale := `[...document.querySelectorAll('#terminal .xterm-rows span')].find((e) => e.textContent === 'pale')`
	b.wait(pale)
	if got := eval[string](b, `getComputedStyle(`+pale+`).color`); got != "rgb(125, 81, 7)" {
		t.Errorf("yellow on a light ground is %s", got)
	}
	b.do(chromedp.SendKeys(chromedp.CSS(".xterm-helper-textarea"), "KEPT=still; echo set-$((40+2))\r"))
	b.wait(`document.querySelector('#terminal').innerText.includes('set-42')`)
	b.saved()
	b.run(`location.reload()`)
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('#terminal').hidden`)
	b.run(`document.querySelector('#terminal-open').click()`)
	b.wait(`document.querySelector('#terminal').innerText.includes('by a cell')`) // its last lines
	b.do(chromedp.SendKeys(chromedp.CSS(".xterm-helper-textarea"), "echo $KEPT-here\r"))
	b.wait(`document.querySelector('#terminal').innerText.includes('still-here')`)
}

// TestNotebookShared shares a notebook, and reads it in another browser.
func TestNotebookShared(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "# md\n# Hello\n\n$x^2$", "print('for you')")
	b.runAll()
	b.saved()
	b.run(`document.querySelector('#share').click(); document.querySelector('#look form').requestSubmit()`)
	b.wait(`document.querySelector('#look input[readonly]')`)
	b.axeInEachLook("share")
	link := eval[string](b, `document.querySelector('#look input[readonly]').value`)
	other := open(t, light)
	other.goTo(link)
	other.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell-text math')`)
	if got := other.text("#cells"); !strings.Contains(got, "for you") || !strings.Contains(got, "Hello") {
		t.Errorf("it shows %q", got)
	}
	other.examine("shared")
	other.axeInEachLook("shared")
	b.goTo(s.url + "/notebooks")
	row := "[...document.querySelectorAll('.row')].find(row => row.querySelector('a').href === '" + link + "')"
	b.run(`window.confirm = () => true; ` + row + `.querySelector('button').click()`)
	b.wait(`!` + row)
	other.goTo(link)
	other.wait(`document.querySelector('main').innerText.includes('nothing here')`)
}

// TestNotebookConflict has another browser write what this one edits.
func TestNotebookConflict(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "print(1)")
	b.runAll()
	b.saved()
	session := eval[string](b, `location.pathname.split('/').pop()`)
	// Another browser writes the same file.
	other := `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[{"id":"a","cell_type":"code","metadata":{},"source":["print(2)"],"outputs":[],"execution_count":null}]}`
	answer, err := http.Post(strings.TrimSuffix(s.url, "/ui")+"/api/v1/sessions/"+session+"/fs/write?path=analysis.ipynb",
		"application/octet-stream", strings.NewReader(other))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	b.run(`document.querySelector('#add-code').click()`)
	b.wait(`document.querySelector('#notice').innerText.includes('changed elsewhere')`)
	b.run(`[...document.querySelectorAll('#notice button')].find((x) => x.textContent === 'Show theirs').click()`)
	b.wait(`document.querySelector('.cell textarea')?.value === 'print(2)'`)
	b.wait(`document.querySelector('#cells').children.length === 1`)
}

// TestNotebookHostile opens a notebook whose outputs would take the page over, or call
// home, if they could.
func TestNotebookHostile(t *testing.T) {
	s := shared(t)
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		t.Errorf("somebody asked for %s", r.URL)
	}))
	defer evil.Close()
	b := open(t, light)
	b.openNotebook(s, hostileNotebook(t, evil.URL))
	b.wait(`document.querySelectorAll('.out-frame').length >= 4 && document.querySelector('.cell-text p')`)
	// Browsers draw frames when they come into sight.
	b.run(`for (const f of document.querySelectorAll('.out-frame')) { f.scrollIntoView(); await new Promise((r) => setTimeout(r, 250)) }`)
	b.wait(`[...document.querySelectorAll('.out-frame')].every((f) => !['40px', '420px'].includes(f.style.height))`)
	b.shoot("notebook-hostile")
	if eval[bool](b, `'owned' in window || document.querySelectorAll('main script, main object, main embed, main [onerror], main [onload], main a[href^="javascript"]').length > 0`) {
		t.Error("hostile content became part of the page")
	}
	// What runs in a frame, if anything ever does, has no origin: it reads nothing of ours
	// and cannot leave.
	for _, frame := range []string{"html", "plotly", "vega"} {
		code, header, _ := s.fetch("/frame/" + frame)
		policy := header.Get("Content-Security-Policy")
		for _, want := range []string{"sandbox allow-scripts;", "default-src 'none'", "frame-ancestors 'self'"} {
			if code != 200 || !strings.Contains(policy, want) {
				t.Errorf("%s: %d, the policy lacks %q: %s", frame, code, want, policy)
			}
		}
	}
	if got := eval[string](b, `(async () => { const f = document.createElement('iframe'); f.setAttribute('sandbox', 'allow-scripts'); f.src = '`+evil.URL+`/navigate';
		document.querySelector('main').append(f); await new Promise((r) => setTimeout(r, 300)); f.remove(); return 'done' })()`); got != "done" {
		t.Error(got)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	b.forgive() // what the policies refused
}
