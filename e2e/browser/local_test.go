package browser

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// A folder on the visitor's computer. Chromium's picker is a window of its own that no
// test can use: in its place stands a folder of the browser's own files, whose handle has
// the same methods.
const pickFolder = `window.showDirectoryPicker = async () => (await navigator.storage.getDirectory()).getDirectoryHandle('picked', { create: true });
	window.files = {
		async folder(names, create) {
			let at = await (await navigator.storage.getDirectory()).getDirectoryHandle('picked', { create: true });
			for (const name of names) at = await at.getDirectoryHandle(name, { create });
			return at;
		},
		async put(path, text) {
			const names = path.split('/'), at = await this.folder(names.slice(0, -1), true);
			const to = await (await at.getFileHandle(names.at(-1), { create: true })).createWritable();
			await to.write(text);
			await to.close();
		},
		async get(path) {
			const names = path.split('/');
			try {
				return await (await (await (await this.folder(names.slice(0, -1))).getFileHandle(names.at(-1))).getFile()).text();
			} catch { return null }
		},
		async list(at, prefix = '') {
			at ??= await this.folder([]);
			const all = [];
			for await (const [name, entry] of at) all.push(...entry.kind === 'file' ? [prefix + name] : await this.list(entry, prefix + name + '/'));
			return all.sort();
		},
	};
	// The second file that a page writes into the folder stalls, if it is told so.
	const open = FileSystemFileHandle.prototype.createWritable;
	FileSystemFileHandle.prototype.createWritable = async function (...how) {
		const inside = await (await files.folder([])).resolve(this);
		if (inside && sessionStorage.getItem('stall') && inside.at(-1) !== 'a.txt' || sessionStorage.getItem('cut') === this.name) {
			window.stalled = true;
			await new Promise(() => {});
		}
		return open.apply(this, how);
	};
	// The service lies about what was committed, if it is told so.
	const real = window.fetch;
	window.fetch = async (...of) => {
		const answer = await real(...of), lie = sessionStorage.getItem('lie');
		if (!lie || !/\/changes\/[^/]+$/.test(of[0])) return answer;
		const { files } = await answer.json();
		files[0].path = lie;
		if (lie === 'c.txt') files[0].after = '0'.repeat(64);
		return new Response(JSON.stringify({ files }));
	};`

type localFolder struct {
	*tab
	s *service
}

// before has each document that follows begin with a script.
func (b *tab) before(script string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

func (f *localFolder) put(path, text string) {
	f.t.Helper()
	f.run("await files.put(" + quote(path) + ", " + quote(text) + ")")
}

// holds compares a file of the folder; "": there shall be none.
func (f *localFolder) holds(path, want string) {
	f.t.Helper()
	if got := eval[string](f.tab, "files.get("+quote(path)+").then((text) => text ?? '')"); got != want {
		f.t.Errorf("%s holds %q, want %q", path, got, want)
	}
}

// proposes pastes a reply for the project, and waits for its review.
func (f *localFolder) proposes(text string) {
	f.t.Helper()
	f.goTo(f.s.url + "/review")
	f.choose("#project", "garden")
	f.run(`document.querySelector('#text').value = ` + quote(text))
	f.presses("#paste button.primary")
	f.wait(`document.querySelector('#decide')`)
}

// presses presses a button by the page: what comes moves what is below it. A button is there before
// the script is that brings the folder's files: until then it would send its form without them.
func (f *localFolder) presses(selector string) {
	f.t.Helper()
	f.wait(`document.readyState === 'complete' && document.querySelector(` + quote(selector) + `)`)
	f.run(`document.querySelector(` + quote(selector) + `).click()`)
}

func (f *localFolder) says(words string) {
	f.t.Helper()
	f.wait(`document.querySelector('#local')?.innerText.includes(` + quote(words) + `)`)
}

const localReply = "```go:src/server.go\nSERVER```\n\n```md:docs/guide.md\n# Guide\n```\n"

// TestLocalFolder goes the whole way in a folder of this browser's computer: link,
// review, apply, a change meanwhile, undo by place, a tab that is closed while it
// writes, permission that lapsed, paths that were not agreed to.
func TestLocalFolder(t *testing.T) {
	s := serve(t)
	f := &localFolder{open(t, light), s}
	f.before(pickFolder)
	f.links()
	f.applies()
	f.merges()
	f.undoes()
	f.cut()
	f.closes()
	f.edited()
	f.asksAgain()
	f.refuses()
	f.elsewhere()
}

func (f *localFolder) links() {
	f.goTo(f.s.url + "/projects")
	f.put("src/server.go", serverBefore)
	f.put("secret.txt", "mine\n")
	f.run(`document.querySelector('#local-project').value = 'garden'`)
	f.presses("#link-local button")
	f.wait(`document.querySelector('[data-local-name]')?.innerText === 'picked, on this computer'`)
	f.examine("local-projects")
	f.axeInEachLook("local-projects")
}

func (f *localFolder) applies() {
	f.proposes(strings.Replace(localReply, "SERVER", serverAfter, 1))
	if got := f.text(".changes"); !strings.Contains(got, `fmt.Fprintln(w, "hello")`) || !strings.Contains(got, "# Guide") {
		f.t.Errorf("the review shows %q", got)
	}
	f.examine("local-review")
	f.axeInEachLook("local-review")
	f.holds("docs/guide.md", "")
	f.presses("#apply")
	f.says(`Written into "picked" on this computer.`)
	f.examine("local-applied")
	f.axeInEachLook("local-applied")
	f.holds("src/server.go", serverAfter)
	f.holds("docs/guide.md", "# Guide\n")
	_, _, files := f.s.fetch("/projects/garden/local")
	if strings.Contains(files, "secret.txt") || !strings.Contains(files, "src/server.go") {
		f.t.Errorf("the service has %s", files)
	}
	f.goTo(f.s.url + "/projects/garden")
	f.examine("local-timeline")
}

// merges has the folder change between the look and the approval.
func (f *localFolder) merges() {
	f.proposes("```md:docs/guide.md\n# Guide\n\nWater the plants.\n```\n")
	f.put("docs/guide.md", "# The guide\n")
	f.presses("#apply")
	f.wait(`document.querySelector('.problem')?.innerText.includes('have changed since the proposal')`)
	f.holds("docs/guide.md", "# The guide\n")
	f.put("docs/guide.md", "# Guide\n")
	f.proposes("```md:docs/guide.md\n# Guide\n\nWater the plants.\n```\n")
	f.presses("#apply")
	f.says("Written into")
	f.holds("docs/guide.md", "# Guide\n\nWater the plants.\n")
}

// undoes reverts one place of the first reply, and keeps what was edited since.
func (f *localFolder) undoes() {
	edited := strings.Replace(serverAfter, "package main\n", "// Serves the garden.\npackage main\n", 1)
	f.put("src/server.go", edited)
	f.goTo(f.s.url + "/projects/garden")
	f.run(`location.assign([...document.querySelectorAll('.timeline h3 a')].at(-1).href)`)
	f.wait(`document.querySelectorAll('.part').length > 1`)
	f.run(`for (const box of document.querySelectorAll('.part, .whole')) if (box.checked) box.click();
		const hunk = [...document.querySelectorAll('.hunk')].find((h) => h.innerText.includes('the very last'));
		hunk.querySelector('.part').click()`)
	f.presses("#decide button")
	f.wait(`location.pathname.includes('/review/') && document.querySelector('#apply')`)
	f.run(`document.querySelector('.whole').click()`) // what was edited since wants a look
	f.presses("#apply")
	f.says("Written into")
	f.holds("src/server.go", strings.Replace(edited, "the very last", "the last", 1))
}

const twoFiles = "```txt:a.txt\nnew a\n```\n\n```txt:deep/down/b.txt\nnew b\n```\n\n```txt:c.txt\nnew c\n```\n"

// cut ends the page while it makes its journal, which is none then: nothing was touched, and
// there is nothing to finish.
func (f *localFolder) cut() {
	f.put("a.txt", "old a\n")
	f.proposes(twoFiles)
	f.run(`sessionStorage.setItem('cut', 'new-1')`)
	f.presses("#apply")
	f.wait(`window.stalled`)
	f.run(`sessionStorage.removeItem('cut')`)
	f.goTo(f.s.url + "/review")
	if eval[bool](f.tab, `(async () => { const { name } = performance.getEntriesByType('resource').find((e) => e.name.includes('/folder.'));
		return await (await import(name)).journal('garden') !== null })()`) {
		f.t.Error("a journal that was cut counts as one")
	}
	f.holds("a.txt", "old a\n")
	f.holds("deep/down/b.txt", "")
}

// closes ends the page in the middle of its writing, and decides in the next one.
func (f *localFolder) closes() {
	for _, c := range []struct{ button, says, a, b string }{
		{"Roll back", "Rolled back", "old a\n", ""}, {"Finish", "Finished", "new a\n", "new b\n"},
	} {
		f.put("a.txt", "old a\n")
		f.proposes(twoFiles)
		// The second file never gets written: as if the tab were closed.
		f.run(`sessionStorage.setItem('stall', 'yes')`)
		f.presses("#apply")
		f.wait(`window.stalled`)
		f.holds("a.txt", "new a\n")
		f.run(`sessionStorage.removeItem('stall')`)
		f.goTo(f.s.url + "/review")
		f.says(`A change of "picked" was interrupted: 1 of 3 files are written.`)
		if c.button == "Finish" {
			f.examine("local-interrupted")
			f.axeInEachLook("local-interrupted")
		}
		f.run(`[...document.querySelectorAll('#local button')].find((b) => b.innerText === ` + quote(c.button) + `).click()`)
		f.says(c.says)
		f.holds("a.txt", c.a)
		f.holds("deep/down/b.txt", c.b)
		if c.b == "" {
			if eval[bool](f.tab, "files.folder(['deep']).then(() => true, () => false)") {
				f.t.Error("rolled back it has a folder that was made")
			}
			f.goTo(f.s.url + "/projects/garden")
			if got := f.text(".timeline"); !strings.Contains(got, "could not be written into the folder") {
				f.t.Errorf("the timeline says %q", got)
			}
		}
	}
}

// edited ends the page in the middle, and edits a file that it has written before the next
// page rolls back: that one stays.
func (f *localFolder) edited() {
	f.proposes("```txt:a.txt\nnext a\n```\n\n```txt:d.txt\nnext d\n```\n")
	f.run(`sessionStorage.setItem('stall', 'yes')`)
	f.presses("#apply")
	f.wait(`window.stalled`)
	f.run(`sessionStorage.removeItem('stall')`)
	f.put("a.txt", "mine since\n")
	f.goTo(f.s.url + "/review")
	f.says(`A change of "picked" was interrupted`)
	f.run(`[...document.querySelectorAll('#local button')].find((b) => b.innerText === 'Finish').click()`)
	f.says(`"a.txt" changed meanwhile and stays as it is`)
	f.goTo(f.s.url + "/review")
	f.says(`A change of "picked" was interrupted`)
	f.run(`[...document.querySelectorAll('#local button')].find((b) => b.innerText === 'Roll back').click()`)
	f.says(`"a.txt" changed meanwhile and stays as it is`)
	f.holds("a.txt", "mine since\n")
	f.holds("d.txt", "")
	f.goTo(f.s.url + "/projects/garden")
	if got := f.text(".timeline"); strings.Count(got, "could not be written into the folder") != 2 {
		f.t.Errorf("the timeline says %q", got)
	}

	// Of names that some systems take for one the second is not made. The service has
	// only the first of them.
	f.put("Notes.txt", "mine\n")
	f.proposes("```txt:notes.txt\nnot mine\n```\n")
	f.presses("#apply")
	f.says(`which is "notes.txt" on some systems`)
	f.holds("Notes.txt", "mine\n")
	f.holds("notes.txt", "")
}

// asksAgain has the browser take the permission away.
func (f *localFolder) asksAgain() {
	f.proposes("```txt:c.txt\nnewer c\n```\n")
	f.run(`window.asked = 0;
		FileSystemHandle.prototype.queryPermission = async () => window.asked > 1 ? 'granted' : 'prompt';
		FileSystemHandle.prototype.requestPermission = async () => ++window.asked > 1 ? 'granted' : 'denied'`)
	f.presses("#apply")
	f.says("does not let this page write")
	f.holds("c.txt", "new c\n")
	f.presses("#apply")
	f.says("Written into")
	f.holds("c.txt", "newer c\n")
}

// refuses has the service name other paths than those that were on the page, and other
// contents than those that were approved.
func (f *localFolder) refuses() {
	for path, says := range map[string]string{"../evil.txt": "not a plain path", ".git/config": "not a plain path",
		"sub/.GIT/hooks/x": "not a plain path", "/etc/x": "not a plain path", "a\\b": "not a plain path",
		"nul.txt": "not a plain path", "secret.txt": "was not on the page", "c.txt": "did not arrive as it was approved"} {
		f.proposes("```txt:c.txt\nnewest c " + path + "\n```\n")
		f.run(`sessionStorage.setItem('lie', ` + quote(path) + `)`)
		f.presses("#apply")
		f.says(says)
		f.run(`sessionStorage.removeItem('lie')`)
	}
	f.holds("c.txt", "newer c\n")
	f.holds("secret.txt", "mine\n")
	if got := eval[[]string](f.tab, "files.list()"); len(got) != 7 {
		f.t.Errorf("the folder has %q", got)
	}
}

// elsewhere looks with a browser that has no such interface.
func (f *localFolder) elsewhere() {
	f.before(`delete window.showDirectoryPicker`)
	f.goTo(f.s.url + "/projects")
	f.wait(`!document.querySelector('#no-local').hidden && document.querySelector('#link-local').hidden`)
	f.shoot("local-elsewhere")
	f.goTo(f.s.url + "/review")
	f.choose("#project", "garden")
	f.run(`document.querySelector('#text').value = ` + quote(twoFiles))
	f.presses("#paste button.primary")
	f.says("Take the files as a zip")
}
