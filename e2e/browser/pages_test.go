package browser

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// phone is the narrowest screen that the pages are made for; the others are for pictures.
var (
	phone     = look{"390-light", false, 390, 844}
	shotLooks = []look{
		{"1440-light", false, 1440, 900}, {"1440-dark", true, 1440, 900},
		{"1920-light", false, 1920, 1080}, {"1920-dark", true, 1920, 1080},
		phone, {"390-dark", true, 390, 844},
	}
)

const traceback = `"""Rates by month."""
import json

def load(name):
    with open(name) as f:
        return json.load(f)

print("reading")
load("rates.json")
`

// TestPages walks through every page in each of its states: empty, busy, failed and full.
// On a phone nothing is wider than the screen and each control can be hit with a thumb;
// axe-core finds nothing. With -shots it takes pictures in three widths, light and dark.
func TestPages(t *testing.T) {
	t.Run("empty", emptyPages)
	t.Run("keyed", func(t *testing.T) {
		s := serve(t)
		s.key("--owner", "ana")
		b := open(t, light)
		b.goTo(s.url + "/")
		b.state("sign-in")
		b.fill("#key", "ak_no")
		b.click("form .primary")
		b.wait(`document.querySelector('.problem')`)
		b.state("sign-in-refused")
	})
	t.Run("full", fullPages)
}

func emptyPages(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	for name, path := range map[string]string{
		"run": "/", "runs": "/runs", "files": "/files", "notebooks": "/notebooks", "ask": "/ask", "review": "/review",
		"projects": "/projects", "outbox": "/outbox", "usage": "/usage", "status": "/status", "tools": "/tools", "missing": "/nothing",
	} {
		b.goTo(s.url + path)
		b.wait(`document.readyState === 'complete'`)
		b.state("empty-" + name)
	}
}

func fullPages(t *testing.T) {
	a := ask(t)
	b := open(t, light)
	runs := runPages(a, b)
	for name, path := range map[string]string{
		"runs": "/runs", "runs-found": "/runs?q=sales", "runs-none": "/runs?q=nothinglikethis",
		"runs-with": "/runs?with=" + runs[0], "compare": "/runs/compare?run=" + runs[0] + "&run=" + runs[1],
		"status": "/status",
	} {
		b.goTo(a.url + path)
		b.wait(`document.readyState === 'complete'`)
		b.state(name)
	}
	notebookPages(a, b)
	b.goTo(a.url + "/files")
	b.state("files")
	askPages(a, b)
	reviewPages(a, b)
}

// runPages runs programs and returns the ids of two runs.
func runPages(a *asking, b *tab) []string {
	b.t.Helper()
	var ids []string
	ended := func(name, program string) string {
		b.goTo(a.url + "/")
		b.runs(program)
		b.run(`for (const l of document.querySelectorAll('.look')) { l.scrollIntoView(); await new Promise(requestAnimationFrame) }`)
		b.wait(`[...document.querySelectorAll('.look')].every((l) => !l.ariaBusy)`)
		b.run(`scrollTo(0, 0)`)
		b.state(name)
		ids = append(ids, eval[string](b, "location.pathname.split('/').pop()"))
		return eval[string](b, "location.href")
	}
	b.goTo(a.url + "/?example=plot")
	b.wait(`document.querySelector('.cm-content')`)
	b.state("run-example")
	ended("run-ok", plots)
	for _, kind := range []string{"image", "table"} {
		b.goTo(eval[string](b, "document.querySelector('.file."+kind+" .file-name').href"))
		b.wait(`document.readyState === 'complete'`)
		b.state("file-" + kind)
		b.run(`setTimeout(() => history.back())`) // which ends the page, and its answers
		b.wait(`document.querySelector('.file.table .file-name')`)
	}
	ended("run-failed", traceback)
	ended("run-silent", "x = 1")
	ended("run-long", "for i in range(300_000): print('line', i, 'of a long report')")
	b.goTo(a.url + "/")
	b.write("import time\nprint('working', flush=True)\ntime.sleep(600)")
	b.click("#run")
	b.wait(`document.querySelector('#output').textContent.includes('working')`)
	b.state("run-busy")
	b.click("#stop")
	b.ended()
	b.state("run-stopped")
	return ids
}

func notebookPages(a *asking, b *tab) {
	b.t.Helper()
	b.notebook(a.service, "# md\n# Sales\n\nA *first* look, with $e^{i\\pi} = -1$.",
		"import pandas as pd\nsales = pd.DataFrame({'month': ['Jan', 'Feb'], 'units': [5, 9]})\nsales.to_csv('sales.csv', index=False)\nsales",
		"import matplotlib.pyplot as plt\nsales.plot.bar(x='month', y='units')\nplt.show()", "1 / 0")
	b.runAll()
	b.saved()
	b.state("notebook")
	b.goTo(a.url + "/notebooks")
	b.state("notebooks")
	session := eval[string](b, "document.querySelector('.notebook-row a').href.split('/').pop()")
	b.goTo(a.url + "/sessions/" + session)
	b.state("session")
}

func askPages(a *asking, b *tab) {
	b.t.Helper()
	b.goTo(a.url + "/ask")
	b.state("ask")
	a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: plotSales}}, Text: plotAnswer + "\n\nSo $x^2$ holds."})
	b.give("sales.csv", salesCSV)
	b.prompt("Plot the revenue of each region by month, and give me the numbers.")
	b.over(1)
	b.wait(`[...document.querySelectorAll('.look')].every((l) => !l.ariaBusy)`)
	b.state("ask-answered")
}

func reviewPages(a *asking, b *tab) {
	b.t.Helper()
	b.goTo(a.url + "/projects")
	b.state("projects")
	b.goTo(a.url + "/review")
	b.fill("#text", strings.ReplaceAll(reviewReply, "src/server.go", "notes.txt"))
	b.fill("#project", "atlas")
	b.click(".paste .primary")
	b.wait(`document.querySelector('#decide') && document.querySelector('.keys:not([hidden])')`)
	b.state("reply")
	b.goTo(a.url + "/review")
	b.state("review")
	b.goTo(a.url + "/projects/atlas")
	b.state("timeline")
	b.goTo(a.url + "/outbox")
	b.state("outbox")
}

// state checks what a page shows now, and takes pictures of it.
func (b *tab) state(name string) {
	b.t.Helper()
	was := b.look
	for _, how := range shotLooks {
		if !*shots && how != phone {
			continue
		}
		b.seen(how)
		b.shoot(name)
	}
	if *shots {
		b.seen(was)
		return
	}
	b.seen(phone)
	for _, fault := range eval[[]string](b, thumbs) {
		b.t.Errorf("%s: %s", name, fault)
	}
	b.axe(name, allRules)
	b.seen(dark)
	b.axe(name, colourRules)
	b.seen(was)
}

// thumbs finds what is wider than a phone, controls that are too small for a thumb, less than 44
// pixels wide or high, and what pushes rows of a grid out of sight. Links within a sentence count as text.
const thumbs = `(() => {
	const found = [];
	if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the screen: ' + document.documentElement.scrollWidth);
	const inText = (e) => e.tagName === 'A' && getComputedStyle(e).display === 'inline' && e.closest('p, li, td, dd, .prose, .lead, .note')
		&& e.closest('p, li, td, dd, .prose, .lead, .note').textContent.trim() !== e.textContent.trim();
	for (const e of document.querySelectorAll('button, a[href], input:not([type=hidden]), select, textarea, summary, [role=button], [role=tab]')) {
		if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.type !== 'file') continue;
		if (e.matches('.skip, .unseen, .unseen *') || inText(e)) continue;
		const at = [e, ...(e.labels ?? [])].map((x) => x.getBoundingClientRect()).filter((r) => r.width && r.height);
		if (!at.length) continue;
		const wide = Math.max(...at.map((r) => r.width)), high = Math.max(...at.map((r) => r.height));
		if (wide < 43.5 || high < 43.5) found.push('too small, ' + Math.round(wide) + ' × ' + Math.round(high) + ': ' + e.outerHTML.slice(0, 110));
	}
	for (const grid of document.querySelectorAll('.grid[data-ready] regular-table')) {
		const head = grid.querySelector('thead').offsetHeight, counted = parseFloat(grid.style.getPropertyValue('--head'));
		if (head > counted + 1) found.push('a grid cuts its last rows off: its head has ' + head + ' pixels of ' + counted);
	}
	return found;
})()`
