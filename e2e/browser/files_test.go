package browser

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const everything = `import json
import pandas as pd
table = pd.DataFrame({"name": ["ä", "<b>bold</b>"], "value": [1, 2]})
table.to_csv("t.csv", index=False)
table.to_parquet("t.parquet")
open("n.md", "w").write("# Title\n\nSome *words* and <script>window.owned = 1</script>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[link](javascript:alert(1))\n")
json.dump({"b": [1, {"c": None}]}, open("j.json", "w"))
open("broken.csv", "w").write('a,b\n"1,2\n3,4\n')
open("d.pdf", "wb").write(b"%PDF-1.4\n%nothing\n")
`

// TestFiles looks at files of each kind, fetches and deletes them.
func TestFiles(t *testing.T) { inEachSize(t, lookAtFiles) }

func lookAtFiles(t *testing.T, how look) {
	s := shared(t)
	b := open(t, how)
	b.goTo(s.url + "/")
	b.runs(everything)
	b.run(`document.querySelectorAll('[data-preview]').forEach((box) => box.scrollIntoView())`)
	b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 100)) }`)
	b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
	b.run(`scrollTo(0, 0)`)
	b.show("files-of-a-run")
	look := func(name string) string {
		return eval[string](
			b, `[...document.querySelectorAll('.file')].find((f) => f.querySelector('.file-name').textContent === `+quote(name)+
				`).querySelector('.look')?.innerText ?? 'none'`)
	}
	for name, want := range map[string][]string{
		"t.csv":      {"name", "ä", "<b>bold</b>", "2 rows, 2 columns."},
		"t.parquet":  {"name", "ä", "<b>bold</b>", "2 rows, 2 columns."},
		"n.md":       {"Title", "words"},
		"j.json":     {"\"b\": [\n"},
		"broken.csv": {"cannot be read as a table", "\"1,2"},
		"d.pdf":      {"cannot be read as a PDF"},
	} {
		got := look(name)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s shows %q, want %q in it", name, got, text)
			}
		}
	}
	if eval[bool](b, "'owned' in window") ||
		eval[int](b, `document.querySelectorAll('.prose a[href^="javascript"]').length`) > 0 {
		t.Error("Markdown brought a script along")
	}
	names := map[string]bool{}
	for _, f := range s.archive(b, ".files-head a") {
		names[f.Name] = true
	}
	if len(names) != 6 || !names["t.parquet"] || !names["d.pdf"] {
		t.Errorf("the archive holds %v", names)
	}
	// A PDF is for the computer's own reader: the page never shows it.
	pdf := eval[string](
		b, `[...document.querySelectorAll('.file')].find((f) => f.innerText.includes('d.pdf')).querySelector('[download]').href`)
	code, header, body := s.fetch(strings.TrimPrefix(pdf, s.url))
	if code != 200 || !strings.HasPrefix(body, "%PDF") || !strings.HasPrefix(
		header.Get("Content-Disposition"), "attachment") || header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("the PDF is answered %d, %v", code, header)
	}
	b.run(`[...document.querySelectorAll('.file-name')].find((a) => a.textContent === 't.parquet').click()`)
	b.wait(`document.querySelector('.preview table')`)
	b.show("file-parquet")
	b.do(chromedp.NavigateBack())
	b.wait(`document.querySelector('.file-name')`)
	b.click(".file-name")
	b.wait(`document.querySelector('.facts')`)
	b.show("broken-table")
	file := eval[string](b, "location.href")
	b.run(`window.confirm = () => true`)
	b.click("form .danger")
	b.wait(`location.pathname === '/ui/files'`)
	b.goTo(file)
	if got := b.text("main"); !strings.Contains(got, "There is nothing here.") || !strings.Contains(got, "expired") {
		t.Errorf("a deleted file's page says %q", got)
	}
	b.show("gone")
}

// archive fetches what a link of the page leads to, and opens it.
func (s *service) archive(b *tab, link string) []*zip.File {
	s.t.Helper()
	address := eval[string](b, "document.querySelector("+quote(link)+").href")
	_, _, body := s.fetch(strings.TrimPrefix(address, s.url))
	archive, err := zip.NewReader(strings.NewReader(body), int64(len(body)))
	if err != nil {
		s.t.Fatalf("%s: %v", address, err)
	}
	return archive.File
}

// call asks the native API, and returns what it answers.
func (s *service) call(method, path string, body any) map[string]any {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, strings.TrimSuffix(s.url, "/ui")+"/api/v1"+path,
		bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	got := map[string]any{}
	if err != nil || answer.StatusCode >= 300 || len(text) > 0 && json.Unmarshal(text, &got) != nil {
		s.t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, text, err)
	}
	return got
}

// TestSession looks at a client's session on its own page: its files, all of
// them as an archive, how long it lives, and its end.
func TestSession(t *testing.T) { inEachSize(t, lookAtSession) }

func lookAtSession(t *testing.T, how look) {
	s := shared(t)
	id, _ := s.call("POST", "/sessions", map[string]any{})["id"].(string)
	s.call("POST", "/runs", map[string]any{"language": "python", "session": id,
		"code": "import os; os.makedirs('d')\nfor n in ('a.txt', 'd/b.csv'): open(n, 'w').write('x,y\\n1,2\\n')"})
	b := open(t, how)
	b.goTo(s.url + "/files")
	b.show("sessions")
	b.run(`document.querySelector('a.row-name[href$="' + ` + quote(id) + ` + '"]').click()`)
	b.wait(`document.querySelector('h1')?.innerText.startsWith('Session of')`)
	b.show("session")
	if got := eval[[]string](b, `[...document.querySelectorAll('.row-name')].map((a) => a.textContent)`); strings.Join(
		got, " ") != "a.txt d/b.csv" {
		t.Errorf("its files are %q", got)
	}
	if got := b.text(".lead"); !strings.Contains(got, id) || !strings.Contains(got, "expires in 2") {
		t.Errorf("it says %q", got)
	}
	if got := s.archive(b, ".head .actions a"); len(got) != 2 || got[1].Name != "d/b.csv" {
		t.Errorf("its archive holds %d files", len(got))
	}
	page := eval[string](b, "location.href")
	b.run(`window.confirm = (question) => { window.asked = question; return false }`)
	b.click(".head .danger")
	if got := eval[string](b, "window.asked ?? ''"); !strings.Contains(got, "Delete this session?") ||
		eval[string](b, "location.href") != page {
		t.Errorf("before it is deleted the page asks %q", got)
	}
	b.run(`window.confirm = () => true`)
	b.click(".head .danger")
	b.wait(`location.pathname === '/ui/files'`)
	b.goTo(page)
	if got := b.text("h1"); got != "There is nothing here." {
		t.Errorf("a deleted session's page says %q", got)
	}
}

// TestFilesList looks at what is kept: by run, with pictures, copies folded.
func TestFilesList(t *testing.T) {
	s := serve(t)
	for range 2 {
		s.call("POST", "/runs", map[string]any{"language": "python", "code": "# Draw it\nimport base64\n" +
			"open('dot.png', 'wb').write(base64.b64decode('" + dot + "'))\nopen('table.csv', 'w').write('x,y\\n1,2\\n')"})
	}
	id, _ := s.call("POST", "/sessions", map[string]any{})["id"].(string)
	s.call("POST", "/runs", map[string]any{"language": "python", "session": id, "code": "open('new.txt', 'w').write('x' * 2048)"})
	b := open(t, light)
	b.goTo(s.url + "/files")
	b.wait(`document.querySelector('.past-plot img')?.complete`)
	if n := eval[int](b, `document.querySelectorAll('.past-plot img').length`); n != 2 { // one of them folded
		t.Errorf("%d pictures", n)
	}
	groups := eval[[]string](b, `[...document.querySelectorAll('.file-group h3')].map((h) => h.innerText)`)
	if len(groups) != 2 || !strings.Contains(groups[0], "Session of") || !strings.Contains(groups[1], "Draw it") {
		t.Errorf("the groups are %q", groups)
	}
	if got := eval[[]string](b, `[...document.querySelectorAll('.same summary')].map((s) => s.innerText)`); len(got) != 2 ||
		got[0] != "1 older copy of the same content" {
		t.Errorf("folded: %q", got)
	}
	if got := b.text("main"); !strings.Contains(got, "You keep 5 of at most") || !strings.Contains(got, "1 file, 2 KiB") {
		t.Errorf("the page says %q", got)
	}
	b.run(`document.querySelector('.same').open = true`)
	b.examine("files")
	b.axeInEachLook("files")
}
