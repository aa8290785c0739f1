package browser

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a page of the browser, with cookies of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	look look

	mu       sync.Mutex
	faults   []string // what the page complained about
	failures []string // requests without an answer, or with an error
}

// open opens a tab in the browser. What the page throws, or is refused by its
// own policy, fails the test.
func open(t *testing.T, how look) *tab {
	t.Helper()
	if chromium == nil {
		skip(t, "%s", missing)
	}
	ctx, leave := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(leave)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, look: how}
	// The tab lives as long as the context of the first thing done in it.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
		return err
	}))
	b.seen(how)
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, fault := range b.faults {
			t.Errorf("the page complains: %s", fault)
		}
	})
	return b
}

func (b *tab) hear(ev any) {
	fault := ""
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		fault = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
			fault = e.Entry.Text
		} else if e.Entry.Source == log.EntrySourceNetwork {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.failures = append(b.failures, e.Entry.URL+": "+e.Entry.Text)
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

// forgive forgets complaints that were meant to come, and returns them.
func (b *tab) forgive() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.capture("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
		b.t.Fatal(err)
	}
}

// goTo loads a page. Chromium breaks loading off when an interface of the machine appears or goes, as other tests
// have it do, and when the page of a click before is still on its way: then goTo loads the page again.
func (b *tab) goTo(url string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for {
			err := chromedp.Do(ctx, chromedp.Navigate(url))
			broken := b.brokenOff() && err == nil
			if failed := (*chromedp.LoadError)(nil); errors.As(err, &failed) {
				broken = strings.Contains(failed.ErrorText, networkChanged) || strings.Contains(failed.ErrorText, "ERR_ABORTED")
			}
			if !broken || ctx.Err() != nil {
				return err
			}
		}
	}))
}

// networkChanged is Chromium's error for what it breaks off.
const networkChanged = "ERR_NETWORK_CHANGED"

// brokenOff forgets requests of the page that were broken off, and reports whether there were any.
func (b *tab) brokenOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.failures)
	b.failures = slices.DeleteFunc(b.failures, func(f string) bool { return strings.Contains(f, networkChanged) })
	return len(b.failures) < before
}

// eval returns the value of an expression in the page; promises are awaited.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := evaluate[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func evaluate[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// leaving reports whether an expression could not be looked at because the page
// gave way to the next one.
func leaving(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Inspected target navigated or closed") ||
		strings.Contains(err.Error(), "context was destroyed"))
}

// run executes statements in the page.
func (b *tab) run(statements string) {
	b.t.Helper()
	eval[bool](b, "(async () => { "+statements+"; return true })()")
}

// wait waits until an expression is true in the page.
func (b *tab) wait(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(waitTime)
	for pause := 20 * time.Millisecond; ; pause = min(pause*5/4, 200*time.Millisecond) {
		yes, err := evaluate[bool](b, "!!("+expression+")")
		if err != nil && !leaving(err) {
			b.t.Fatalf("%s: %v", expression, err)
		}
		if yes {
			return
		}
		if time.Now().After(deadline) {
			b.capture("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
			b.mu.Lock()
			failures := slices.Clone(b.failures)
			b.mu.Unlock()
			b.t.Fatalf("the page: %s\nfailed requests: %q\nit does not become true: %s", // last, because the page is long
				eval[string](b, "document.querySelector('main')?.innerText ?? ''"), failures, expression)
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatal(b.ctx.Err())
		case <-time.After(pause):
		}
	}
}

// text is what an element shows.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector("+quote(selector)+")?.innerText ?? ''")
}

// click clicks on what a selector finds. A page that is told something meanwhile may put
// another node in its place, between the look and the click: then that one is meant.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for {
			err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector)))
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Could not find node with given id") {
				return err
			}
		}
	}))
}

// write puts a program into the editor, in place of what is there.
func (b *tab) write(program string) {
	b.t.Helper()
	b.wait("document.querySelector('.cm-content')")
	// Pasted: what is typed the editor would indent.
	b.run(`const editor = document.querySelector('.cm-content'); editor.focus(); document.execCommand('selectAll');
		const data = new DataTransfer(); data.setData('text/plain', ` + quote(program) + `);
		editor.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	b.wait(`document.querySelector('#code').value === ` + quote(program))
}

// runs writes a program, runs it, and waits until its files are shown.
func (b *tab) runs(program string) {
	b.t.Helper()
	b.write(program)
	b.click("#run")
	b.ended()
}

// ended waits until the run has ended and all of it is shown.
func (b *tab) ended() {
	b.t.Helper()
	b.wait(`document.querySelector('#stop')?.disabled && document.querySelector('#result .outcome')`)
}

// scriptsOff has the browser run no scripts of pages from here on.
func (b *tab) scriptsOff() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// press presses one key, as a keyboard does: what the page prevents does not
// reach a field.
func (b *tab) press(key string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown,
			input.DispatchKeyEventTypeKeyUp} {
			event := input.DispatchKeyEventParams{Type: kind, Key: key}
			if kind == input.DispatchKeyEventTypeKeyDown {
				event.Text = key
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, event); err != nil {
				return err
			}
		}
		return nil
	}))
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return string(text)
}
