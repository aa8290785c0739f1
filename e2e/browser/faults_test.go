package browser

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Faults that people met, each with what they did.

// TestGutterCovers scrolls a long line sideways: the numbers of the lines stay readable.
func TestGutterCovers(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.write("x = '" + strings.Repeat("long ", 200) + "'")
	b.run(`document.querySelector('.cm-scroller').scrollLeft = 400`)
	if got := eval[string](b, `getComputedStyle(document.querySelector('.cm-gutters')).backgroundColor`); strings.HasPrefix(got, "rgba") {
		t.Errorf("behind the numbers the code shows through: %s", got)
	}
}

// TestEditorComesAgain loses the first request for the editor.
func TestEditorComesAgain(t *testing.T) {
	b := open(t, light)
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{
			URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/*/editor.js?again"},
				{URLPattern: "*://*:*/*/editor.js", Block: true}}})
		return err
	}))
	b.goTo(shared(t).url + "/")
	b.wait("document.querySelector('.cm-content')")
}

// TestDrafts leaves with something typed, and comes back.
func TestDrafts(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	const code = "# a draft\nprint('not run yet')"
	b.goTo(s.url + "/")
	b.write(code)
	b.goTo(s.url + "/")
	b.wait(`document.querySelector('.cm-content')`)
	if got := eval[string](b, `document.querySelector('#code').value`); got != code {
		t.Errorf("after a reload the code is %q", got)
	}
	if got := b.text(".cm-content"); !strings.Contains(got, "# a draft") {
		t.Errorf("after a reload the editor shows %q", got)
	}
	b.goTo(s.url + "/status")
	b.run(`setTimeout(() => history.back())`) // which ends the page, and its answers
	b.wait(`document.querySelector('.cm-content')`)
	if got := eval[string](b, `document.querySelector('#code').value`); got != code {
		t.Errorf("after Back the code is %q", got)
	}
	// What was run is in the list of runs; the next program begins empty.
	b.run(`document.querySelector('#run').click()`)
	b.ended()
	b.goTo(s.url + "/")
	b.wait(`document.querySelector('.cm-content')`)
	if got := eval[string](b, `document.querySelector('#code').value`); got != "" {
		t.Errorf("after it was run the draft is still %q", got)
	}
}

// TestAskDraft comes back to a question that was not asked.
func TestAskDraft(t *testing.T) {
	s := ask(t)
	b := open(t, light)
	b.goTo(s.url + "/ask")
	b.do(chromedp.SendKeys(chromedp.CSS("#prompt"), "What is in"))
	b.goTo(s.url + "/ask")
	b.wait(`document.querySelector('#prompt').value === 'What is in'`)
}

// TestDraftsGoWithTheSignOut has somebody else sign in at the same browser.
func TestDraftsGoWithTheSignOut(t *testing.T) {
	s := serve(t)
	key := s.key("--owner", "ada")
	b := open(t, light)
	b.goTo(s.url + "/")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), key+"\r"))
	b.wait(`document.querySelector('.cm-content')`)
	b.write("print('of ada')")
	b.wait(`JSON.stringify(localStorage).includes('of ada')`)
	b.click(".site-menu > summary")
	b.click(".visitor button")
	b.wait(`document.querySelector('#key')`)
	if got := eval[string](b, `JSON.stringify(localStorage)`); strings.Contains(got, "of ada") {
		t.Errorf("after the sign-out the browser keeps %s", got)
	}
}

// TestPromptBeforeTraceback asks for input that does not come.
func TestPromptBeforeTraceback(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	for range 5 {
		b.goTo(s.url + "/")
		b.runs("name = input('Your name: ')")
		if got := b.text("#output"); !strings.HasPrefix(got, "Your name: ") || !strings.Contains(got, "EOFError") {
			t.Fatalf("the prompt is not before the traceback: %q", got)
		}
	}
}

// TestNoAskForOthers signs in with a key that may not ask.
func TestNoAskForOthers(t *testing.T) {
	s := serve(t)
	key := s.key("--owner", "eve")
	b := open(t, light)
	b.goTo(s.url + "/")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), key+"\r"))
	b.wait(`document.querySelector('.bar nav')`)
	if got := b.text(".bar nav"); strings.Contains(got, "Ask") {
		t.Errorf("the navigation leads to what answers 403: %q", got)
	}
}
