package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// installedSets are the sets of Python packages in the test data, with the
// Python that each is for, as "3.11".
func installedSets(t *testing.T) map[string]string {
	t.Helper()
	needPackages(t)
	sets := map[string]string{}
	for _, name := range []string{"current", "onyx", "librechat"} {
		file := "manifest.json"
		if name != "current" {
			file = "manifest-" + name + ".json"
		}
		text, err := os.ReadFile(filepath.Join(testRuntimes(), "python", file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var manifest struct{ Python string }
		if err := errors.Join(err, json.Unmarshal(text, &manifest)); err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(manifest.Python, ".", 3)
		sets[name] = strings.Join(parts[:2], ".")
	}
	return sets
}

// needSet returns the Python of a set that is installed.
func needSet(t *testing.T, name string) string {
	t.Helper()
	python := installedSets(t)[name]
	switch {
	case python != "":
	case name == "librechat" && os.Getenv("AIRLOCK_TEST_PACKAGES") != "all":
		t.Skip("the set librechat takes 2 GB and is not installed: `make test-packages` installs and tests it")
	default:
		skip(t, "this needs the set %s: `make test-data`", name)
	}
	return python
}

// Programs whose answers depend on versions answer as in a plain virtual
// environment with the pins of their set; scripts/version-answers made those
// answers.
func TestVersions(t *testing.T) {
	programs, err := txtar.ParseFile("testdata/versions.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(programs.Files) != 53 {
		t.Fatalf("there are %d programs", len(programs.Files))
	}
	s := serve(t, anyPerson(t), dataWithPackages(t, anyPerson(t)))
	for _, set := range []string{"current", "onyx", "librechat"} {
		t.Run(set, func(t *testing.T) {
			answers := answersOf(t, set, needSet(t, set))
			for _, program := range programs.Files {
				t.Run(program.Name, func(t *testing.T) {
					t.Parallel()
					r := s.execute(map[string]any{"language": "python", "code": string(program.Data), "python_packages": set,
						"timeout_ms": 120_000})
					if diff := cmp.Diff(answers[program.Name], r.asAnswer()); diff != "" {
						t.Errorf("(-plain +airlock)\n%s", diff)
					}
				})
			}
		})
	}
}

// answersOf reads what the programs answer in a plain virtual environment.
func answersOf(t *testing.T, set, python string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile(fmt.Sprintf("testdata/versions-%s-%s.txtar", set, python))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("there are no answers of the set %s on Python %s: scripts/version-answers %s makes them on such a machine",
			set, python, set)
	}
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for _, file := range archive.Files {
		answers[file.Name] = string(file.Data)
	}
	return answers
}

// asAnswer is how scripts/version-answers.py writes what a program answered.
func (r run) asAnswer() string {
	if r.ExitCode == nil || *r.ExitCode == 0 {
		return r.Stdout
	}
	words := strings.Split(strings.TrimSpace(r.Stderr), "\n")
	return fmt.Sprintf("%sexit %d\n%s\n", r.Stdout, *r.ExitCode, words[len(words)-1])
}

// Programs of a protocol get the set of that application's image, and who asks
// for a set gets that one or is told why not.
func TestSetOfAProtocol(t *testing.T) {
	t.Parallel()
	needSet(t, "current")
	needSet(t, "onyx")
	who := anyPerson(t)
	const code = "import pandas\nprint(pandas.__version__)"
	s := serve(t, who, dataWithPackages(t, who))
	native := s.execute(map[string]any{"language": "python", "code": code}).Stdout
	if native == "2.2.2\n" {
		t.Errorf("the native API has pandas %s", native)
	}
	if r := s.onyxRun(code, nil); r.Stdout != "2.2.2\n" {
		t.Errorf("Onyx: %q, %q", r.Stdout, r.Stderr)
	}
	if r := s.onyxRun(code, map[string]any{"python_packages": "current"}); r.Stdout != native {
		t.Errorf("Onyx with the set current: %q, %q", r.Stdout, r.Stderr)
	}
	if r := s.exec("py", code, "python_packages", "onyx"); r.Stdout != "2.2.2\n" {
		t.Errorf("LibreChat with the set onyx: %q, %q", r.Stdout, r.Stderr)
	}
	if a := s.do("POST", "/api/v1/runs", `{"language":"python","code":"1","python_packages":"own"}`, "content-type",
		"application/json"); a.status != http.StatusBadRequest ||
		!strings.Contains(string(a.body), "airlock setup --packages own") {
		t.Errorf("a set that is not installed: %d %s", a.status, a.body)
	}
	if a := s.do("GET", "/api/v1/languages", ""); !strings.Contains(string(a.body), `{"name":"onyx","for":["onyx"]}`) {
		t.Errorf("languages: %s", a.body)
	}

	s = serve(t, who, dataWithPackages(t, who), "--python-packages", "onyx=current", "--python-packages", "onyx")
	if r := s.execute(map[string]any{"language": "python", "code": code}); r.Stdout != "2.2.2\n" {
		t.Errorf("the native API with another default: %q, %q", r.Stdout, r.Stderr)
	}
	if r := s.onyxRun(code, nil); r.Stdout != native {
		t.Errorf("Onyx with a rule of its own: %q, %q", r.Stdout, r.Stderr)
	}
}

// Every npm package of LibreChat's image can be had by require and by import, in
// JavaScript and in TypeScript, and does something.
func TestLibreChatPackagesOfNode(t *testing.T) {
	needSet(t, "librechat")
	text, err := os.ReadFile("../internal/setup/locks/node/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(manifest.Dependencies))
	s := serve(t, anyPerson(t), dataWithPackages(t, anyPerson(t)))
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	var imports strings.Builder
	for i, name := range names {
		fmt.Fprintf(&imports, "import * as m%d from %q\nif (Object.keys(m%d).length === 0) console.log(%q, 'is empty')\n", i,
			name, i, name)
	}
	for _, test := range []struct{ name, language, code string }{
		{"import()", "js", "for (const name of " + string(list) + ") await import(name)\n"},
		{"import in js", "js", imports.String()},
		{"import in ts", "ts", imports.String()},
		{"office and pdf", "js", nodeDocuments},
		{"office and pdf in ts", "ts", nodeDocuments},
		{"require", "js", nodeRequire},
		{"data", "ts", nodeData},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.execute(map[string]any{"language": test.language, "code": test.code, "timeout_ms": 120_000})
			if r.Status != "ok" || r.Stdout != "" {
				t.Errorf("%s\n%s%s", r.Status, r.Stdout, r.Stderr)
			}
		})
	}
}

// Programs as models write them; they print what is wrong.
const (
	nodeDocuments = `
import ExcelJS from 'exceljs'
import { PDFDocument, StandardFonts } from 'pdf-lib'
import pptxgen from 'pptxgenjs'
import sharp from 'sharp'
import fs from 'fs'
const book = new ExcelJS.Workbook()
book.addWorksheet('a').addRow([1, 'two'])
await book.xlsx.writeFile('a.xlsx')
const again = new ExcelJS.Workbook()
await again.xlsx.readFile('a.xlsx')
if (again.getWorksheet('a').getCell('B1').value !== 'two') console.log('exceljs')
const pdf = await PDFDocument.create()
pdf.addPage().drawText('hello', { font: await pdf.embedFont(StandardFonts.Helvetica) })
fs.writeFileSync('a.pdf', await pdf.save())
const deck = new pptxgen()
deck.addSlide().addText('hello', { x: 1, y: 1 })
await deck.writeFile({ fileName: 'a.pptx' })
const picture = await sharp({ create: { width: 20, height: 10, channels: 3, background: 'red' } }).png().toBuffer()
if ((await sharp(picture).metadata()).width !== 20) console.log('sharp')
for (const name of ['a.xlsx', 'a.pdf', 'a.pptx']) if (fs.statSync(name).size < 500) console.log(name)
`
	nodeRequire = `
const _ = require('lodash')
const { z } = require('zod')
const cheerio = require('cheerio')
const dayjs = require('dayjs')
const yaml = require('js-yaml')
const Papa = require('papaparse')
if (_.sum([1, 2]) !== 3) console.log('lodash')
if (z.object({ a: z.number() }).safeParse({ a: 'x' }).success) console.log('zod')
if (cheerio.load('<p>hi</p>')('p').text() !== 'hi') console.log('cheerio')
if (dayjs('2024-01-31').add(1, 'month').format('YYYY-MM-DD') !== '2024-02-29') console.log('dayjs')
if (yaml.load('a: 1').a !== 1) console.log('js-yaml')
if (Papa.parse('a,b\n1,2', { header: true }).data[0].b !== '2') console.log('papaparse')
`
	nodeData = `
import { z } from 'zod'
import _ from 'lodash'
import { format } from 'date-fns'
import Handlebars from 'handlebars'
import AdmZip from 'adm-zip'
import winston from 'winston'
import pino from 'pino'
type Row = { a: number }
const rows: Row[] = z.array(z.object({ a: z.number() })).parse([{ a: 1 }, { a: 2 }])
if (_.sumBy(rows, 'a') !== 3) console.log('lodash')
if (format(new Date(2024, 0, 2), 'yyyy-MM-dd') !== '2024-01-02') console.log('date-fns')
if (Handlebars.compile('{{a}}')({ a: 1 }) !== '1') console.log('handlebars')
const zip = new AdmZip()
zip.addFile('a.txt', Buffer.from('a'))
if (new AdmZip(zip.toBuffer()).readAsText('a.txt') !== 'a') console.log('adm-zip')
if (typeof winston.createLogger !== 'function') console.log('winston')
pino({ level: 'silent' }).info('nothing')
`
)

// The modules of LibreChat's image import, and those that call a program or a
// library of the system find it.
func TestLibreChatPackagesOfPython(t *testing.T) {
	needSet(t, "librechat")
	const code = `
import importlib
for name in """openpyxl matplotlib numpy pandas lifelines scipy statsmodels PIL sklearn skimage networkx sympy wordcloud pypdf PyPDF2 pdfplumber
weasyprint msgpack setuptools docx imageio seaborn plotly bs4 tabulate xlrd numba patsy numexpr pyarrow chdb markitdown pptx xlsxwriter docx2python
docxtpl mammoth pdf2image pdfminer reportlab cv2 svglib cairosvg exifread hachoir barcode qrcode fontTools pytesseract vsdx rasterio rioxarray
geopandas pyogrio pyproj osmnx folium gpxpy pytz""".split():
    try:
        importlib.import_module(name)
    except BaseException as e:
        print(name, repr(e))
import cairosvg, numba, pdf2image, plotly.express as px, qrcode, weasyprint
if not cairosvg.svg2png(b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>').startswith(b"\x89PNG"):
    print("cairosvg")
weasyprint.HTML(string="<h1>hello</h1>").write_pdf("a.pdf")
if len(pdf2image.convert_from_path("a.pdf")) != 1:
    print("pdf2image")
if numba.njit(lambda a: a + 1)(2) != 3:
    print("numba")
if "plotly" not in px.bar(x=[1], y=[2]).to_html(include_plotlyjs=False):
    print("plotly")
qrcode.make("hello").save("q.png")
print("done")
`
	s := serve(t, anyPerson(t), dataWithPackages(t, anyPerson(t)))
	r := s.exec("py", code, "timeout", 240_000)
	if r.Stdout != "done\n" { // on stderr chdb says that it finds no control groups
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}
