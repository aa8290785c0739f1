package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// drawScripts draws a word of each script in a style, and the same number of signs of
// private use, which no font has. What is drawn as boxes looks like those.
const drawScripts = `
import io, sys, warnings
import matplotlib.pyplot as plt
exec(sys.argv[1])

def drawn(text):
    figure = plt.figure(figsize=(3, 1))
    figure.text(0.1, 0.4, text, fontweight="bold" if "bold" in sys.argv else "normal")
    with warnings.catch_warnings():
        if "\ue000" in text:
            warnings.simplefilter("ignore")
        figure.canvas.draw()
    pixels = bytes(figure.canvas.buffer_rgba())
    if "\ue000" not in text:
        figure.savefig("all.svg")
        figure.savefig("all.pdf")
    plt.close(figure)
    return pixels

for text in ("中文", "日本", "서울", "العربية", "שלום", "हिन्दी", "বাংলা", "தமிழ்", "తెలుగు", "ไทย", "😀", "🎉", "✅"):
    if drawn(text) == drawn("\ue000" * len(text)):
        print("boxes:", text)
print("done")
`

// Plots have the scripts that the host has fonts for, without code of the program, whatever
// style it sets and however it starts. Nothing warns.
func TestPlotScripts(t *testing.T) {
	installed(t)
	requireFonts(t)
	for way, sandbox := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarmWithPackages(t)} {
		for _, set := range []string{"", "onyx"} {
			for _, style := range []string{"", "plt.style.use('default')", "import seaborn; seaborn.set_theme()",
				"plt.rcParams.update({'font.family': 'sans-serif', 'font.sans-serif': ['DejaVu Sans']})"} {
				t.Run(way+"/"+set+"/"+style, func(t *testing.T) {
					spec := sandboxtest.Python(drawScripts)
					spec.Packages, spec.Args, spec.Limits.Memory = set, []string{style, "bold"}, 1<<30
					if r := sandboxtest.Run(t, sandbox, spec); r.Stdout != "done\n" || r.Stderr != "" {
						t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
					}
				})
			}
		}
	}
}

func requireFonts(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"*/noto/NotoSansCJK*", "*/noto/NotoSansThai*", "*/*/Symbola*"} {
		if found, err := filepath.Glob("/usr/share/fonts/" + pattern); err != nil || len(found) == 0 {
			sandboxtest.Skip(t, "this host has no fonts "+pattern+": run `airlock setup` as root")
		}
	}
}

// A program with the locale of other systems' images starts warm, and has it.
func TestLocales(t *testing.T) {
	if !language.HasEnglish(t.Context()) {
		sandboxtest.Skip(t, "this host has no locale "+language.English+": run `airlock setup` as root")
	}
	const code = "import locale, os\nprint(os.environ['LANG'], locale.setlocale(locale.LC_ALL, ''), " +
		"locale.format_string('%d', 1234567, grouping=True), locale.setlocale(locale.LC_ALL, 'C.UTF-8'))\n"
	for way, sandbox := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarm(t)} {
		for locale, want := range map[string]string{
			"":               "C.UTF-8 C.UTF-8 1234567 C.UTF-8\n",
			language.English: "en_US.UTF-8 en_US.UTF-8 1,234,567 C.UTF-8\n",
			"tlh_KX.UTF-8":   "C.UTF-8 C.UTF-8 1234567 C.UTF-8\n",
		} {
			spec := sandboxtest.Python(code)
			spec.Locale = locale
			r := sandboxtest.Run(t, sandbox, spec)
			if r.Stdout != want || r.Stderr != "" {
				t.Errorf("%s, %q: stdout %q, stderr %q", way, locale, r.Stdout, r.Stderr)
			}
			if warm := strings.Contains(string(r.Start), "warm"); warm != (way == "warm") {
				t.Errorf("%s, %q: it started %s", way, locale, r.Start)
			}
		}
	}
}

// Polars and DuckDB start threads, Altair draws without a browser, Plotly writes a page:
// each within the limits of every program, without a network.
func TestCurrentPackages(t *testing.T) {
	installed(t)
	spec := sandboxtest.Python(`
import polars, duckdb, altair, plotly.express, ipywidgets
frame = polars.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 3]})
print(frame.lazy().group_by("a").agg(polars.col("b").sum()).sort("a").collect().rows())
print(duckdb.sql("select a, sum(b) from frame group by a order by a").fetchall())
altair.Chart(frame).mark_bar().encode(x="a", y="b").save("altair.png")
plotly.express.bar(x=["a", "b"], y=[1, 2]).write_html("plotly.html")
print(ipywidgets.IntSlider(value=3).value)
`)
	spec.Limits.Memory = 1 << 30
	r := sandboxtest.Run(t, startWarmWithPackages(t), spec)
	if want := "[('x', 4), ('y', 2)]\n[('x', 4), ('y', 2)]\n3\n"; r.Code() != 0 || r.Stdout != want || r.Stderr != "" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
	}
	if !strings.HasPrefix(r.Files["altair.png"], "\x89PNG") || len(r.Files["plotly.html"]) < 1<<20 {
		t.Errorf("%d and %d bytes", len(r.Files["altair.png"]), len(r.Files["plotly.html"]))
	}
}

// LibreOffice converts a table, and leaves its settings nowhere among the files.
func TestOffice(t *testing.T) {
	if _, err := os.Stat("/usr/bin/soffice"); err != nil {
		t.Skip("LibreOffice is not installed: airlock setup --extras office")
	}
	spec := sandboxtest.Spec("bash", "printf 'a,b\\n東京,2\\n' >t.csv; soffice --headless --convert-to pdf t.csv >/dev/null")
	spec.Limits.Memory = 1 << 30
	r := sandboxtest.Run(t, start(t), spec)
	if r.Code() != 0 || !strings.HasPrefix(r.Files["t.pdf"], "%PDF") || len(r.Files) != 2 {
		t.Errorf("exit code %d, stderr %q, %d files", r.Code(), r.Stderr, len(r.Files))
	}
}
