package provider_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
)

func TestPromisedNames(t *testing.T) {
	for text, want := range map[string][]string{
		"The plot is in plot.png":                                      {"plot.png"},
		"I saved the chart as `chart.png` and the data as `data.csv`.": {"chart.png", "data.csv"},
		"Done. The report was written to /mnt/data/report.pdf.":        {"report.pdf"},
		"I've created **summary report.xlsx** for you.":                {"summary report.xlsx"},
		"Here is the file: out/result.json":                            {"result.json"},
		"See histogram.svg!":                                           {"histogram.svg"},
		"Created a.csv. I could not create b.csv.":                     {"a.csv"},
		"I saved one.csv, but could not write two.csv":                 {"one.csv"},
		"Das Bild wurde als bild.png gespeichert.":                     {"bild.png"},
		"The archive `all.tar.gz` contains everything.":                {"all.tar.gz"},
		"":                                      nil,
		"I read sales.csv; it has two columns.": nil,
		"You can save it as plot.png with plt.savefig.":                 nil,
		"The file plot.png was not created.":                            nil,
		"If you want, I would save it to plot.png.":                     nil,
		"```python\nplt.savefig('plot.png') # saved plot.png\n```":      nil,
		"I used numpy.random and pandas.DataFrame to create the table.": nil,
		"See https://example.com/plot.png for an example":               nil,
		"See [the docs](https://example.com/a.html).":                   nil,
		"Python 3.11 and version 2.0 were used; e.g. see above.":        nil,
		"It is saved in your sales.csv":                                 nil,
		"The mean was created from input.csv":                           nil,
		"The sum is 3.":                                                 nil,
	} {
		if diff := cmp.Diff(want, provider.PromisedNames(text)); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

// Words do not say where the name of a file begins that exists.
func TestPromisedNamesOfKnownFiles(t *testing.T) {
	for _, name := range []string{"sales report.csv", "tom's.csv", "tom’s plot.png", "R&D.csv", "R & D.csv", "a+b.csv",
		"50% off.csv", "a,b.csv", "sales_q1.csv", "Übersicht März.pdf"} {
		for _, form := range []string{"I saved the result as %s.", "I saved '%s' for you", "Created `%s`.", "It is in “%s”.",
			"The data is available in \"%s\"", "Written to /mnt/data/%s"} {
			text := fmt.Sprintf(form, name)
			if got := provider.PromisedNames(text, "other.csv", name); got != nil {
				t.Errorf("%q exists, and %q promises %q", name, text, got)
			}
			if got := provider.PromisedNames(text, "other.csv"); len(got) != 1 {
				t.Errorf("%q does not exist, and %q promises %q", name, text, got)
			}
		}
	}
	if got := provider.PromisedNames(`Saved as sales\_q1.csv and tom\'s.csv`, "sales_q1.csv", "tom's.csv"); got != nil {
		t.Errorf("escapes of Markdown: %q", got)
	}
	if got := provider.PromisedNames("I saved report.csv", "sales report.csv"); len(got) != 1 {
		t.Errorf("a file of another name counts as the promised one: %q", got)
	}
}
