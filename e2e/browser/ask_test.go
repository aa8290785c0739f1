package browser

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// asking is a service whose provider "local" has a scripted model, and a
// project with a folder. The code of the script runs in the real sandbox.
type asking struct {
	*service
	model   *providertest.LocalServer
	project string // its folder
}

func ask(t *testing.T, settings ...string) *asking {
	t.Helper()
	a := &asking{model: providertest.NewLocalServer(t)}
	folders, err := os.MkdirTemp("", "airlock-projects-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folders) })
	if err := os.Chmod(folders, 0o755); err != nil {
		t.Fatal(err)
	}
	a.project = filepath.Join(folders, "atlas")
	a.reset()
	a.service = &service{t: t, data: ownFolder(t), args: []string{"--workspace", folders},
		env: append([]string{"AIRLOCK_MODEL_URL=" + a.model.URL + "/v1", "AIRLOCK_MODEL=" + providertest.LocalModel,
			"AIRLOCK_PROVIDER=local"}, settings...)}
	t.Cleanup(a.stop)
	a.start("127.0.0.1:0")
	link, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		strings.TrimSuffix(a.url, "/ui")+"/api/v1/projects/atlas", strings.NewReader(`{"folder":`+quote(a.project)+`}`))
	if err != nil {
		t.Fatal(err)
	}
	link.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(link)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode >= 300 {
		t.Fatalf("the project is not linked: %d %s", answer.StatusCode, said)
	}
	return a
}

// reset makes the project as it was in the beginning.
func (a *asking) reset() {
	if err := os.RemoveAll(a.project); err != nil {
		a.t.Error(err)
	}
	a.writes("sales.png", "the old one")
	a.writes("notes.txt", "# Notes\nRates are per region.\nThey hold for 2025.\n")
	a.writes("data/rates.csv", "region,rate\nEast,1.2\n")
}

// writes puts a file into the project as the service's user has it.
func (a *asking) writes(name, content string) {
	at := filepath.Join(a.project, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err == nil {
		err = os.WriteFile(at, []byte(content), 0o644)
	}
	if err == nil && os.Geteuid() == 0 { // the service is somebody else, who saves there
		var owner *user.User
		if owner, err = user.Lookup("airlock"); err == nil {
			uid, _ := strconv.Atoi(owner.Uid)
			err = filepath.Walk(a.project, func(name string, _ os.FileInfo, err error) error {
				return errors.Join(err, os.Chown(name, uid, -1))
			})
		}
	}
	if err != nil {
		a.t.Error(err)
	}
}

// reads is what a file of the project holds; "" if there is none.
func (a *asking) reads(name string) string {
	content, err := os.ReadFile(filepath.Join(a.project, filepath.FromSlash(name)))
	if err != nil {
		return ""
	}
	return string(content)
}

// onePixel is a picture.
func onePixel() []byte {
	picture, _ := base64.StdEncoding.DecodeString(dot) // a constant
	return picture
}

const salesCSV = "month,region,units,price\n2026-01,East,5,123.77\n2026-01,West,9,268.54\n2026-02,East,7,123.77\n" +
	"2026-02,West,4,268.54\n2026-03,East,11,119.00\n2026-03,West,12,251.20\n"

const plotSales = `import pandas as pd
import matplotlib.pyplot as plt

sales = pd.read_csv("sales.csv")
sales["revenue"] = sales.units * sales.price
table = sales.pivot(index="month", columns="region", values="revenue")
print(table.round(2))

ax = table.plot.bar(figsize=(7, 3.4), color=["#0e6b66", "#d9a441"], rot=0)
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Revenue by month")
plt.tight_layout()
plt.savefig("sales.png", dpi=120)
table.round(2).to_csv("revenue.csv")
`

const plotAnswer = "West earns more in every month but **February**, when East sold seven units.\n\n" +
	"| Month | East | West |\n|---|---|---|\n| 2026-01 | 618.85 | 2416.86 |\n| 2026-03 | 1309.00 | 3014.40 |\n\n" +
	"The plot is `sales.png`, the numbers are in `revenue.csv`; see [pandas](https://pandas.pydata.org/) for `pivot`."

// give adds a file as somebody does who drops it.
func (b *tab) give(name, content string) {
	b.t.Helper()
	b.run(`const data = new DataTransfer(); data.items.add(new File([` + quote(content) + `], ` + quote(name) + `));
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	b.wait(`document.querySelector('#inputs input[name=file]')`)
}

// prompt writes a prompt and sends it.
func (b *tab) prompt(text string) {
	b.t.Helper()
	b.run(`const prompt = document.querySelector('#prompt'); prompt.value = ` + quote(text))
	b.click("#send")
}

func (b *tab) choose(selector, value string) {
	b.t.Helper()
	b.run(`const field = document.querySelector(` + quote(selector) + `); field.value = ` + quote(value) +
		`; field.dispatchEvent(new Event('change', { bubbles: true }))`)
}

// over waits until a turn has ended.
func (b *tab) over(turn int) {
	b.t.Helper()
	b.wait(`document.querySelector('#turn-` + strconv.Itoa(turn) +
		` .figures-line time') && !document.querySelector('#turn-` + strconv.Itoa(turn) + `').hasAttribute('data-live')`)
}

// TestAsk goes through a whole turn in both sizes: a file, code, its output, a
// question about what was made, and a name that exists.
func TestAsk(t *testing.T) {
	a := ask(t)
	inEachSize(t, func(t *testing.T, how look) {
		a.reset()
		b := open(t, how)
		b.goTo(a.url + "/ask")
		b.shoot("ask-blank")
		if got := b.text("#provider"); !strings.Contains(got, "OpenAI (no key)") || !strings.Contains(got, "This machine") {
			t.Errorf("the providers are %q", got)
		}
		a.model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: plotSales}}, Text: plotAnswer})
		b.give("sales.csv", salesCSV)
		b.choose("#project", "atlas")
		b.prompt("Plot the revenue of each region by month, and give me the numbers.")
		b.wait(`document.querySelector('.question [name=clash-o1], .question [name=clash-o2]')`)
		b.wait(`document.querySelector('.step-code .tok-keyword')`)
		if got := b.text(".step-code"); got != strings.TrimSpace(plotSales) &&
			!strings.Contains(got, `pd.read_csv("sales.csv")`) {
			t.Errorf("the code is %q", got)
		}
		if !eval[bool](b, `document.querySelector('.step-code .tok-keyword').textContent === 'import'`) {
			t.Error("the code has no colours")
		}
		if got := b.text(".step-head"); !strings.Contains(got, "Python") || !strings.Contains(got, "OK") {
			t.Errorf("the header of the code is %q", got)
		}
		b.wait(`document.querySelector('.step-console').innerText.includes('2416.86')`)
		b.wait(`document.querySelector('.card.image img')?.complete`)
		b.shoot("ask-question")

		// A second tab, and the same tab loaded again, see the same.
		here := eval[string](b, "location.href")
		other := open(t, how)
		other.goTo(here)
		other.wait(`document.querySelectorAll('.question').length === 1 && document.querySelector('.step-console')?.innerText.includes('2416.86')`)

		b.run(`for (const box of document.querySelectorAll('.question [name=pick]')) box.checked = true`)
		b.click(".question button[value=yes]")
		b.over(1)
		other.over(1)
		if eval[int](other, `document.querySelectorAll('.question').length`) != 0 {
			t.Error("the other tab still asks")
		}
		if got := b.text(".decided"); !strings.Contains(got, "You agreed to save 2 files into "+a.project) {
			t.Errorf("the decision is told as %q", got)
		}
		old, err := os.ReadFile(filepath.Join(a.project, "sales.png"))
		if err != nil || string(old) != "the old one" {
			t.Errorf("the old file is %q, %v", old, err)
		}
		if made, _ := filepath.Glob(filepath.Join(a.project, "sales*.png")); len(made) != 2 {
			t.Errorf("saved beside it: %v", made)
		}
		b.run(`for (const box of document.querySelectorAll('[data-preview]')) box.scrollIntoView()`)
		b.wait(`document.querySelector('.card.table table')`)
		b.run(`scrollTo(0, 0)`)
		b.shoot("ask")
		if got := eval[string](b, `document.querySelector('.said-text a').rel`); got != "noopener noreferrer nofollow" {
			t.Errorf("links are %q", got)
		}
		if wide := eval[bool](b, "document.documentElement.scrollWidth > innerWidth"); wide {
			t.Error("the page is wider than the screen")
		}

		// Loaded again it is the same, from what is kept.
		b.goTo(here)
		b.over(1)
		if got := b.text("#turn-1"); !strings.Contains(got, "2416.86") || !strings.Contains(got, "West earns more") ||
			!strings.Contains(got, "saved") {
			t.Errorf("loaded again: %q", got)
		}
		b.goTo(a.url + "/ask")
		b.shoot("ask-list")
		if got := b.text(".row-title"); !strings.HasPrefix(got, "Plot the revenue") {
			t.Errorf("the list has %q", got)
		}
	})
}
