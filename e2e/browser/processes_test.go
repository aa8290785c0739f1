package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestProcessTree looks at what cells, commands and a terminal have started, and ends some of it.
func TestProcessTree(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "import subprocess\np = subprocess.Popen(['bash', '-c', 'sleep 901 & sleep 902; true'])")
	b.runAll()
	b.do(chromedp.SendKeys(chromedp.CSS("#process-new input"), "sleep 903 & sleep 904; true\r"))
	// row finds the row of a process, and below tells what is in it.
	const row = `(name) => [...document.querySelectorAll('#processes .tree-name')].find((e) => e.textContent === name)?.closest('li')`
	within := func(inner, outer string) string {
		return `((row) => row(` + quote(outer) + `)?.contains(row(` + quote(inner) + `)))(` + row + `)`
	}
	gone := func(name string) string { return `!(` + row + `)(` + quote(name) + `)` }
	for _, pair := range [][2]string{{"bash -c sleep 901 & sleep 902; true", "Interpreter"},
		{"sleep 901", "bash -c sleep 901 & sleep 902; true"}, {"sleep 903", "sleep 903 & sleep 904; true"},
		{"sleep 904", "sleep 903 & sleep 904; true"}} {
		b.wait(within(pair[0], pair[1]))
	}
	b.wait(`(` + row + `)('sleep 904').querySelector('small').textContent.includes('MiB')`)
	// A look that nobody has asked for is refused: the page says nothing, and looks again.
	b.run(`const plain = fetch; let refusals = 0; window.looksAfter = 0;
		window.fetch = (url, o) => {
			if (!String(url).endsWith('/ports')) return plain(url, o);
			if (refusals++ === 0) return Promise.resolve(new Response('{"error":{"message":"it is busy"}}', { status: 429 }));
			window.looksAfter++;
			return plain(url, o);
		}`)
	b.wait(`window.looksAfter > 0`)
	if eval[bool](b, `!(`+row+`)('Interpreter').querySelector('.process-line button').hidden`) {
		t.Error("the interpreter has a button that ends it")
	}

	// What has lost its parent is still the command's, and ends with it.
	end := func(name string) {
		b.run(`(` + row + `)(` + quote(name) + `).querySelector('button[aria-label^="End"]').click()`)
	}
	end("sleep 904")
	b.wait(gone("sleep 904") + ` && (` + row + `)('sleep 903 & sleep 904; true').querySelector('small').textContent.startsWith('background')`)
	b.wait(within("sleep 903", "sleep 903 & sleep 904; true"))
	b.examine("processes")
	b.axeInEachLook("the tree of processes")
	b.run(`document.querySelector('#terminal-open').click()`)
	b.wait(`document.querySelector('#terminal .xterm-rows')?.innerText.includes('$')`)
	b.do(chromedp.SendKeys(chromedp.CSS("#terminal textarea"), "sleep 905\r"))
	b.wait(within("sleep 905", "bash -i"))
	// By the keyboard: the button that has done its work hands on the focus.
	b.run(`(` + row + `)('sleep 905').querySelector('button[aria-label^="End"]').focus()`)
	b.press(" ")
	b.wait(gone("sleep 905") + ` && document.activeElement.closest('#processes, #process-new')`)
	end("sleep 903 & sleep 904; true")
	b.wait(gone("sleep 903"))
	end("bash -c sleep 901 & sleep 902; true")
	b.wait(gone("sleep 901") + ` && ` + gone("sleep 902"))
	if got := b.text("#notice"); got != "" {
		t.Errorf("it says %q", got)
	}
}
