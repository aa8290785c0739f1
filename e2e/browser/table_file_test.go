package browser

import (
	"strings"
	"testing"
)

// A file with a table is shown with all of its rows, in the results of a run and on its own page.
func TestFileFrame(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.runs(`import pandas as pd
n = 50_000
df = pd.DataFrame({"id": range(n), "code": [f"{i % 1000:03}" for i in range(n)], "price": [i * 1.5 for i in range(n)], "day": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d") if n < 1000 else ["2020-01-%02d" % (i % 28 + 1) for i in range(n)]})
df.loc[3, "price"] = None
df.to_csv("t.csv", index=False)
df.to_csv("t.tsv", index=False, sep="\t")
df.to_parquet("t.parquet")
df.head(3000).to_excel("t.xlsx", index=False)
df.to_json("t.jsonl", orient="records", lines=True)
open("ragged.csv", "w").write("a,b\n1,2,3\n4\n" + "5,6\n" * 40)
open("broken.csv", "w").write('a,b\n"1,2\n3,4\n')`)
	address := map[string]string{}
	for _, name := range []string{"t.csv", "t.tsv", "t.parquet", "t.xlsx", "t.jsonl", "ragged.csv", "broken.csv"} {
		address[name] = eval[string](b, `[...document.querySelectorAll('.file-name')].find((a) => a.textContent === `+quote(name)+`).href`)
	}
	b.run(`for (const box of document.querySelectorAll('[data-preview]')) { box.scrollIntoView(); await new Promise((r) => setTimeout(r, 100)) }`)
	b.wait(`!document.querySelector('[data-preview][aria-busy]')`)
	b.wait(`document.querySelector('button[data-frame]')?.checkVisibility()`)
	b.run(`[...document.querySelectorAll('.file')].find((f) => f.innerText.startsWith('t.parquet')).querySelector('button[data-frame]').click()`)
	b.grid()
	b.wait(`count() === '50,000 rows × 4 columns'`)
	for name, want := range map[string]string{
		"t.csv":      "50,000 rows × 4 columns; int64 str float64 datetime64[us]; 49,999|49,999|999|74,998.5|2020-01-20",
		"t.tsv":      "50,000 rows × 4 columns; int64 str float64 datetime64[us]; 49,999|49,999|999|74,998.5|2020-01-20",
		"t.parquet":  "50,000 rows × 4 columns; int64 str float64 str; 49,999|49,999|999|74,998.5|2020-01-20",
		"t.xlsx":     "3,000 rows × 4 columns; int64 str float64 str; 2999|2999|999|4498.5|2020-01-04",
		"t.jsonl":    "50,000 rows × 4 columns; int64 str float64 str; 49,999|49,999|999|74,998.5|2020-01-20",
		"ragged.csv": "42 rows × 3 columns; int64 Int64 Int64; 41|5|6|<NA>",
	} {
		b.goTo(address[name])
		b.grid()
		b.run(`document.querySelector('regular-table').scrollTop = 1e9`)
		b.wait(`document.querySelector('regular-table').scrollTop > 0 && !grid().querySelector('.pending') && rows().at(-1).startsWith(` + quote(strings.SplitN(strings.Split(want, "; ")[2], "|", 2)[0]+"|") + `)`)
		got := eval[string](b, `count() + '; ' + [...grid().querySelectorAll('thead tr:last-child th:not(.rt-group-corner)')].map((th) => th.innerText).join(' ') + '; ' + rows().at(-1)`)
		if got != want {
			t.Errorf("%s shows %q, want %q", name, got, want)
		}
	}
	b.goTo(address["t.csv"])
	b.grid()
	b.axeInEachLook("the grid of a file")
	b.goTo(address["broken.csv"])
	b.wait(`document.querySelector('.preview .warning')?.innerText.includes('cannot be read as a table')`)
	// Of three tables the one that was used last but two has been closed; it is read again.
	b.goTo(address["t.csv"])
	b.grid()
}
