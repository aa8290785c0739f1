package browser

import (
	"bytes"
	"context"
	"image"
	"image/color/palette"
	"image/draw"
	"image/gif"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// film is what tabs showed, one picture after the other.
type film struct{ gif.GIF }

// take adds what a tab shows, for two seconds.
func (f *film) take(b *tab) {
	b.t.Helper()
	if !*shots {
		return
	}
	var shot []byte
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		made, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
		shot = made.Data
		return err
	}))
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	frame := image.NewPaletted(picture.Bounds(), palette.Plan9)
	draw.Draw(frame, frame.Bounds(), picture, picture.Bounds().Min, draw.Src)
	f.Image, f.Delay = append(f.Image, frame), append(f.Delay, 200)
}

func (f *film) write(t *testing.T) {
	if err := os.MkdirAll("out", 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create("out/flow.gif")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := gif.EncodeAll(out, &f.GIF); err != nil {
		t.Fatal(err)
	}
}

// TestNotebookFlow goes from a CSV that is dropped to an interactive chart, a link for
// others, and the same notebook in JupyterLab. With -shots
// out/flow.gif is the record of it.
func TestNotebookFlow(t *testing.T) {
	s := shared(t)
	b := open(t, look{"flow", false, 1100, 760})
	var record film
	b.goTo(s.url + "/notebooks")
	b.click("form.new button")
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell .cm-content')`)
	b.run(`const data = new DataTransfer(); data.items.add(new File(['month,units\nJan,5\nFeb,9\nMar,7\n'], 'sales.csv', { type: 'text/csv' }));
		document.querySelector('.cells').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))`)
	b.wait(`document.querySelector('#files').innerText.includes('sales.csv')`)
	record.take(b)
	b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"), "import pandas as pd\nsales = pd.read_csv('sales.csv')\nsales"))
	b.runAll()
	b.wait(`document.querySelector('.grid td.number')`)
	b.run(`document.querySelector('#add-code').click()`)
	b.wait(`document.querySelectorAll('.cm-content').length === 2`)
	b.run(`const editor = document.querySelectorAll('.cm-content')[1]; editor.focus();
		const data = new DataTransfer(); data.setData('text/plain', ` + "`" + `from IPython.display import display
display({"application/vnd.vegalite.v5+json": {
    "data": {"values": sales.to_dict("records")}, "mark": {"type": "bar", "tooltip": True},
    "encoding": {"x": {"field": "month", "sort": None}, "y": {"field": "units", "type": "quantitative"}}},
    "text/plain": "a chart"}, raw=True)` + "`" + `); editor.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	b.runAll()
	b.run(`document.querySelector('.out-frame').scrollIntoView()`)
	b.wait(`document.querySelector('.out-frame[src$="/vega"]') && document.querySelector('.out-frame').style.height !== '420px'`)
	b.saved()
	record.take(b)
	b.run(`document.querySelector('#share').click(); document.querySelector('#look form').requestSubmit()`)
	b.wait(`document.querySelector('#look input[readonly]')`)
	record.take(b)
	link := eval[string](b, `document.querySelector('#look input[readonly]').value`)

	other := open(t, b.look)
	other.goTo(link)
	other.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.grid td.number')`)
	other.run(`document.querySelector('.out-frame').scrollIntoView()`)
	other.wait(`document.querySelector('.out-frame').style.height !== '420px'`)
	record.take(other)
	file := other.exported("#save")
	validated(t, file)

	address, _ := jupyterLab(t, strings.TrimSuffix(s.url, "/ui")+"/jupyter", file)
	lab := open(t, b.look)
	lab.goTo(address)
	lab.wait(`window.jupyterapp && jupyterapp.shell.currentWidget?.context?.isReady`)
	lab.wait(`document.querySelector('.jp-OutputArea .vega-embed svg, .jp-OutputArea .vega-embed canvas') && document.querySelector('.jp-Notebook').innerText.includes('Mar')`)
	record.take(lab)
	lab.forgive() // what JupyterLab's own scripts say is not ours
	if *shots {
		record.write(t)
	}
}
