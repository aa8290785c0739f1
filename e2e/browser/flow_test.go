package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestEnds says how programs end, in words.
func TestEnds(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	for _, end := range []struct{ name, program, words, says string }{
		{"ok", "print('fine')", "OK", "fine"},
		{"failed", "import sys; print('oh', file=sys.stderr); sys.exit(3)", "failed, exit code 3", "oh"},
		{"memory", "b = bytearray(3 << 30); print(len(b))", "out of memory at 1 GiB", ""},
		{"signal", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by a signal (SIGSEGV)", ""},
	} {
		t.Run(end.name, func(t *testing.T) {
			b.t = t
			b.goTo(s.url + "/")
			b.runs(end.program)
			if got := b.text("#state"); got != end.words && !(end.name == "memory" && strings.Contains(b.text("#output"), "MemoryError")) {
				t.Errorf("the state is %q, want %q", got, end.words)
			}
			if got := b.text("#output"); !strings.Contains(got, end.says) {
				t.Errorf("the output is %q, want %q in it", got, end.says)
			}
			if end.name == "failed" {
				b.shoot("failed")
			}
		})
	}
	t.Run("time", func(t *testing.T) {
		b.t = t
		b.goTo(s.url + "/")
		b.run(`document.querySelector('#timeout').value = 2`)
		b.runs("import time\nwhile True: time.sleep(1)")
		if got := b.text("#state"); got != "timed out after 2 s" {
			t.Errorf("the state is %q", got)
		}
	})
	t.Run("stopped with Esc", func(t *testing.T) {
		b.t = t
		b.goTo(s.url + "/")
		b.write("import time\nprint('begun', flush=True)\ntime.sleep(50)")
		b.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(2)))
		b.wait(`document.querySelector('#output').innerText.includes('begun')`)
		if !eval[bool](b, `document.querySelector('#run').disabled && !document.querySelector('#stop').disabled`) {
			t.Error("while a program runs, Run must be off and Stop on")
		}
		b.do(chromedp.KeyEvent("\x1b"))
		b.ended()
		if got := b.text("#state"); got != "cancelled" {
			t.Errorf("the state is %q", got)
		}
	})
	t.Run("colours", func(t *testing.T) {
		b.t = t
		b.goTo(s.url + "/")
		b.runs(`print("\033[31mred\033[0m plain \033[1;38;5;208morange\033[0m"); print("one\rtwo"); print("\033]0;title\007after")`)
		if got := b.text("#output"); got != "red plain orange\ntwo\nafter\n" {
			t.Errorf("the output is %q", got)
		}
		if !eval[bool](b, `document.querySelector('#output .red').textContent === 'red'`) {
			t.Error("red is not red")
		}
	})
}

// TestAgain goes from a run's link to a change, another run, a search and a
// comparison.
func TestAgain(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs("# count apples\nprint('apples', 3)\nprint('same')")
	link := eval[string](b, "location.href")
	if !strings.Contains(link, "/ui/runs/") {
		t.Fatalf("after a run the address is %s", link)
	}
	b.goTo(link)
	b.wait("document.querySelector('.cm-content')")
	if got := b.text("#output"); got != "apples 3\nsame\n" {
		t.Errorf("behind the link the output is %q", got)
	}
	if got := eval[string](b, "document.querySelector('#code').value"); !strings.HasPrefix(got, "# count apples") {
		t.Errorf("behind the link the code is %q", got)
	}
	b.runs("# count pears\nprint('pears', 4)\nprint('same')")
	if eval[string](b, "location.href") == link {
		t.Error("the second run has the first one's address")
	}

	b.goTo(s.url + "/runs")
	b.run(`document.activeElement.blur()`)
	b.press("/")
	b.do(chromedp.KeyEvent("apples"))
	if got := eval[string](b, "document.querySelector('input[type=search]').value"); got != "apples" {
		t.Errorf("after / and typing the search holds %q", got)
	}
	b.do(chromedp.KeyEvent("\r"))
	b.wait(`location.search.includes('apples')`)
	if got := eval[int](b, "document.querySelectorAll('.past').length"); got != 1 {
		t.Errorf("%d runs match, want 1", got)
	}
	b.goTo(s.url + "/runs")
	b.run(`document.querySelectorAll('.past input').forEach((box) => box.click())`)
	b.shoot("history")
	b.click("#compare-button")
	b.wait(`document.querySelectorAll('table.diff').length === 2`)
	if got := b.text("table.diff"); !strings.Contains(got, "count apples") || !strings.Contains(got, "count pears") {
		t.Errorf("the diff of the code: %q", got)
	}
	if got := eval[int](b, "document.querySelectorAll('table.diff')[1].querySelectorAll('.added, .removed').length"); got != 2 {
		t.Errorf("the diff of the output has %d changed lines, want 2", got)
	}
	b.shoot("compare")
}

// TestInputs gives a program files in each way: dropped, pasted and chosen.
func TestInputs(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.write("for n in ('a.txt', 'b.txt', 'c.txt'): print(n, open(n).read())")
	b.run(`const box = document.querySelector('#inputs'); const data = new DataTransfer();
		data.items.add(new File(['dropped'], 'a.txt')); box.dispatchEvent(new DragEvent('dragenter', { dataTransfer: data, bubbles: true }));
		box.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))`)
	b.run(`const data = new DataTransfer(); data.items.add(new File(['pasted'], 'b.txt'));
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	chosen := filepath.Join(t.TempDir(), "c.txt")
	if err := os.WriteFile(chosen, []byte("chosen"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#upload"), []string{chosen}))
	b.wait(`document.querySelectorAll('.input input[name=file]').length === 3`)
	b.shoot("inputs")
	b.click("#run")
	b.ended()
	if got := b.text("#output"); got != "a.txt dropped\nb.txt pasted\nc.txt chosen\n" {
		t.Errorf("the output is %q", got)
	}
	// The inputs come back with the run's own page, and one can be taken out.
	b.goTo(eval[string](b, "location.href"))
	b.run(`document.querySelector('.input button').click()`)
	if got := eval[int](b, "document.querySelectorAll('.input').length"); got != 2 {
		t.Errorf("%d inputs are left, want 2", got)
	}
}

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
func TestFiles(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs(everything)
	b.run(`document.querySelectorAll('[data-preview]').forEach((box) => box.scrollIntoView())`)
	b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 100)) }`)
	b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
	b.run(`scrollTo(0, 0)`)
	b.shoot("files-of-a-run")
	look := func(name string) string {
		return eval[string](b, `[...document.querySelectorAll('.file')].find((f) => f.querySelector('.file-name').textContent === `+quote(name)+`).querySelector('.look')?.innerText ?? 'none'`)
	}
	for name, want := range map[string][]string{
		"t.csv":      {"name", "ä", "<b>bold</b>", "2 rows, 2 columns."},
		"t.parquet":  {"name", "ä", "<b>bold</b>", "2 rows, 2 columns."},
		"n.md":       {"Title", "words"},
		"j.json":     {"\"b\": [\n"},
		"broken.csv": {"cannot be read as a table", "\"1,2"},
		"d.pdf":      {"none"},
	} {
		got := look(name)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s shows %q, want %q in it", name, got, text)
			}
		}
	}
	if eval[bool](b, "'owned' in window") || eval[int](b, `document.querySelectorAll('.prose a[href^="javascript"]').length`) > 0 {
		t.Error("Markdown brought a script along")
	}
	zip := eval[string](b, `document.querySelector('.files-head a').href`)
	if got := eval[string](b, `fetch(`+quote(zip)+`).then((r) => r.arrayBuffer()).then((b) => String.fromCharCode(...new Uint8Array(b).slice(0, 2)))`); got != "PK" {
		t.Errorf("the archive begins with %q", got)
	}
	b.click(".file-name")
	b.wait(`document.querySelector('.facts')`)
	b.shoot("file")
	file := eval[string](b, "location.href")
	b.run(`window.confirm = () => true`)
	b.click("form .danger")
	b.wait(`location.pathname === '/ui/files'`)
	b.goTo(file)
	if got := b.text("main"); !strings.Contains(got, "There is nothing here.") || !strings.Contains(got, "expired") {
		t.Errorf("a deleted file's page says %q", got)
	}
	b.shoot("gone")
}

// TestManyOutputs leaves more files than are kept.
func TestManyOutputs(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs("for i in range(5000): open(f'f{i:04}.dat', 'w').write('x')")
	if got := b.text("#result"); !strings.Contains(got, "300 files") || !strings.Contains(got, "4,700 files were not kept") {
		t.Errorf("the result says %.300q", got)
	}
}

// TestWithoutScripts runs a program and reads what came out in a browser that
// runs no scripts.
func TestWithoutScripts(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.scriptsOff()
	b.goTo(s.url + "/")
	b.do(chromedp.SetValue(chromedp.CSS("#code"), "print('no scripts', 6 * 7)"))
	b.do(chromedp.Click(chromedp.CSS("#run")))
	b.do(chromedp.WaitVisible(chromedp.CSS(".outcome")))
	got, err := chromedp.Run(b.ctx, chromedp.TextContent(chromedp.CSS("main")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no scripts 42", "OK"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page shows %q, want %q in it", got, want)
		}
	}
	b.shoot("without-scripts")
}

// TestSignIn goes in with a key, and out.
func TestSignIn(t *testing.T) {
	s := serve(t)
	key := s.key("--owner", "ada", "--admin")
	b := open(t, light)
	b.goTo(s.url + "/runs")
	b.wait(`document.querySelector('#key')`)
	b.shoot("sign-in")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), "ak_nonsense\r"))
	b.wait(`document.querySelector('[role=alert]')`)
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), key+"\r"))
	b.wait(`location.pathname === '/ui/runs'`)
	if got := b.text(".owner"); got != "ada" {
		t.Errorf("the owner is %q", got)
	}
	if got := eval[string](b, "document.cookie + location.href + document.documentElement.outerHTML + JSON.stringify(localStorage)"); strings.Contains(got, key) || strings.Contains(got, "airlock=") {
		t.Error("the key or the cookie can be read in the page")
	}
	b.goTo(s.url + "/")
	b.runs("print('signed in')")
	b.click(".visitor button")
	b.wait(`document.querySelector('#key')`)
	b.goTo(s.url + "/files")
	b.wait(`document.querySelector('#key')`)
	if code, _, _ := s.fetch("/files/" + strings.Repeat("A", 21) + "/content"); code != 200 { // the sign-in form
		t.Errorf("a stranger's request for a file is answered %d", code)
	}
	_, _, body := s.fetch("/files/" + strings.Repeat("A", 21) + "/content")
	if !strings.Contains(body, "Sign in") {
		t.Error("a stranger is not sent to the sign-in")
	}
}

// TestTools shows each state of run_python.
func TestTools(t *testing.T) {
	b := open(t, light)
	t.Run("not set", func(t *testing.T) {
		b.t = t
		s := serve(t)
		b.goTo(s.url + "/tools")
		if got := b.text(".tool"); !strings.Contains(got, "Not enabled") || !strings.Contains(got, "Set CODE_INTERPRETER_BASE_URL") {
			t.Errorf("it says %q", got)
		}
	})
	t.Run("lost", func(t *testing.T) {
		b.t = t
		s := serve(t, "--code-interpreter-url", "http://127.0.0.1:9/onyx")
		b.goTo(s.url + "/tools")
		if got := b.text(".tool"); !strings.Contains(got, "Connection lost") || !strings.Contains(got, "Start the service") {
			t.Errorf("it says %q", got)
		}
		b.shoot("tools-lost")
	})
	t.Run("connected, off, on", func(t *testing.T) {
		b.t = t
		other := serve(t)
		s := serve(t, "--code-interpreter-url", strings.TrimSuffix(other.url, "/ui")+"/onyx")
		b.goTo(s.url + "/tools")
		if got := b.text(".badge"); got != "Connected" {
			t.Errorf("it says %q", b.text(".tool"))
		}
		b.shoot("tools")
		b.click(".switch")
		b.wait(`document.querySelector('.switch')?.ariaChecked === 'false'`)
		if got := b.text(".tool"); !strings.Contains(got, "Not enabled") || !strings.Contains(got, "Switch it on here") {
			t.Errorf("switched off it says %q", got)
		}
		s.stop()
		s.restart()
		b.goTo(s.url + "/tools")
		if got := b.text(".badge"); got != "Not enabled" {
			t.Errorf("after a restart the switch is forgotten: %q", got)
		}
		b.click(".switch")
		b.wait(`document.querySelector('.badge')?.innerText === 'Connected'`)
	})
}

// TestStatus draws its charts once something was run.
func TestStatus(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	for i := range 3 {
		b.runs(fmt.Sprintf("print(%d)", i))
	}
	b.goTo(s.url + "/status")
	b.wait(`document.querySelector('.curve')`)
	got := b.text("main")
	for _, want := range []string{"Runs a second", "Isolation", "memory", "Disk free", "3 OK"} {
		if !strings.Contains(got, want) {
			t.Errorf("the status page lacks %q: %q", want, got)
		}
	}
	b.shoot("status-charts")
}
