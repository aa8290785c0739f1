package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// keys presses keys of a keyboard, one after the other: letters, or names as "Escape" and "Alt+ArrowUp".
func (b *tab) keys(names ...string) {
	b.t.Helper()
	codes := map[string]int64{"Escape": 27, "Enter": 13, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40}
	for _, name := range names {
		key, modifiers := name, int64(0)
		for prefix, bit := range map[string]int64{"Alt+": 1, "Ctrl+": 2, "Shift+": 8} {
			if rest, ok := strings.CutPrefix(key, prefix); ok {
				key, modifiers = rest, bit
			}
		}
		code, special := codes[key]
		if !special {
			b.press(key)
			continue
		}
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			event := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: key, Code: key,
				Modifiers: modifiers, WindowsVirtualKeyCode: code}
			if key == "Enter" && modifiers == 0 {
				event.Type, event.Text = input.DispatchKeyEventTypeKeyDown, "\r"
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, event); err != nil {
				return err
			}
			event.Type, event.Text = input.DispatchKeyEventTypeKeyUp, ""
			_, err := chromedp.Call(ctx, input.DispatchKeyEvent, event)
			return err
		}))
	}
}

// sources are the cells of a notebook in words: their kinds and what is in them.
func (b *tab) sources() string {
	b.t.Helper()
	return eval[string](b, `[...document.querySelectorAll('.cell')].map((c) => (c.classList.contains('code') ? 'code ' : 'text ') +
		JSON.stringify(c.querySelector('textarea')?.value)).join(', ')`)
}

func (b *tab) wantSources(what, want string) {
	b.t.Helper()
	if got := b.sources(); got != want {
		b.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// selected waits until a cell, counted from 0, is selected and has the focus: keys are commands there.
func (b *tab) selected(n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.activeElement === document.querySelectorAll('.cell')[%d] && document.querySelectorAll('.cell')[%[1]d].matches('.selected')`, n))
}

// typed types a text into a field.
func typed(selector, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(selector), text)
}

// TestCellKeys changes cells by the keys that Jupyter has for that.
func TestCellKeys(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "'one'", "'two'", "'three'")
	b.wait(`document.querySelectorAll('.cell .cm-content').length === 3`)
	b.run(`document.querySelectorAll('.cm-content')[1].focus()`)
	b.keys("Escape")
	b.selected(1)
	b.keys("j")
	b.selected(2)
	b.keys("k", "ArrowUp")
	b.selected(0)
	b.keys("b") // below, to write in at once
	b.wait(`document.querySelectorAll('.cell')[1].contains(document.activeElement) && document.querySelectorAll('.cell')[1].querySelector('.cm-focused')`)
	b.keys("x")
	b.wait(`document.querySelectorAll('.cell textarea')[1].value === 'x'`)
	b.keys("Escape", "a", "Escape")
	b.selected(1)
	b.wantSources("a, b", `code "'one'", code "", code "x", code "'two'", code "'three'"`)

	b.keys("d", "d") // once is not enough
	b.selected(1)
	b.keys("d")
	b.wantSources("dd", `code "'one'", code "x", code "'two'", code "'three'"`)
	b.keys("j", "d", "d")
	b.wantSources("dd of another one", `code "'one'", code "x", code "'three'"`)
	b.wait(`document.querySelector('#undo').checkVisibility()`)
	b.keys("z")
	b.selected(2)
	b.wantSources("z", `code "'one'", code "x", code "'two'", code "'three'"`)

	b.keys("m")
	b.selected(2)
	b.wantSources("m", `code "'one'", code "x", text "'two'", code "'three'"`)
	b.wait(`document.querySelectorAll('.cell')[2].innerText.includes('two')`)
	b.keys("Enter")
	b.wait(`document.activeElement === document.querySelectorAll('.cell textarea')[2]`)
	b.keys("Escape", "y")
	b.selected(2)
	b.wantSources("y", `code "'one'", code "x", code "'two'", code "'three'"`)

	b.keys("Shift+Enter") // runs, and selects the next
	b.selected(3)
	b.wait(`document.querySelectorAll('.cell')[2].querySelector('.cell-out').innerText.trim() === "'two'"`)
	b.idle()
	b.keys("k", "o")
	b.wait(`!document.querySelectorAll('.cell')[2].querySelector('.cell-out').checkVisibility() && document.querySelectorAll('.cell')[2].innerText.includes('Output is folded')`)
	b.axeInEachLook("a folded output")
	b.keys("o")
	b.wait(`document.querySelectorAll('.cell')[2].querySelector('.cell-out').checkVisibility()`)
	b.keys("Alt+ArrowUp")
	b.selected(1)
	b.wantSources("a move", `code "'one'", code "'two'", code "x", code "'three'"`)
	b.keys("?")
	b.wait(`document.querySelector('#look').open && document.querySelector('#look').innerText.includes('delete')`)
	b.examine("notebook-keys")
	b.axeInEachLook("the sheet of keys")
}

// TestCellStops stops a cell by i i, and not by Esc Esc, which goes from the editor to the cell.
func TestCellStops(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "import time\nprint('begun', flush=True)\nfor _ in range(600): time.sleep(.1)", "print('never')")
	b.wait(`document.querySelector('.cm-content')`)
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell-out').innerText.includes('begun')`)
	b.wait(`document.querySelectorAll('.cell')[1].querySelector('.cell-state').innerText === 'waiting'`)
	b.wait(`/^[0-9.]+ m?s$/.test(document.querySelector('.cell-state').innerText)`) // it runs for so long
	b.axeInEachLook("cells that run and wait")
	b.run(`document.querySelector('.cm-content').focus()`)
	b.keys("Escape", "Escape", "Escape")
	b.selected(0)
	if state := eval[string](b, `document.querySelector('.cell').dataset.state`); state != "running" {
		t.Errorf("after Esc it is %s", state)
	}
	b.keys("i", "i")
	b.idle()
	b.wait(`document.querySelector('.cell').dataset.state === 'interrupted' && document.querySelector('.cell-state').innerText.includes('stopped')`)
	if state := eval[string](b, `document.querySelectorAll('.cell')[1].dataset.state`); state != "" {
		t.Errorf("the cell that waited is %s", state)
	}
}

// TestCellCompletes takes a completion by Tab, and indents where there is none to take.
func TestCellCompletes(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "unusual_name = 1", "")
	b.run(`document.querySelector('.cell .cell-run').click()`)
	b.idle()
	b.wait(`document.querySelectorAll('.cm-content')[1]`)
	b.run(`document.querySelectorAll('.cm-content')[1].focus()`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cell:nth-child(2) .cm-content"), "unus"))
	b.wait(`document.querySelector('.cm-tooltip-autocomplete')`)
	b.wait(`document.querySelector('.cm-tooltip-autocomplete li[aria-selected]')`)
	b.wait(`performance.now() - (window.shown ??= performance.now()) > 100`) // it takes none that has just appeared
	b.keys("Tab")
	b.wait(`document.querySelectorAll('.cell textarea')[1].value === 'unusual_name'`)
	b.keys("Enter", "Tab")
	b.wait(`document.querySelectorAll('.cell textarea')[1].value === 'unusual_name\n    '`)
}

// TestCellFails looks at a cell that failed: its edge, its line, what of it is there after a reload.
func TestCellFails(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "def f(x):\n    y = 1\n    return x / 0\n\nf(3)", "print('never')")
	b.run(`document.querySelector('#run-all').click()`)
	failed := `document.querySelector('.cell').dataset.state === 'error' && document.querySelector('.cm-failed')?.textContent === '    return x / 0' &&
		/^failed/.test(document.querySelector('.cell-state').innerText)`
	b.wait(failed)
	b.idle()
	red := `getComputedStyle(document.querySelector('.cell')).borderLeftColor === getComputedStyle(document.querySelector('.out-error .err')).color`
	if !eval[bool](b, red) {
		t.Error("it has no red edge")
	}
	b.examine("notebook-failed")
	b.axeInEachLook("a failed cell")
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook').dataset.ready`)
	b.wait(failed)
	// In the editor the mark goes with its line, and with the next run it is gone.
	b.run(`document.querySelector('.cm-content').focus()`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"), "g = 1\r"))
	b.wait(`document.querySelector('.cm-failed')?.textContent === '    return x / 0'`)
	b.run(`const editor = document.querySelector('.cm-content'); editor.focus(); document.execCommand('selectAll'); document.execCommand('insertText', false, '1')`)
	b.keys("Ctrl+Enter")
	b.wait(`document.querySelector('.cell').dataset.state === 'ok' && !document.querySelector('.cm-failed')`)

	// Node says lines in its own way.
	b.goTo(s.url + "/notebooks/new?language=javascript")
	b.wait(`document.querySelector('.cm-content')`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"), "1\r2\rnull.x"))
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cm-failed')?.textContent === 'null.x'`)
}

// TestCellProgress prints as tqdm does: one line, in a neutral colour, which the file has once.
func TestCellProgress(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "import sys\nprint('begun', file=sys.stderr)\nfor i in range(101):\n    sys.stderr.write(f'\\r{i}%|{\"#\" * (i // 10):190}| {i}/100'); sys.stderr.flush()\nsys.stderr.write('\\n');",
		"print('abcdef\\rxy', end='')\nprint('\\rz')\nprint('\\x1b[31mred\\x1b[0m \\x1b[1;32mgreen\\x1b[0m')")
	b.runAll()
	b.wait(`document.querySelector('.cell-out').innerText.trim() === 'begun\n100%|' + '#'.repeat(10) + ' '.repeat(180) + '| 100/100'`)
	if !eval[bool](b, `getComputedStyle(document.querySelector('.cell-out .err')).color === getComputedStyle(document.querySelector('.cell-state')).color`) {
		t.Error("what is on stderr looks like an error")
	}
	b.wait(`document.querySelectorAll('.cell-out')[1].innerText.trim() === 'zycdef\nred green'`)
	b.wait(`document.querySelectorAll('.cell-out')[1].querySelector('.red').textContent === 'red' && document.querySelectorAll('.cell-out')[1].querySelector('.green.bold').textContent === 'green'`)
	if file := b.exported("#export-ipynb"); strings.Contains(file, "99/100") || !strings.Contains(file, "100/100") {
		t.Error("the file has each state of the line")
	}
}

// TestCellNestedProgress has bars of tqdm below each other: they are lines, each written
// over in its place, while they run, in the file, and opened again.
func TestCellNestedProgress(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "import sys\nfrom tqdm import tqdm\nprint('begun', file=sys.stderr)\n"+
		"for i in tqdm(range(4), desc='outer', mininterval=0):\n    for j in tqdm(range(30), desc=f'inner {i}', mininterval=0):\n"+
		"        if (i, j) == (2, 15): input()\nprint('ended', file=sys.stderr)")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell-input input')`)
	// As in a terminal tqdm leaves the bars of inner loops that have ended, and goes on below them.
	lines := `document.querySelector('.cell-out .console').innerText.trim().split('\n').map((l) => l.replace(/:.*?(\d+\/\d+).*/, ' $1')).join()`
	b.wait(lines + ` === 'begun,inner 0 30/30,inner 1 30/30,outer 2/4,inner 2 15/30'`)
	b.run(`document.querySelector('.cell-input').requestSubmit()`)
	b.idle()
	// The end of the answer's line went down by one.
	const whole = "begun,inner 0 30/30,inner 1 30/30,outer 2/4,inner 2 30/30,inner 3 30/30,outer 4/4,ended"
	b.wait(lines + ` === ` + quote(whole))
	if n := strings.Count(b.exported("#export-ipynb"), "inner "); n > 12 {
		t.Errorf("the file has %d states of the inner bars", n)
	}
	b.saved()
	b.run(`location.reload()`)
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell-out .console') && ` + lines + ` === ` + quote(whole))
}

// TestCellOutputInPieces has two bars, and an answer between them, come in pieces that end wherever a busy machine has
// them end: what is kept of them is the same.
func TestCellOutputInPieces(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "1")
	got := eval[[]string](b, `(async () => {
		const { Outputs } = await import(performance.getEntriesByType('resource').find((e) => /\/outputs/.test(e.name)).name);
		const bar = (n) => ['\n', '\rinner ' + n + ' '.repeat(9 - n), '\x1b[A'];
		const before = ['begun\n', '\router 0', ...[1, 2, 3].flatMap(bar)];
		const after = [...[4, 5, 6].flatMap(bar), '\rinner 6', '\n', '\router 1', '\n', 'ended\n'];
		const shown = async (list) => {
			const element = document.createElement('div');
			const outputs = new Outputs(element);
			for (const o of list) outputs.add(o);
			await outputs.console.drained();
			return [element.innerText.trim().split('\n').map((l) => l.trim()).join(), outputs.list];
		};
		const results = new Set();
		for (let size = 1; size <= 12; size++) {
			const list = [];
			for (const [type, pieces] of [['stderr', before], ['stdout', ['\n']], ['stderr', after]]) {
				for (let i = 0; i < pieces.length; i += size) list.push({ type, text: pieces.slice(i, i + size).join('') });
			}
			const [first, kept] = await shown(list);
			results.add(first).add((await shown(kept))[0]);
			results.add(kept.map((o) => o.text).join('').split('inner').length > 6 ? JSON.stringify(kept) : first);
		}
		return [...results];
	})()`)
	if want := []string{"begun,outer 0,inner 6,outer 1,ended"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// drag presses the mouse on an element, moves it to a point that an expression names, calls over, and lets go. The
// browser tells of a drag, and would itself end none without a screen.
func (b *tab) drag(selector, to string, over func()) {
	b.t.Helper()
	begun := make(chan *input.DragData, 1)
	if err := chromedp.Listen(b.ctx, func(ev any) {
		if e, ok := ev.(*input.EventDragIntercepted); ok {
			begun <- e.Data
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	const middle = `(() => { const r = document.querySelector(%s).getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2] })()`
	from := eval[[2]float64](b, fmt.Sprintf(middle, quote(selector)))
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, input.SetInterceptDrags, input.SetInterceptDragsParams{Enabled: true})
		return err
	}))
	mouse := func(kind input.DispatchMouseEventType, x, y float64, buttons int64) {
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y,
				Button: input.MouseButtonLeft, Buttons: buttons, ClickCount: 1})
			return err
		}))
	}
	mouse(input.DispatchMouseEventTypeMousePressed, from[0], from[1], 1)
	mouse(input.DispatchMouseEventTypeMouseMoved, from[0]+9, from[1]+9, 1)
	var data *input.DragData
	select {
	case data = <-begun:
	case <-time.After(waitTime):
		b.t.Fatal("the mouse drags nothing")
	}
	at := eval[[2]float64](b, to)
	carry := func(kind input.DispatchDragEventType) {
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at[0], Y: at[1],
				Data: data})
			return err
		}))
	}
	carry(input.DispatchDragEventTypeDragEnter)
	carry(input.DispatchDragEventTypeDragOver)
	over()
	carry(input.DispatchDragEventTypeDrop)
	mouse(input.DispatchMouseEventTypeMouseReleased, at[0], at[1], 0)
}

// TestCellDrag drags a cell by its handle above other ones, with the mouse: also where there is a frame, which has
// events of its own.
func TestCellDrag(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "from IPython.display import HTML\nHTML('<p>one</p>')", "'two'", "'three'")
	b.wait(`document.querySelectorAll('.cell .cm-content').length === 3`)
	b.runAll()
	b.wait(`document.querySelector('.cell .out-frame')?.offsetHeight > 20`)
	const one = `code "from IPython.display import HTML\nHTML('<p>one</p>')"`
	line := `document.querySelector('.drop-line')`
	b.drag(".cell:nth-child(3) .cell-grip", `(() => { const r = document.querySelector('.cell .cm-content').getBoundingClientRect();
		return [r.left + 40, r.top + 3] })()`, func() {
		b.wait(line + `?.getBoundingClientRect().top < document.querySelector('.cell').getBoundingClientRect().top`)
	})
	b.selected(0)
	b.wantSources("dragged", `code "'three'", `+one+`, code "'two'"`)
	b.drag(".cell .cell-grip", `(() => { const r = document.querySelector('.out-frame').getBoundingClientRect();
		return [r.left + 40, r.bottom - 4] })()`, func() { b.wait(line) })
	b.selected(1)
	b.wantSources("dragged onto a frame", one+`, code "'three'", code "'two'"`)
	if eval[bool](b, line+` !== null || document.querySelector('.dragged') !== null`) {
		t.Error("what is shown while something is dragged is still there")
	}
	// By keys, with the focus on the handle.
	b.run(`document.querySelector('.cell-grip').focus()`)
	b.keys("ArrowDown", "ArrowDown")
	b.wantSources("moved by keys", `code "'three'", code "'two'", `+one)
	b.wait(`document.activeElement.matches('.cell:nth-child(3) .cell-grip')`)
}

// TestCellMenu opens the menu of a cell by the mouse, goes through it by keys, and adds cells between others.
func TestCellMenu(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "print(1)", "print(2)")
	b.wait(`document.querySelectorAll('.cell .cm-content').length === 2`)
	if eval[bool](b, `document.querySelectorAll('.cell')[1].querySelector('.cell-tools').checkVisibility({ opacityProperty: true })`) {
		t.Error("what can be done with a cell is seen before anybody points at it")
	}
	b.run(`document.querySelector('.cm-content').focus(); document.querySelector('.cell-more').click()`)
	b.wait(`document.activeElement.matches('#cell-menu [role=menuitem]')`)
	b.examine("notebook-menu")
	b.axeInEachLook("the menu of a cell")
	b.keys("ArrowUp")
	b.wait(`document.activeElement.dataset.command === 'delete'`)
	b.keys("Escape")
	b.wait(`document.activeElement.matches('.cell-more') && !document.querySelector('#cell-menu').matches(':popover-open')`)
	b.run(`document.querySelector('.cell .cell-between button:nth-child(2)').click()`)
	b.wait(`document.activeElement.matches('.cell:nth-child(2) textarea')`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cell:nth-child(2) textarea"), "## Between"))
	b.keys("Ctrl+Enter")
	b.wait(`document.querySelector('.cell:nth-child(2) .cell-text h4')?.textContent === 'Between'`)
	b.run(`document.querySelector('.cell-more').click(); document.querySelector('#cell-menu [data-command=delete]').click()`)
	b.wantSources("deleted", `text "## Between", code "print(2)"`)
	b.axeInEachLook("a deleted cell")
	b.run(`document.querySelector('#undo button').click()`)
	b.wantSources("undone", `code "print(1)", text "## Between", code "print(2)"`)
}

// TestNotebookContents goes to a heading, and looks at the sizes of headings and at Markdown that a cell shows.
func TestNotebookContents(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "# md\n# First\n\n```\n# no heading\n```\n\n## Second *thing*", "1", "1", strings.Repeat("1\n", 60), "# md\n### Far below",
		"from IPython.display import display, Markdown\ndisplay(Markdown('# Shown\\n\\n**bold** $x^2$'))")
	b.wait(`[...document.querySelectorAll('#contents li')].map((li) => li.innerText).join() === 'First,Second thing,Far below'`)
	b.run(`document.querySelector('#contents li:nth-child(3) button').click()`)
	b.wait(`document.querySelectorAll('.cell')[4].querySelector('h5')?.getBoundingClientRect().top < innerHeight`)
	b.selected(4)
	b.run(`scrollTo(0, 0)`)
	b.wait(`document.querySelector('.cell-text h3') && document.querySelector('.cell-text h4')`)
	sizes := eval[[]float64](b, `['h3', 'h4', 'p', 'h5'].map((h) => parseFloat(getComputedStyle(document.querySelector('.cell-text ' + h) ?? document.body).fontSize))`)
	if sizes[0] <= sizes[1] || sizes[1] <= sizes[3] || sizes[3] <= sizes[2] {
		t.Errorf("headings have the sizes %v", sizes)
	}
	b.runAll()
	b.wait(`document.querySelectorAll('.cell')[5].querySelector('.cell-out h3')?.textContent === 'Shown' && document.querySelectorAll('.cell')[5].querySelector('.cell-out strong') && document.querySelectorAll('.cell')[5].querySelector('.cell-out math')`)
	b.axeInEachLook("contents")
}

// TestNotebookVersions writes into two notebooks of one name: in the list of files each is one file with versions.
func TestNotebookVersions(t *testing.T) {
	s := &service{t: t, data: ownFolder(t)}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, light)
	for range 2 {
		b.notebook(s, "1")
		b.wait(`document.querySelector('.cm-content')`)
		b.run(`document.querySelector('.cell-run').click()`)
		b.idle()
		for range 2 {
			b.saved()
			b.run(`document.querySelector('#add-text').click()`)
			b.wait(`document.querySelector('#saved').textContent !== 'saved'`)
		}
		b.saved()
	}
	b.wait(`fetch('../files').then((a) => a.text()).then((page) => (page.match(/earlier version/g) ?? []).length === 2)`)
	b.goTo(s.url + "/files")
	groups := eval[[]string](b, `[...document.querySelectorAll('.file-group')].map((g) => g.querySelector('h3 a').textContent + ': ' +
		[...g.querySelectorAll(':scope > ul > li > .row-name')].map((a) => a.textContent).join() + ' ' + /[0-9]+ earlier versions?/.exec(g.innerText))`)
	for _, group := range groups {
		if !strings.HasPrefix(group, "analysis: analysis.ipynb ") || !strings.Contains(group, " earlier version") {
			t.Errorf("%q", group)
		}
	}
	if len(groups) != 2 || strings.Contains(b.text("main"), "expired") {
		t.Errorf("%d groups: %s", len(groups), b.text("main"))
	}
	b.axeInEachLook("versions of notebooks")
}

// TestNotebookLeft closes a notebook and opens it again: it says that its variables are there, then that they are not.
func TestNotebookLeft(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "x = 41")
	b.runAll()
	b.saved()
	at := eval[string](b, "location.href")
	b.goTo(s.url + "/notebooks")
	b.goTo(at)
	b.wait(`document.querySelector('#left').checkVisibility() && document.querySelector('#left').innerText.startsWith('Variables are still there')`)
	b.wait(`document.querySelector('#variables').innerText.includes('x')`)
	b.axeInEachLook("variables are there")
	s.call("POST", "/sessions/"+at[strings.LastIndex(at, "/")+1:]+"/restart", nil)
	for range 2 { // also when the page has started an interpreter meanwhile, to look
		b.goTo(at)
		b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('#left').innerText.startsWith('Variables are gone; files are there')`)
	}
	b.examine("notebook-left")
	b.axeInEachLook("variables are gone")
	b.run(`document.querySelector('#left button').click()`)
	b.idle()
	b.wait(`document.querySelector('#left').hidden && document.querySelector('#variables').innerText.includes('x')`)
	// Also if the page stayed open, once somebody looks at it again.
	s.call("POST", "/sessions/"+at[strings.LastIndex(at, "/")+1:]+"/restart", nil)
	b.run(`document.dispatchEvent(new Event('visibilitychange'))`)
	b.wait(`document.querySelector('#left').innerText.startsWith('Variables are gone') && !document.querySelector('#variables').innerText.includes('x')`)
}

// TestCellCut prints more than a cell keeps: it says how much is shown, and all of it can be had.
func TestCellCut(t *testing.T) {
	s := &service{t: t, data: ownFolder(t), args: []string{"--max-output", "64KiB"}}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, light)
	b.notebook(s, "print('x' * 1000 + '\\n', end='')\nfor i in range(300): print('y' * 1023)\nprint('the end')")
	b.runAll()
	b.wait(`/^[0-9.]+ KiB of 301.1 KiB of this output are shown\./.test(document.querySelector('.cell-cuts').innerText)`)
	b.axeInEachLook("cut output")
	b.run(`URL.createObjectURL = (blob) => { window.saved_ = blob; return '#' }; document.querySelector('.cell-cuts button').click()`)
	b.wait(`window.saved_?.size === 1001 + 300 * 1024 + 8`)
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('.cell-cuts button')`)
}
