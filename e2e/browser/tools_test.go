package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestTools shows each state of run_python, with its cure, and the switch.
func TestTools(t *testing.T) {
	b := open(t, light)
	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"error","message":"the executor is gone","version":"9.8.7"}`))
	}))
	defer sick.Close()
	other, err := url.Parse(strings.TrimSuffix(shared(t).url, "/ui"))
	if err != nil {
		t.Fatal(err)
	}
	// It adds no X-Forwarded-For: a request that a proxy passed on needs a key.
	well := httptest.NewServer(answersEarly(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(other) }}))
	defer well.Close()
	for _, state := range []struct {
		name, address, badge string
		says                 []string
		not                  string
	}{
		{"own", "", "Connected", []string{"Runs Python in a sandbox", "this one"}, "Version"},
		{"lost", "http://127.0.0.1:9/onyx", "Connection lost", []string{
			"Unable to reach", "Start the service", "http://127.0.0.1:9/onyx"}, "Version"},
		{"unhealthy", sick.URL + "/onyx", "Unhealthy", []string{
			"not well: the executor is gone", "Look at the log of the service", "airlock doctor", "9.8.7"}, "Start the service"},
		{"connected", well.URL + "/onyx", "Connected", []string{"Runs Python in a sandbox", well.URL + "/onyx"}, "not well"},
	} {
		t.Run(state.name, func(t *testing.T) {
			b.t = t
			s := shared(t)
			if state.address != "" {
				s = serve(t, "--code-interpreter-url", state.address)
			}
			b.goTo(s.url + "/tools")
			if got := b.text(".badge"); got != state.badge {
				t.Errorf("it says %q", got)
			}
			got := b.text(".tool")
			for _, want := range state.says {
				if !strings.Contains(got, want) {
					t.Errorf("it says %q, want %q in it", got, want)
				}
			}
			if strings.Contains(got, state.not) {
				t.Errorf("it says %q, with %q in it", got, state.not)
			}
			b.examine("tools-" + state.name)
			if state.address == "" {
				if !eval[bool](b, `document.querySelector('.switch')?.ariaChecked === 'true'`) {
					t.Error("it is not switched on")
				}
				return // others use this service too
			}
			b.switchOff(s, state.badge)
		})
	}
}

// switchOff turns the tool off, finds it off after a restart, and turns it on.
func (b *tab) switchOff(s *service, badge string) {
	b.t.Helper()
	b.click(".switch")
	b.wait(`document.querySelector('.switch')?.ariaChecked === 'false'`)
	if got := b.text(".tool"); !strings.Contains(got, "Not enabled") || !strings.Contains(got, "Switch it on here") {
		b.t.Errorf("switched off it says %q", got)
	}
	if badge == "Connected" {
		b.examine("tools-off")
		b.seesTheSwitch(s)
		s.stop()
		s.restart()
		b.goTo(s.url + "/tools")
		if got := b.text(".badge"); got != "Not enabled" {
			b.t.Errorf("after a restart the switch is forgotten: %q", got)
		}
	}
	b.click(".switch")
	b.wait(`document.querySelector('.badge')?.innerText === ` + quote(badge))
}

// seesTheSwitch has somebody else turn the tool on and off: the page shows it
// without being loaded again.
func (b *tab) seesTheSwitch(s *service) {
	b.t.Helper()
	watching := open(b.t, narrow)
	watching.hurry()
	watching.goTo(s.url + "/tools")
	if got := eval[[]int](watching, "window.intervals"); len(got) != 1 || got[0] != 30_000 {
		b.t.Errorf("the page looks anew after %v ms", got)
	}
	for _, state := range []string{"Connected", "Not enabled"} {
		b.click(".switch")
		b.wait(`document.querySelector('.badge')?.innerText === ` + quote(state))
		watching.wait(`document.querySelector('.badge')?.innerText === ` + quote(state))
	}
}

// hurry makes what pages do every few seconds happen fifty times as often, and
// has them remember how often they wanted to.
func (b *tab) hurry() {
	b.t.Helper()
	b.early(`window.intervals = []; const every = window.setInterval; window.setInterval = (act, ms) => { intervals.push(ms); return every(act, ms / 50) }`)
}

// early has a script run in every document before its own.
func (b *tab) early(script string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// TestStatus draws its charts once something was run.
func TestStatus(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	for i := range 3 {
		b.runs(fmt.Sprintf("print(%d)", i))
	}
	b.goTo(s.url + "/status")
	b.wait(`document.querySelector('.curve')`)
	got := b.text("main")
	for _, want := range []string{"Runs a second", "Isolation", "memory", "Disk free", "Sandboxes started ahead", " OK"} {
		if !strings.Contains(got, want) {
			t.Errorf("the status page lacks %q: %q", want, got)
		}
	}
	b.examine("status-charts")
	// It goes on by itself while somebody looks, and says so when it cannot.
	own := serve(t)
	b.hurry()
	b.goTo(own.url + "/status")
	own.call("POST", "/runs", map[string]any{"language": "python", "code": "print(1)"})
	b.wait(`document.querySelector('main').innerText.includes('1 OK')`)
	own.stop()
	b.wait(`document.querySelector('main').innerText.includes('What you see may be old: the service cannot be reached.')`)
	b.examine("status-stopped")
	b.forgive()
}
