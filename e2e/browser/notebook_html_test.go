package browser

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// hostileNotebook is one whose outputs would take the page over, or call home, if they
// could.
func hostileNotebook(t *testing.T, evil string) string {
	t.Helper()
	html := strings.ReplaceAll(`<script>window.owned=1;top.owned=1;fetch('EVIL/fetch')</script><img src="EVIL/img" onerror="top.owned=1">
		<style>@import url("EVIL/css"); body { background: url("EVIL/bg") } @font-face { font-family: x; src: url("EVIL/font") } b { font-family: x }</style><b>text</b>
		<link rel="stylesheet" href="EVIL/link"><link rel="preconnect" href="EVIL"><link rel="prefetch" href="EVIL/prefetch">
		<meta http-equiv="refresh" content="0;url=EVIL/refresh"><iframe src="EVIL/frame"></iframe><object data="EVIL/object"></object><embed src="EVIL/embed">
		<form action="EVIL/form" id=f><button>go</button></form><video src="EVIL/video"></video><a id=go href="EVIL/link">x</a><svg onload="top.owned=1"><image href="EVIL/svg"/></svg>
		<base href="EVIL/"><math><mtext><table><mglyph><style><img src=x onerror="top.owned=1">`, "EVIL", evil)
	bundle := func(mime string, data any) map[string]any {
		return map[string]any{"output_type": "display_data", "metadata": map[string]any{}, "data": map[string]any{mime: data}}
	}
	outputs := []any{
		bundle("text/html", html),
		bundle("text/html", `<table class="dataframe"><thead><tr><th><img src=x onerror="top.owned=1"></th></tr></thead><tbody><tr><td><script>top.owned=1</script>cell</td></tr></tbody></table>`),
		bundle("application/vnd.airlock.table+json", map[string]any{"rows": 1e300, "columns": 1e300, "frame": "../../../<img>", "index": -1,
			"fields": []any{map[string]any{"name": "<img src=x onerror=top.owned=1>", "type": "integer", "names": 5, "dtype": []int{1}}, nil},
			"data":   []any{[]any{"<script>top.owned=1</script>", map[string]any{}}, nil, 5}}),
		bundle("application/vnd.airlock.table+json", map[string]any{"rows": 2, "columns": 1,
			"fields": []any{map[string]any{"name": "<img src=x onerror=top.owned=1>", "type": "number"}},
			"data":   []any{[]any{"<script>top.owned=1</script>"}, []any{map[string]any{"a": 1}}}}),
		bundle("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="top.owned=1" width="20" height="20"><script>top.owned=1</script><image href="`+evil+`/svgimage"/></svg>`),
		bundle("image/png", "\"><script>top.owned=1</script>"),
		bundle("text/latex", `$\href{javascript:top.owned=1}{x} \includegraphics{`+evil+`/tex} \htmlData{a=b}{y}$`),
		bundle("text/markdown", "<img src=x onerror=top.owned=1>"),
		bundle("application/json", map[string]any{"<img src=x onerror=top.owned=1>": "<script>top.owned=1</script>"}),
		bundle("application/vnd.plotly.v1+json", map[string]any{
			"data": []any{map[string]any{"type": "bar", "x": []string{"<a href='javascript:top.owned=1'>x</a>"}, "y": []int{1}}},
			"layout": map[string]any{"title": map[string]any{"text": "<img src=x onerror=top.owned=1><a href='" + evil +
				"/a'>t</a>"},
				"images": []any{map[string]any{"source": evil + "/plotlyimage", "sizex": 1, "sizey": 1}}}}),
		bundle("application/vnd.vegalite.v5+json",
			map[string]any{"mark": "point", "data": map[string]any{"url": evil + "/vegadata"}}),
		bundle("application/vnd.vega.v5+json",
			map[string]any{"signals": []any{map[string]any{"name": "s", "update": "open('" + evil + "')"}},
				"marks": []any{map[string]any{"type": "image",
					"encode": map[string]any{"enter": map[string]any{"url": map[string]any{"value": evil + "/vegaimage"}}}}}}),
		bundle("text/<script>", "x"),
		map[string]any{"output_type": "error", "ename": "<img src=x onerror=top.owned=1>", "evalue": "",
			"traceback": []string{"<script>top.owned=1</script>\x1b]8;;javascript:1\x07"}},
	}
	text, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "metadata": map[string]any{},
		"cells": []any{
			map[string]any{"id": "m", "cell_type": "markdown", "metadata": map[string]any{},
				"source": "<script>top.owned=1</script>\n\n![x](" + evil +
					"/md)\n\n[l](javascript:top.owned=1) $\\href{javascript:1}{x}$"},
			map[string]any{"id": "<img>", "cell_type": "code", "metadata": map[string]any{}, "source": "1", "execution_count": 1,
				"outputs": outputs},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exported is what a button of the notebook downloads.
func (b *tab) exported(button string) string {
	b.t.Helper()
	b.run(`window.blob = null; const real = URL.createObjectURL.bind(URL);
		URL.createObjectURL = (blob) => { window.blob = blob; return real(blob); }`)
	b.run(`document.querySelector(` + quote(button) + `).click()`)
	b.wait(`window.blob`)
	return eval[string](b, `window.blob.text()`)
}

// TestNotebookHTML exports a notebook as one file, which is read without any service, and
// then the hostile one, which can do nothing there.
func TestNotebookHTML(t *testing.T) {
	s := shared(t)
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer evil.Close()
	file := filepath.Join(t.TempDir(), "notebook.html")
	show := func(b *tab) {
		t.Helper()
		if err := os.WriteFile(file, []byte(b.exported("#export-html")), 0o644); err != nil {
			t.Fatal(err)
		}
		b.goTo("file://" + file)
		b.wait(`document.readyState === 'complete' && document.querySelector('main')`)
	}
	b := open(t, light)
	b.notebook(s, "# md\n# Sales\n\nBy *region*.", "print('\033[32mgreen\033[0m <b>')\nimport matplotlib.pyplot as plt\n"+
		"_ = plt.plot([1, 2])\nplt.show()", "import pandas as pd\npd.DataFrame({'a': [1]})", "raise ValueError('no')")
	b.runAll()
	b.saved()
	show(b)
	if got := b.text("main"); !strings.Contains(got, "green <b>") || !strings.Contains(got, "ValueError: no") ||
		!strings.Contains(got, "plt.plot") {
		t.Errorf("it shows %q", got)
	}
	b.wait(`document.querySelector('em') && document.querySelector('img')?.naturalWidth > 100 && document.querySelector('td')?.innerText === '1'`)
	b.shoot("notebook-html")

	b.openNotebook(s, hostileNotebook(t, evil.URL))
	b.wait(`document.querySelectorAll('.out-frame').length >= 4 && document.querySelector('.cell-text p')`)
	show(b)
	b.run(`for (const e of document.querySelectorAll('main > *')) { e.scrollIntoView(); await new Promise((r) => setTimeout(r, 100)) }`)
	b.shoot("notebook-html-hostile")
	if eval[bool](b, `'owned' in window || document.querySelectorAll('script, main object, main embed, main [onerror], main [onload], main a[href^="javascript"]').length > 0`) {
		t.Error("hostile content became part of the file")
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	b.forgive() // what the policy refused
}
