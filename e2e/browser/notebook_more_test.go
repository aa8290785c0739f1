package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestRunShared shares a run with a plot, and reads it in another browser.
func TestRunShared(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs("import sys\nprint('o' * 9)\nprint('e' * 9, file=sys.stderr)\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('p.png')\n" +
		"open('t.csv', 'w').write('a,b\\n1,2\\n'); open('n.txt', 'w').write('a note')")
	b.examine("run-to-share")
	here := eval[string](b, `location.href`)
	b.run(`navigator.clipboard.writeText = async (text) => { window.copied = text }`)
	b.click(".share-run button")
	b.wait(`document.querySelector('.shared-link:not([hidden]) span')?.textContent === 'Link copied.'`)
	b.examine("run-link")
	link := eval[string](b, `window.copied`)
	if got := eval[string](b, `location.href`); got != here || !strings.Contains(link, "/ui/share/") {
		t.Errorf("after the link %q was copied, the page is %q", link, got)
	}
	other := open(t, light)
	other.goTo(link)
	other.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.out-image')?.naturalWidth > 100`)
	for _, want := range []string{"plt.plot([1, 2])", "ooooooooo", "eeeeeeeee"} { // of two pipes either is read first
		other.wait(`document.querySelector('#cells').innerText.includes('` + want + `')`)
	}
	// Its files are there, and its code in colour.
	names := eval[[]string](other, `[...document.querySelectorAll('.shared-file .file-name')].map((n) => n.textContent)`)
	if got := strings.Join(names, " "); got != "n.txt p.png t.csv" {
		t.Errorf("the files are %q", got)
	}
	other.wait(`document.querySelector('.shared-file td')?.textContent === '1' && document.querySelector('.cell-code .tok-keyword')`)
	other.examine("run-shared")
	other.axeInEachLook("a shared run")
	validated(t, other.exported("#save"))
}

// TestNotebookTooLarge chooses a notebook of 200 MB, then opens a session that has one: the
// page says so, and leaves it as it is.
func TestNotebookTooLarge(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	name := filepath.Join(t.TempDir(), "large.ipynb")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 200_000_000); err != nil {
		t.Fatal(err)
	}
	b.goTo(s.url + "/notebooks")
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#import"), []string{name}))
	b.wait(`document.querySelector('#notice').innerText.includes('This notebook has 191 MiB; the page opens up to 64 MiB')`)

	b.notebook(s, "import os\nos.truncate(os.open('analysis.ipynb', os.O_RDWR | os.O_CREAT), 200_000_000)")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('#notice').innerText.includes('it has 191 MiB, more than this page opens')`) // the page does not write over it
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.ready`)
	b.run(`document.querySelector('#add-code').click()`)
	b.wait(`document.querySelector('#notice').innerText.includes('it has 191 MiB, more than this page opens')`)
	b.examine("notebook-too-large")
	session := eval[string](b, `location.pathname.split('/').pop()`)
	if size := s.call("GET", "/sessions/"+session+"/fs/stat?path=analysis.ipynb", nil)["size"]; size != 200e6 {
		t.Errorf("it has %v bytes", size)
	}
}

// TestNotebookNotKept opens a notebook in a browser that cannot keep it: the page says so, and
// does not show an empty one instead.
func TestNotebookNotKept(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	name := filepath.Join(t.TempDir(), "analysis.ipynb")
	if err := os.WriteFile(name, []byte(many(1)), 0o644); err != nil {
		t.Fatal(err)
	}
	b.goTo(s.url + "/notebooks")
	b.run(`{
		const put = IDBObjectStore.prototype.put;
		IDBObjectStore.prototype.put = function (...args) {
			const request = put.apply(this, args);
			request.addEventListener("success", () => this.transaction.abort());
			return request;
		};
	}`)
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#import"), []string{name}))
	b.wait(`document.querySelector('#notice').innerText.includes('This browser could not keep the notebook')`)
}

// TestNotebookManyCells opens 2,000 cells, edits and saves them, and opens them again.
func TestNotebookManyCells(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.openNotebook(s, many(2000))
	b.wait(`document.querySelector('.cell button')`) // what is in a cell is made when it is seen
	b.run(`document.querySelector('.cell button').click()`)
	b.idle()
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelectorAll('.cell').length === 2000`)
	if n := eval[int](b, `document.querySelectorAll('.cm-editor').length`); n > 100 {
		t.Errorf("%d editors for what is in sight", n)
	}
	b.run(`document.querySelectorAll('.cell')[1999].scrollIntoView()`)
	b.wait(`document.querySelectorAll('.cell')[1999].querySelector('.cm-editor')`)
}

// TestNotebookNames gives a notebook the name of another file, which stays as it is.
func TestNotebookNames(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "open('analysis.ipynb', 'w').write('mine')\nopen('other.ipynb', 'w').write('mine too')")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('#notice').innerText.includes('changed elsewhere')`)
	b.run(`[...document.querySelectorAll('#notice button')].find((x) => x.textContent === 'Keep mine').click()`)
	b.saved()
	b.run(`const title = document.querySelector('#title'); title.value = 'other'; title.dispatchEvent(new Event('input'))`)
	b.wait(`document.querySelector('#notice').innerText.includes('There is another file')`)
	b.run(`const title = document.querySelector('#title'); title.value = 'third'; title.dispatchEvent(new Event('input'))`)
	b.saved()
	b.wait(`!document.querySelector('#notice').innerText`)
	names := eval[string](b, `(async () => { const at = document.querySelector('#notebook').dataset.api + '/sessions/' + location.pathname.split('/').pop() + '/fs/list';
		const token = document.querySelector('meta[name=airlock-token]').content;
		return (await (await fetch(at, { headers: { 'X-Airlock-Token': token } })).json()).entries.map((e) => e.path + ' ' + (e.size < 20)).sort().join() })()`)
	if names != "other.ipynb true,third.ipynb false" {
		t.Errorf("the session has %s", names)
	}
}
