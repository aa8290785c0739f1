package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestEnds says how programs end, in words.
func TestEnds(t *testing.T) {
	s := shared(t)
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
			if got := b.text("#state"); got != end.words {
				t.Errorf("the state is %q, want %q", got, end.words)
			}
			if got := b.text("#output"); !strings.Contains(got, end.says) {
				t.Errorf("the output is %q, want %q in it", got, end.says)
			}
			b.examine("ended-" + end.name)
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
		b.examine("ended-time")
	})
	t.Run("stopped with Esc", func(t *testing.T) {
		b.t = t
		b.goTo(s.url + "/")
		b.write("import time\nprint('begun', flush=True)\ntime.sleep(50)")
		b.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(2)))
		b.wait(`document.querySelector('#output').innerText.includes('begun')`)
		b.examine("running")
		if !eval[bool](b, `document.querySelector('#run').disabled && !document.querySelector('#stop').disabled`) {
			t.Error("while a program runs, Run must be off and Stop on")
		}
		b.do(chromedp.KeyEvent("\x1b"))
		b.ended()
		if got := b.text("#state"); got != "cancelled" {
			t.Errorf("the state is %q", got)
		}
		b.examine("ended-stopped")
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
	t.Run("nothing to say", func(t *testing.T) {
		b.t = t
		b.goTo(s.url + "/")
		hint := func() string {
			return eval[string](b, `getComputedStyle(document.querySelector('#output'), '::before').content`)
		}
		if got := hint(); !strings.Contains(got, "appears here") {
			t.Errorf("before a run the output says %q", got)
		}
		b.runs("x = 1")
		if got := hint(); !strings.Contains(got, "printed nothing") {
			t.Errorf("after a silent run the output says %q", got)
		}
		b.goTo(eval[string](b, "location.href"))
		if got := hint(); !strings.Contains(got, "printed nothing") {
			t.Errorf("on a silent run's page the output says %q", got)
		}
	})
}

// TestAgain goes from a run's link to a change, another run, a search and a
// comparison.
func TestAgain(t *testing.T) { inEachSize(t, runAgain) }

func runAgain(t *testing.T, how look) {
	s := shared(t)
	b := open(t, how)
	b.goTo(s.url + "/")
	b.runs("# count apples\nprint('apples', 3)\nprint('same', '" + how.name[:3] + "' + '" + how.name[3:] + "')")
	link := eval[string](b, "location.href")
	if !strings.Contains(link, "/ui/runs/") {
		t.Fatalf("after a run the address is %s", link)
	}
	b.goTo(link)
	b.wait("document.querySelector('.cm-content')")
	if got := b.text("#output"); got != "apples 3\nsame "+how.name+"\n" {
		t.Errorf("behind the link the output is %q", got)
	}
	if got := eval[string](b, "document.querySelector('#code').value"); !strings.HasPrefix(got, "# count apples") {
		t.Errorf("behind the link the code is %q", got)
	}
	b.runs("# count pears\nprint('pears', 4)\nprint('same', '" + how.name[:3] + "' + '" + how.name[3:] + "')")
	if eval[string](b, "location.href") == link {
		t.Error("the second run has the first one's address")
	}

	// "/" goes to the search, from a page without one too.
	b.goTo(s.url + "/status")
	b.press("/")
	b.wait(`location.pathname === '/ui/runs' && document.activeElement?.type === 'search'`)
	// A page that was just opened may give its search the focus once more.
	b.wait(`document.readyState === 'complete' && (document.activeElement === document.body ? (window.calm = (window.calm ?? 0) + 1) > 5 : (document.activeElement.blur(), window.calm = 0))`)
	b.press("/")
	b.wait(`document.activeElement?.type === 'search'`)
	b.do(chromedp.KeyEvent("count " + how.name))
	if got := eval[string](b, "document.querySelector('input[type=search]').value"); got != "count "+how.name {
		t.Errorf("after / and typing the search holds %q", got)
	}
	b.do(chromedp.KeyEvent("\r"))
	b.wait(`location.search.includes('count') && document.readyState === 'complete'`)
	// Found by a word of the code and one that only the output has as a whole.
	if got := eval[int](b, "document.querySelectorAll('.past').length"); got != 2 {
		t.Errorf("%d runs match, want 2", got)
	}
	b.show("history-found")
	b.fill("input[type=search]", "nothing has "+how.name+" this")
	b.click(".search button")
	b.wait(`document.querySelector('.empty')?.innerText.includes('No run has these words')`)
	b.goTo(s.url + "/runs?q=count+" + how.name)
	b.run(`document.querySelectorAll('.past input').forEach((box) => box.click())`)
	b.show("history")
	b.click("#compare-button")
	b.wait(`document.querySelectorAll('table.diff').length === 2`)
	if got := b.text("table.diff"); !strings.Contains(got, "count apples") || !strings.Contains(got, "count pears") {
		t.Errorf("the diff of the code: %q", got)
	}
	if got := eval[int](
		b, "document.querySelectorAll('table.diff')[1].querySelectorAll('.added, .removed').length"); got != 2 {
		t.Errorf("the diff of the output has %d changed lines, want 2", got)
	}
	b.show("compare")
}

// TestInputs gives a program files in each way: dropped, pasted and chosen.
func TestInputs(t *testing.T) { inEachSize(t, giveInputs) }

func giveInputs(t *testing.T, how look) {
	s := shared(t)
	b := open(t, how)
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
	b.show("inputs")
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

// TestManyOutputs leaves more files than are kept.
func TestManyOutputs(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs("for i in range(5000): open(f'f{i:04}.dat', 'w').write('x')")
	if got := b.text("#result"); !strings.Contains(got, "300 files") ||
		!strings.Contains(got, "4,700 files were not kept") {
		t.Errorf("the result says %.300q", got)
	}
	b.examine("many-outputs")
}

// TestWithoutScripts runs a program and reads what came out in a browser that
// runs no scripts.
func TestWithoutScripts(t *testing.T) { inEachSize(t, runWithoutScripts) }

func runWithoutScripts(t *testing.T, how look) {
	s := shared(t)
	b := open(t, how)
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
