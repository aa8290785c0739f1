package browser

import (
	"strings"
	"testing"
)

// audit finds what people who do not see, or do not see well, would miss:
// controls without a name, pictures without words, text with too little
// contrast (WCAG AA), and what is wider than the screen.
const audit = `(() => {
	const found = [];
	const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length;
	const name = (e) => (e.ariaLabel || [...(e.labels ?? [])].map((l) => l.textContent).join('') || e.textContent || e.title || e.alt || e.querySelector('img')?.alt || '').trim();
	for (const e of document.querySelectorAll('button, a[href], input:not([type=hidden]), select, textarea, [tabindex="0"], summary'))
		if (shown(e) && !name(e) && e.tagName !== 'PRE') found.push('no name: ' + e.outerHTML.slice(0, 90));
	for (const e of document.querySelectorAll('img')) if (!e.alt) found.push('no words: ' + e.outerHTML.slice(0, 90));
	if (document.querySelectorAll('h1').length !== 1) found.push('a page has one h1');
	if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the screen: ' + document.documentElement.scrollWidth);
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const over = (colours) => { canvas.clearRect(0, 0, 1, 1); for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1) } return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3) };
	const light = (rgb) => { const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
	const seen = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || seen.has(e) || !shown(e) || e.closest('.unseen, .skip, :disabled, noscript, option')) continue;
		seen.add(e);
		const grounds = [];
		for (let p = e; p; p = p.parentElement) grounds.unshift(getComputedStyle(p).backgroundColor);
		const ground = over(grounds), style = getComputedStyle(e), text = over([...grounds, style.color]);
		const [a, b] = [light(ground), light(text)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
		if (ratio < (size >= 24 ? 3 : 4.5)) found.push('contrast ' + ratio.toFixed(2) + ': ' + e.className + ' "' + walk.currentNode.data.trim().slice(0, 40) + '"');
	}
	return found;
})()`

// TestAccess audits every page in every look.
func TestAccess(t *testing.T) {
	s := serve(t)
	first := open(t, light)
	first.goTo(s.url + "/")
	first.runs(plots + "\nimport sys; print('a warning', file=sys.stderr)\nprint(''.join(f'\\033[3{i}m{i}\\033[0m\\033[4{i}m{i}\\033[0m' for i in range(8)))")
	run := strings.TrimPrefix(eval[string](first, "location.href"), s.url)
	first.goTo(s.url + "/")
	first.runs("import sys; sys.exit(1)")
	failed := strings.TrimPrefix(eval[string](first, "location.href"), s.url)
	compare := "/runs/compare?run=" + run[len("/runs/"):] + "&run=" + failed[len("/runs/"):]
	first.goTo(s.url + run)
	file := strings.TrimPrefix(eval[string](first, "[...document.querySelectorAll('.file-name')].at(-1).href"), s.url)
	for _, how := range looks {
		t.Run(how.name, func(t *testing.T) {
			b := open(t, how)
			for _, path := range []string{"/", run, failed, "/runs", compare, "/files", file, "/status", "/tools", "/nothing"} {
				b.goTo(s.url + path)
				if path == "/" || path == run {
					b.wait(`document.querySelector('.cm-content')`)
				}
				for _, fault := range eval[[]string](b, audit) {
					t.Errorf("%s: %s", path, fault)
				}
			}
		})
	}
}

// TestFocus keeps the focus where it was, and announces what happens.
func TestFocus(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.write("print('x')")
	b.run(`document.querySelector('.cm-content').focus()`)
	b.run(`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }))`)
	b.ended()
	if got := eval[string](b, "document.activeElement.className"); !strings.Contains(got, "cm-content") {
		t.Errorf("after the run the focus is on %q", got)
	}
	if got := b.text("#announce"); !strings.Contains(got, "The program has ended: OK") {
		t.Errorf("it announces %q", got)
	}
}
