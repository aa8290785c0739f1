package browser

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// look is how a page is looked at.
type look struct {
	name          string
	dark          bool
	width, height int64
}

var (
	light  = look{"light", false, 1360, 900}
	dark   = look{"dark", true, 1360, 900}
	narrow = look{"narrow", false, 360, 740}
	looks  = []look{light, dark, narrow}
)

// inEachSize goes through a flow on a wide and on a narrow screen. What it shows is
// looked at in the dark as well.
func inEachSize(t *testing.T, flow func(t *testing.T, how look)) {
	for _, how := range []look{light, narrow} {
		t.Run(how.name, func(t *testing.T) { flow(t, how) })
	}
}

// seen has the page be looked at in a way.
func (b *tab) seen(how look) {
	b.t.Helper()
	scheme := "light"
	if how.dark {
		scheme = "dark"
	}
	b.look = how
	b.do(chromedp.EmulateViewport(how.width, how.height), chromedp.Func(
		func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
					{Name: "prefers-reduced-motion", Value: "reduce"}},
			})
			return err
		}))
}

// examine audits what the page shows, and takes a picture of it, in each look.
func (b *tab) examine(name string) {
	b.t.Helper()
	was := b.look
	for _, how := range looks {
		b.seen(how)
		b.audit(name)
		b.shoot(name)
	}
	b.seen(was)
}

// inspect audits what the page shows, and takes a picture of it; in light also in the dark.
func (b *tab) inspect(name string) {
	b.t.Helper()
	b.audit(name)
	b.shoot(name)
	if b.look == light {
		b.seen(dark)
		b.audit(name)
		b.shoot(name)
		b.seen(light)
	}
}

// show inspects a page that is there.
func (b *tab) show(name string) {
	b.t.Helper()
	b.wait(`document.readyState === 'complete' && document.body.offsetWidth > 0`)
	b.inspect(name)
}

func (b *tab) audit(name string) {
	b.t.Helper()
	for _, fault := range eval[[]string](b, audit) {
		b.t.Errorf("%s, %s: %s", name, b.look.name, fault)
	}
}

// audit finds what people who do not see, or do not see well, would miss:
// controls without a name, pictures without words, text with too little
// contrast (WCAG AA), and what is wider than the screen.
const audit = `(() => {
	const found = [];
	const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length;
	const name = (e) => (e.ariaLabel || [...(e.labels ?? [])].map((l) => l.textContent).join('') || e.textContent || e.title || e.alt || e.querySelector('img')?.alt || '').trim();
	for (const e of document.querySelectorAll('button, a[href], input:not([type=hidden]), select, textarea, [tabindex="0"], summary'))
		if (shown(e) && !name(e) && e.tagName !== 'PRE') found.push('no name: ' + e.outerHTML.slice(0, 90));
	for (const e of document.querySelectorAll('img')) if (!e.alt && !e.ariaHidden) found.push('no words: ' + e.outerHTML.slice(0, 90));
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
		const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		if (ratio < (large ? 3 : 4.5)) found.push('contrast ' + ratio.toFixed(2) + ': ' + e.className + ' "' + walk.currentNode.data.trim().slice(0, 40) + '"');
	}
	return found;
})()`

// shoot writes a screenshot of the whole page into out/, for who wants to look.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *shots {
		b.capture(name)
	}
}

// capture writes one in any case.
func (b *tab) capture(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	// On a picture of the whole page, what sticks to the screen hides the rest.
	const unstick = `for (const e of document.querySelectorAll('.decide')) e.style.position = '`
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](unstick+`static'; true`)); err == nil {
		defer func() { _, _ = chromedp.Run(ctx, chromedp.Evaluate[bool](unstick+`'; true`)) }()
	}
	shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Logf("no screenshot: %v", err)
		return
	}
	if err := os.MkdirAll("out", 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("out", name+"-"+b.look.name+".png"), shot, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
