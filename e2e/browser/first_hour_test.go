package browser

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	_ "modernc.org/sqlite" // to have a day go by

	"github.com/airlock-run/airlock/e2e/indextest"
)

// person counts what a person does: clicks, drops, what is typed in one go, and keys.
type person struct {
	*tab
	actions []string
}

func (p *person) act(what string, do func()) {
	p.t.Helper()
	p.actions = append(p.actions, what)
	do()
}

// drops drops a file on the page.
func (b *tab) drops(name, content string) {
	b.t.Helper()
	b.run(`const data = new DataTransfer(); data.items.add(new File([` + quote(content) + `], ` + quote(name) + `));
		for (const kind of ['dragenter', 'dragover', 'drop'])
			document.querySelector('main').dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }))`)
}

// cell writes into the last cell of a notebook, which is empty, and runs it.
func (p *person) cell(code string) {
	p.t.Helper()
	p.act("writes code", func() {
		p.wait(`[...document.querySelectorAll('.cell')].at(-1)?.querySelector('.cm-content')`)
		p.run(`const editor = [...document.querySelectorAll('.cell .cm-content')].at(-1); editor.focus();
			const data = new DataTransfer(); data.setData('text/plain', ` + quote(code) + `);
			editor.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	})
	p.act("Shift+Enter", func() { p.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(8))) })
}

// TestFirstPlot is how many actions lie between the first page and the first plot of a file, for somebody new.
func TestFirstPlot(t *testing.T) {
	s := shared(t)
	p := &person{tab: open(t, light)}
	p.goTo(s.url + "/")
	firstPlot(p, "import pandas as pd, matplotlib.pyplot as plt\npd.read_csv('sales.csv').plot.bar(x='month')\nplt.show()")
	p.wait(`document.querySelector('.cell-out .out-image')?.naturalWidth > 100`)
	t.Logf("%d actions: %s", len(p.actions), strings.Join(p.actions, ", "))
	if len(p.actions) > 6 {
		t.Errorf("%d actions to the first plot: %q", len(p.actions), p.actions)
	}
}

// firstPlot goes from the first page to a notebook, and runs code on a file that is dropped there.
func firstPlot(p *person, code string) {
	p.t.Helper()
	p.act("clicks Notebooks", func() {
		p.run(`[...document.querySelectorAll('.tabs-main a')].find((a) => a.innerText.includes('Notebooks')).click()`)
		p.wait(`location.pathname.endsWith('/notebooks') && document.querySelector('.new .primary')`)
	})
	p.act("clicks New notebook", func() {
		p.click(".new .primary")
		p.wait(`document.querySelector('#notebook')?.dataset.ready`)
	})
	p.act("drops a CSV", func() {
		p.drops("sales.csv", "month,units\nJan,5\nFeb,9\nMar,7\n")
		p.wait(`document.querySelector('#files').innerText.includes('sales.csv')`)
	})
	p.cell(code)
}

// TestFirstHour is the first hour of somebody with data: an interactive plot, a long frame that is sorted, a package
// that is missing and gets installed with permission, output that is longer than the page shows, a link to it, and all
// of it once more the next day, after the service was started again.
func TestFirstHour(t *testing.T) {
	x := indextest.New(t, skip)
	s := &service{t: t, log: t.Output(), data: ownFolder(t), env: x.Env(),
		args: []string{"--network-allow", "packages", "--network-private", x.Subnet}}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	p := &person{tab: open(t, look{"hour", false, 1440, 900})}
	p.goTo(s.url + "/")
	firstPlot(p, "import pandas as pd, plotly.express as px\npx.bar(pd.read_csv('sales.csv'), x='month', y='units')")
	p.wait(`document.querySelector('.cell-out .out-frame[src$="/plotly"]')`)
	p.idle()
	if got := p.text(".cell-out .out-console"); got != "" || eval[int](p.tab, `document.querySelectorAll('.cell-out > *').length`) != 1 {
		t.Errorf("beside the plot stands %q", got)
	}
	p.cell("f = pd.DataFrame({'n': range(2000), 'word': [f'w{i}' for i in range(2000)]})\nf")
	p.idle()
	p.grid()
	p.wait(`count() === '2,000 rows × 2 columns'`)
	p.run(`press(head('n'))`)
	p.wait(`head('n').ariaSort === 'ascending'`)
	p.run(`press(head('n'))`)
	p.row("1999|1999|w1999")
	firstPackage(p)
	p.cell("f.head(3).to_csv('first.csv'); print('rows:', len(f))")
	p.idle()
	p.saved()
	notebook := eval[string](p.tab, "location.href")

	// A report of more than a page keeps: all of it is there to be downloaded.
	const line, lines = "line of a long report\n", 100_000
	p.goTo(s.url + "/")
	p.runs(fmt.Sprintf("# A long report\nfor i in range(%d): print(%q)", lines, strings.TrimSpace(line)))
	if got := p.text(".cut-output"); !strings.Contains(got, "2.1 MiB") || !strings.Contains(got, "1 MiB") {
		t.Errorf("of both sizes it says %q", got)
	}
	size := eval[int](p.tab, `fetch(document.querySelector('.cut-output a').href).then((r) => r.text()).then((t) => t.length)`)
	if size != lines*len(line) {
		t.Errorf("the download has %d characters, want %d", size, lines*len(line))
	}
	if got := p.text("h1"); got != "A long report" {
		t.Errorf("the run is called %q", got)
	}
	p.click(".rename > summary")
	p.fill(".rename input[name=name]", "Report of March")
	p.click(".rename button")
	p.wait(`document.querySelector('h1')?.innerText === 'Report of March'`)
	p.run(`navigator.clipboard.writeText = async (text) => { window.copied = text }`)
	p.click(".share-run button")
	p.wait(`window.copied?.includes('/share/') && document.querySelector('.shared-link:not([hidden])')`)
	run, link := eval[string](p.tab, "location.href"), eval[string](p.tab, "window.copied")

	other := open(t, light)
	other.goTo(link)
	other.wait(`document.querySelector('h1')?.innerText === 'Report of March' && document.querySelector('.cell-code .tok-comment')`)

	// The next day: the service was started again meanwhile, and all is opened in another tab.
	p.goTo(s.url + "/")
	s.stop()
	s.aDayBack()
	s.restart()
	other.goTo(s.url + "/runs")
	other.wait(`document.querySelector('.past-title')?.innerText === 'Report of March'`)
	other.goTo(run)
	other.wait(`document.querySelector('#output')?.innerText.includes('line of a long')`)
	if got := other.text("#result .warning"); got != "The program printed more than is shown. stdout.txt, which had all of it, has expired." {
		t.Errorf("of the download, which is kept for a day, it says %q", got)
	}
	other.goTo(link)
	other.wait(`document.querySelector('h1')?.innerText === 'Report of March'`)
	nextDay(&person{tab: other}, notebook)
}

// aDayBack sets what a stopped service has noted back by a day: when things were made, and until when they are kept.
func (s *service) aDayBack() {
	s.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.data, "index.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	for _, at := range []string{"files.created_us", "files.expires_us", "sessions.created_us", "sessions.expires_us",
		"runs.created_us", "runs.started_us", "runs.finished_us"} {
		table, column, _ := strings.Cut(at, ".")
		if _, err := db.Exec("UPDATE " + table + " SET " + column + " = " + column + " - 86400000000"); err != nil {
			s.t.Fatal(err)
		}
	}
}

// firstPackage imports what is not there, and installs it from the line that says so.
func firstPackage(p *person) {
	p.t.Helper()
	p.cell("import greeting\nprint(greeting.greet())")
	p.wait(`[...document.querySelectorAll('.cell')].some((c) => c.dataset.state === 'error')`)
	p.idle()
	p.wait(`[...document.querySelectorAll('.cell-cuts button')].some((b) => b.innerText.startsWith('Install greeting'))`)
	p.run(`[...document.querySelectorAll('.cell-cuts button')].find((b) => b.innerText.startsWith('Install greeting')).click()`)
	p.wait(`document.querySelector('#look input[name=names]')?.value === 'greeting'`)
	if got := p.text("#look-body"); !strings.Contains(got, "allowed by the operator") {
		p.t.Errorf("it does not say by whose permission: %s", got)
	}
	p.run(`document.querySelector('#look form').requestSubmit()`)
	p.wait(`document.querySelector('#look [role=status]')?.innerText.startsWith('Installed: greeting')`)
	p.run(`document.querySelector('#look').close()
		document.querySelector('.cell[data-state=error] .cell-run').click()`)
	p.wait(`!document.querySelector('.cell[data-state=error]')`)
	p.idle()
	p.wait(`document.querySelector('main').innerText.includes('hello from a package')`)
}

// nextDay opens a notebook whose interpreter is gone: outputs and files are there, it says that the variables are not,
// and offers what brings them back.
func nextDay(p *person, notebook string) {
	p.t.Helper()
	p.goTo(notebook)
	p.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell-out .out-frame[src$="/plotly"]')`)
	p.grid()
	p.wait(`count() === '2,000 rows × 2 columns'`)
	p.wait(`document.querySelector('main').innerText.includes('hello from a package')`)
	p.wait(`document.querySelector('#files').innerText.includes('first.csv') && document.querySelector('#files').innerText.includes('sales.csv')`)
	p.wait(`document.querySelector('#left').innerText.startsWith('Variables are gone; files are there.')`)
	p.examine("next-day")
	p.axeInEachLook("the next day")
	p.cell("f")
	p.idle()
	p.wait(`document.querySelectorAll('.cell')[4].innerText.includes("name 'f' is not defined")`)
}
