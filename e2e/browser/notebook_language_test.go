package browser

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestNotebookLanguages begins a notebook in each of the other languages, runs it, reads
// it again and as a file, and opens such a file.
func TestNotebookLanguages(t *testing.T) {
	s := shared(t)
	for _, one := range []struct{ language, first, second, want, kernel, script string }{
		{"javascript", "var rows = [1, 2, 3]", "rows.map((x) => x * 14).at(-1)", "42", "JavaScript (Node.js)", "// %%\nvar rows"},
		{"typescript", "var n: number = 6", "n * 7 as number", "42", "TypeScript (Node.js)", "// %%\nvar n: number"},
		{"bash", "x=6; cd /tmp", "echo $((x * 7)) in $PWD", "42 in /tmp", "Bash", "# %%\nx=6"},
	} {
		t.Run(one.language, func(t *testing.T) {
			b := open(t, light)
			b.goTo(s.url + "/notebooks")
			b.run(`document.querySelector('#language').value = ` + quote(one.language))
			b.click("form.new button")
			b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell .cm-content')`)
			b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"), one.first))
			b.runAll()
			b.run(`document.querySelector('#add-code').click()`)
			b.wait(`document.querySelectorAll('.cm-content').length === 2`)
			b.do(chromedp.SendKeys(chromedp.CSS(".cell:nth-child(2) .cm-content"), one.second))
			b.runAll()
			b.wait(`document.querySelectorAll('.cell-out')[1].innerText.trim() === ` + quote(one.want))
			b.wait(`document.querySelector('#variables dt')`)
			b.saved()
			b.examine("notebook-" + one.language)
			b.axeInEachLook("a notebook in " + one.language)
			if got := b.exported("#export-script"); !strings.HasPrefix(got, one.script) {
				t.Errorf("as a script it is %q", got)
			}
			var file struct {
				Metadata struct {
					Kernel struct {
						Name     string `json:"display_name"`
						Language string `json:"language"`
					} `json:"kernelspec"`
				} `json:"metadata"`
			}
			text := b.exported("#export-ipynb")
			if err := json.Unmarshal([]byte(text), &file); err != nil || file.Metadata.Kernel.Language != one.language {
				t.Errorf("%v: its kernel is %+v", err, file.Metadata.Kernel)
			}
			validated(t, text)

			// The session, which is there, and a file that is opened know their language.
			b.goTo(eval[string](b, "location.href"))
			b.wait(`document.querySelector('#notebook')?.dataset.ready`)
			if got := b.text("#language"); got != one.kernel {
				t.Errorf("after a reload it is in %q", got)
			}
			b.openNotebook(s, text)
			if got := b.text("#language"); got != one.kernel {
				t.Errorf("the file opens in %q", got)
			}
			b.runAll()
			b.wait(`document.querySelectorAll('.cell-out')[1].innerText.trim() === ` + quote(one.want))
		})
	}
}

// TestNotebookProcesses starts a server beside the cells, reads from its port, looks at
// what it says, and stops it.
func TestNotebookProcesses(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "open('made.txt', 'w').write('by a cell')")
	b.runAll()
	b.do(chromedp.SendKeys(chromedp.CSS("#process-new input"), "python3 -u -m http.server 8123\r"))
	b.wait(`document.querySelector('#ports a')?.innerText === 'Port 8123'`)
	link := eval[string](b, `document.querySelector('#ports a').href`)
	b.examine("notebook-processes")
	b.axeInEachLook("processes")
	other := open(t, light)
	other.goTo(link)
	other.wait(`document.body?.innerText.includes('made.txt')`)
	other.forgive() // a page of a program has an origin of its own
	b.run(`document.querySelector('#processes button.tree-name').click()`)
	b.wait(`document.querySelector('#look').open && document.querySelector('#look-body').innerText.includes('GET / HTTP')`)
	b.run(`document.querySelector('#look').close()`)
	b.run(`document.querySelector('#processes button:not([hidden])[aria-label^="End"]').click()`)
	b.wait(`document.querySelector('#processes').innerText.includes('ended by SIGKILL') && !document.querySelector('#ports a')`)

	// The page passes on what names the ports, and nothing that programs serve there.
	if got := eval[string](b, `(async () => { const at = document.querySelector('#notebook').dataset.api + '/sessions/' + location.pathname.split('/').pop() + '/ports';
		const token = document.querySelector('meta[name=airlock-token]').content; const ask = async (u) => (await fetch(u, { headers: { 'X-Airlock-Token': token } })).status;
		return [await ask(at), await ask(at + '/8123/')].join() })()`); got != "200,404" {
		t.Errorf("ports, and a port: %s", got)
	}
}

// served is a program of a session that serves a page, which tries what a page of ours could.
const served = `
import http.server, json
page = """<!doctype html><title>page</title><p id=out>…</p><script>
const known = {};
const tried = async (name, act) => { try { known[name] = await act() } catch { known[name] = 'no' } };
(async () => {
  await tried('own', async () => (await fetch('data.json')).text());
  await tried('posted', async () => (await fetch('data.json', { method: 'POST', body: 'x' })).text());
  await tried('cookie', () => document.cookie || 'none');
  await tried('storage', () => localStorage.length);
  await tried('page', async () => (await fetch('/ui/files', { credentials: 'include' })).text());
  await tried('run', async () => (await fetch('/ui/runs', { method: 'POST', credentials: 'include', body: new FormData() })).text());
  await tried('api', async () => (await fetch('/api/v1/sessions', { credentials: 'include' })).text());
  document.querySelector('#out').textContent = JSON.stringify(known);
})();
</script>"""
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/":
            body, kind = page.encode(), "text/html"
        else:
            body, kind = json.dumps([self.path, self.headers.get("Cookie"), self.headers.get("X-Forwarded-Prefix", "")[:9]]).encode(), "application/json"
        self.send_response(200); self.send_header("Content-Type", kind); self.send_header("Set-Cookie", "airlock=stolen; Path=/")
        self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"])); self.do_GET()
http.server.ThreadingHTTPServer(("127.0.0.1", 8124), Handler).serve_forever()
`

// TestPortWithKey opens, signed in, what a program of a session serves: it works as a page of
// its own, and can do nothing as the visitor.
func TestPortWithKey(t *testing.T) {
	s := &service{t: t, log: t.Output(), data: ownFolder(t)}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	key := s.key("--owner", "ada")
	b := open(t, light)
	b.goTo(s.url + "/notebooks")
	b.wait(`document.querySelector('#key')`)
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), key+"\r"))
	b.wait(`document.querySelector('#import')`)
	b.notebook(s, "open('app.py', 'w').write("+quote(served)+")")
	b.runAll()
	b.do(chromedp.SendKeys(chromedp.CSS("#process-new input"), "python3 -u app.py\r"))
	b.wait(`document.querySelector('#ports a')?.innerText === 'Port 8124'`)
	b.goTo(eval[string](b, `document.querySelector('#ports a').href`))
	b.wait(`location.pathname.startsWith('/ui/port/') && document.querySelector('#out')?.textContent.startsWith('{')`)
	want := `{"own":"[\"/data.json\", null, \"/ui/port/\"]","posted":"[\"/data.json\", null, \"/ui/port/\"]",` +
		`"cookie":"no","storage":"no","page":"no","run":"no","api":"no"}`
	if got := b.text("#out"); got != want {
		t.Errorf("the page finds %s, want %s", got, want)
	}
	at := eval[string](b, "location.href")
	b.forgive() // what its origin was refused
	b.goTo(s.url + "/files")
	b.click(".site-menu > summary")
	if got := b.text(".owner"); got != "ada" {
		t.Errorf("afterwards the visitor is %q", got)
	}
	b.click(".visitor button")
	b.wait(`document.querySelector('#key')`)
	if code, _, body := s.fetch(strings.TrimPrefix(at, s.url)); code != 404 {
		t.Errorf("after signing out the address is answered %d: %s", code, body)
	}
}
