package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// axeSource installs axe-core, of the version that axe/package-lock.json names, and
// returns its script.
var axeSource = sync.OnceValues(func() (string, error) {
	folder, err := filepath.Abs("../../.cache/axe")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "axe/install", folder).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("axe-core cannot be installed: %w: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "node_modules/axe-core/axe.min.js"))
	return string(text), err
})

// The rules of axe-core that axe applies: all of them, or those about colours.
const (
	allRules    = `rules: { 'target-size': { enabled: true }, 'label-content-name-mismatch': { enabled: true } }`
	colourRules = `runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] }`
)

// drawn is true once the tables in sight have their rows, and the look that comes with the first of them.
const drawn = `[...document.querySelectorAll('.grid')].every((g) => g.dataset.ready || !g.checkVisibility() || g.querySelector('.grid-note:not([hidden])'))`

// axe fails the test for each violation that axe-core finds on the page.
func (b *tab) axe(name, rules string) {
	b.t.Helper()
	for _, fault := range b.axeFaults(rules) {
		b.t.Errorf("%s, %s: axe: %s", name, b.look.name, fault)
	}
}

func (b *tab) axeFaults(rules string) []string {
	b.t.Helper()
	source, err := axeSource()
	if err != nil {
		skip(b.t, "%v", err)
	}
	if !eval[bool](b, "!!window.axe") {
		eval[bool](b, source+"; true")
	}
	b.wait(drawn)
	return eval[[]string](b, `axe.run(document, { iframes: false, resultTypes: ['violations'], `+rules+` })
		.then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ' (' + v.impact + '): ' + n.html.slice(0, 160))))`)
}

// axeInEachLook applies all rules on a wide and on a narrow screen, and those about
// colours in light and in dark on both.
func (b *tab) axeInEachLook(name string) {
	b.t.Helper()
	was := b.look
	for _, one := range []struct {
		how   look
		rules string
	}{{light, allRules}, {dark, colourRules}, {narrow, allRules}, {look{"390", true, 390, 844}, colourRules}} {
		b.seen(one.how)
		b.axe(name, one.rules)
	}
	b.seen(was)
}

// TestAxe has axe-core examine the pages, with something on them.
func TestAxe(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs(plots)
	run := strings.TrimPrefix(eval[string](b, "location.href"), s.url)
	b.axeInEachLook("run " + run)
	b.goTo(s.url + "/")
	b.runs("import sys; sys.exit(1)")
	failed := strings.TrimPrefix(eval[string](b, "location.href"), s.url)
	b.goTo(s.url + run)
	file := strings.TrimPrefix(eval[string](b, "[...document.querySelectorAll('.file-name')].at(-1).href"), s.url)
	table := strings.TrimPrefix(eval[string](b, "document.querySelector('.file.table .file-name').href"), s.url)
	for _, path := range []string{"/", failed, "/runs",
		"/runs/compare?run=" + run[len("/runs/"):] + "&run=" + failed[len("/runs/"):],
		"/files", file, table, "/usage", "/status", "/tools", "/nothing", "/review", "/projects", "/outbox", "/ask"} {
		b.goTo(s.url + path)
		b.wait(`document.readyState === 'complete'`)
		// Axe looks only at those that have something to scroll now.
		if n := eval[int](b, "document.querySelectorAll('.scroll:not([tabindex])').length"); n > 0 {
			t.Errorf("%s: %d tables scroll, and no key reaches them", path, n)
		}
		b.axeInEachLook(path)
	}
}
