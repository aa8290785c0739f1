package browser

import (
	"fmt"
	"strings"
	"testing"
)

// A grid of the page, as its tests use it: grid is the last one, head the head of a column by its name.
const gridHelp = `
	window.grid = () => [...document.querySelectorAll('.grid')].at(-1);
	window.head = (name) => [...grid().querySelectorAll('thead th')].find((th) => th.querySelector('.grid-head')?.innerText.startsWith(name));
	window.rows = () => [...grid().querySelectorAll('tbody tr')].map((tr) => [...tr.cells].map((c) => c.textContent).join('|'));
	window.press = (element) => element.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, button: 0 }));
	window.key = (key, more) => grid().querySelector('[role=grid]').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, ...more }));
	window.says = () => grid()?.querySelector('.grid-note').innerText;
	window.count = () => grid()?.querySelector('.grid-count')?.innerText;
	navigator.clipboard.write = async ([item]) => { window.copied = await (await item.getType('text/plain')).text(); };
	URL.createObjectURL = (blob) => { window.saved = blob.text(); return 'blob:'; };
	HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };
	window.hash = async (text) => [...new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))].map((b) => b.toString(16).padStart(2, '0')).join('');`

// grid waits for the last grid of a page.
func (b *tab) grid() {
	b.t.Helper()
	b.wait(`[...document.querySelectorAll('.grid')].at(-1)?.dataset.ready && !document.querySelector('.cell.runs')`)
	b.run(gridHelp)
}

// row waits until the first row that a grid shows is this.
func (b *tab) row(want string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`rows()[0] === %q`, want))
}

// A data frame of which all values are in the output has its true size, and all that a grid can do.
func TestDataFrame(t *testing.T) {
	s := shared(t)
	b := open(t, look{"frame", false, 1100, 760})
	b.notebook(s, "import pandas as pd, numpy as np\nf = pd.DataFrame({'n': np.arange(2000) % 100 * 1000.5, 'word': [f'w{i}' for i in range(2000)]})\nf.loc[1, 'n'] = None\nf")
	b.runAll()
	b.grid()
	b.wait(`count() === '2,000 rows × 2 columns'`)
	b.row("0|0.0|w0")
	if got := eval[string](b, `rows()[1] + ' ' + [...grid().querySelector('tbody tr:nth-child(2)').cells].map((c) => c.className.match(/number|missing/g)?.join())`); got !=
		"1|NaN|w1 number,number,missing," {
		t.Errorf("a row with a missing value is %q", got)
	}
	b.run(`press(head('n'))`)
	b.row("0|0.0|w0")
	b.run(`press(head('n'))`)
	b.row("99|99,049.5|w99")
	if got := eval[string](b, `head('n').ariaSort`); got != "descending" {
		t.Errorf("the order is said to be %q", got)
	}
	b.run(`key('End', { ctrlKey: true })`)
	b.wait(`rows().at(-1) === '1|NaN|w1'`) // what is missing comes last
	b.run(`const find = grid().querySelector('input'); find.value = '1999'; find.dispatchEvent(new Event('input'))`)
	b.wait(`count() === '1 of 2,000 rows × 2 columns'`)
	b.axe("a data frame", allRules)
}

const million = `import pandas as pd, numpy as np, hashlib
n = 1_000_000
rng = np.random.default_rng(1)
df = pd.DataFrame({'id': np.arange(n) * 7, 'price': rng.gamma(3, 40, n).round(2), 'city': rng.choice(['Berlin', 'Paris', 'Rome'], n),
    'day': pd.date_range('2020-01-01', periods=n, freq='min'), 'note': [f'note {i}' for i in range(n)]})
df.loc[10, 'note'] = 'x' * 3000
df`

// A data frame of a million rows is read by windows from its interpreter.
func TestLargeFrame(t *testing.T) {
	s := shared(t)
	b := open(t, look{"frame", false, 1440, 900})
	b.notebook(s, million, "print(len(df[(df.price > 200) & df.note.str.contains('77')]))")
	b.runAll()
	b.grid()
	b.wait(`count() === '1,000,000 rows × 5 columns'`)
	found := strings.TrimSpace(eval[string](b, `document.querySelectorAll('.cell')[1].querySelector('.out-console').innerText`))
	b.run(`document.querySelector('regular-table').scrollTop = 1e9`)
	b.wait(`rows().at(-1).startsWith('999,999|6,999,993|') && rows().at(-1).endsWith('note 999999')`)
	b.run(`key('Home', { ctrlKey: true })`)
	b.wait(`rows()[0].startsWith('0|0|')`)
	b.run(`key('PageDown'); key('ArrowUp')`)
	b.wait(`grid().querySelector('.grid-active')?.getAttribute('aria-colindex') === '1'`)

	b.run(`press(head('price').querySelector('.grid-menu'))`)
	b.wait(`grid().querySelector('.grid-facts')?.innerText.includes('standard deviation')`)
	if got := eval[string](b, `grid().querySelector('.grid-stats').innerText.replaceAll('\n', ' ')`); !strings.Contains(got, "values 1,000,000 missing 0 distinct") {
		t.Errorf("the statistics are %q", got)
	}
	b.axe("the panel of a column", allRules)
	b.run(`const form = grid().querySelector('.grid-filter'); form.querySelector('select').value = '>'; form.querySelector('input').value = '200'; form.requestSubmit()`)
	b.wait(`grid().querySelector('.grid-chip')?.innerText.startsWith('price > 200')`)
	b.run(`const find = grid().querySelector('input'); find.value = '77'; find.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))`)
	b.run(`press(head('price')); `)
	b.wait(`head('price').ariaSort === 'ascending'`)
	b.run(`press(head('price'))`)
	b.wait(`head('price').ariaSort === 'descending'`)
	b.axe("a data frame with filters", allRules)
	b.run(`grid().querySelector('.grid-bar > button:last-child').click()`)
	b.wait(`window.savedAs === 'data.csv'`)
	b.run(`window.got = (await saved).trim().split('\n').length - 1`)
	// The search looks at all columns, so that it finds more than the notes.
	if eval[int](b, `got`) != eval[int](b, `Number(count().split(' ')[0].replaceAll(',', ''))`) {
		t.Errorf("%d rows are in the file, and %s", eval[int](b, `got`), eval[string](b, `count()`))
	}
	b.run(`grid().querySelector('.grid-chip').click()`)
	b.wait(`!grid().querySelector('.grid-chip') && !grid().ariaBusy`)
	b.run(`const find = grid().querySelector('input'); find.value = ''; find.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))`)
	b.wait(`count() === '1,000,000 rows × 5 columns'`)
	b.run(`press(head('note').querySelector('.grid-menu'))`)
	b.wait(`grid().querySelector('.grid-filter select')?.value === 'contains'`)
	b.run(`const form = grid().querySelector('.grid-filter'); form.querySelector('input').value = '77'; form.requestSubmit()`)
	b.wait(`grid().querySelector('.grid-chip')`)
	b.run(`press(head('price').querySelector('.grid-menu'))`)
	b.wait(`grid().querySelector('.grid-filter select')?.value === '='`)
	b.run(`const form = grid().querySelector('.grid-filter'); form.querySelector('select').value = '>'; form.querySelector('input').value = '200'; form.requestSubmit()`)
	b.wait(`count() === '` + thousands(found) + ` of 1,000,000 rows × 5 columns'`)
}

// thousands puts commas into a number.
func thousands(n string) string {
	for i := len(n) - 3; i > 0; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// What is taken out of a grid is all of it, as the program has it.
func TestFrameOut(t *testing.T) {
	s := shared(t)
	b := open(t, look{"frame", false, 1440, 900})
	b.notebook(s, strings.Replace(million, "1_000_000", "100_000", 1), "print(hashlib.sha256(df.to_csv(index=False).encode()).hexdigest())")
	b.runAll()
	b.grid()
	b.run(`grid().querySelector('.grid-bar > button:last-child').click()`)
	b.wait(`window.saved && says().includes('100,000 rows are in data.csv')`)
	b.run(`window.got = await hash(await saved)`)
	if got, want := eval[string](b, `got`), strings.TrimSpace(eval[string](b, `document.querySelectorAll('.cell')[1].querySelector('.out-console').innerText`)); got != want {
		t.Errorf("the CSV is not that of pandas: %s, %s", got, want)
	}
	b.run(`press(grid().querySelector('tbody tr:nth-child(11) td:nth-last-child(1)')); key('c', { ctrlKey: true })`)
	b.wait(`window.copied?.length === 3000`)
	b.run(`key('ArrowLeft'); `)
	b.run(`press(grid().querySelector('tbody tr:nth-child(3) td:nth-child(2)')); key('ArrowDown', { shiftKey: true }); key('c', { ctrlKey: true })`)
	b.wait(`window.copied === '14\n21'`)
	b.run(`press(grid().querySelector('tbody tr:nth-child(11) td:nth-last-child(1)')); key('Enter')`)
	b.wait(`grid().querySelector('.grid-value')?.textContent === 'x'.repeat(3000)`)
}

// A grid whose interpreter has ended shows what it has, says so, and runs its cell again.
func TestFrameGone(t *testing.T) {
	s := shared(t)
	b := open(t, look{"frame", false, 1440, 900})
	b.notebook(s, strings.Replace(million, "1_000_000", "100_000", 1))
	b.runAll()
	b.grid()
	b.saved()
	b.goTo(eval[string](b, "location.href"))
	b.wait(`document.querySelector('#notebook')?.dataset.ready`)
	b.grid()
	b.run(`document.querySelector('regular-table').scrollTop = 1e9`)
	b.wait(`rows().at(-1).endsWith('note 99999')`) // the interpreter is still there
	session := eval[string](b, `location.pathname.split('/').at(-1)`)
	b.run(`await fetch(document.querySelector('#notebook').dataset.api + '/sessions/` + session + `/restart', { method: 'POST',
		headers: { 'X-Airlock-Token': document.querySelector('meta[name=airlock-token]').content } })`)
	b.run(`press(head('price'))`)
	b.wait(`says().includes('its interpreter has ended. Run its cell again') && says().includes('Here are its first 1,000 rows.')`)
	if got := eval[string](b, `count()`); got != "100,000 rows × 5 columns; 1,000 of them are here and searched" {
		t.Errorf("it says %q", got)
	}
	b.axe("a data frame of the past", allRules)
	b.run(`[...grid().querySelectorAll('button')].find((x) => x.innerText === 'Run the cell again').click()`)
	b.wait(`count() === '100,000 rows × 5 columns'`)
	b.grid()
	b.run(`document.querySelector('regular-table').scrollTop = 1e9`)
	b.wait(`rows().at(-1).endsWith('note 99999')`)
}

// While a cell runs a grid shows the rows that it has, and says that it waits for the others.
func TestFrameBusy(t *testing.T) {
	s := shared(t)
	b := open(t, look{"frame", false, 1440, 900})
	b.notebook(s, strings.Replace(million, "1_000_000", "100_000", 1), "input()")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelector('.cell-input input')`)
	b.wait(`[...document.querySelectorAll('.grid')].at(-1)?.dataset.ready`)
	b.run(gridHelp)
	b.run(`document.querySelector('regular-table').scrollTop = 1e9`)
	b.wait(`says().startsWith('Waiting for the interpreter.')`)
	b.run(`document.querySelector('.cell-input input').value = 'x'; document.querySelector('.cell-input').requestSubmit()`)
	b.wait(`rows().at(-1).endsWith('note 99999') && says() === ''`)
}

// Categories of a frame whose values are all in the page have their own order there, too.
func TestFrameCategories(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "import pandas as pd\npd.DataFrame({'size': pd.Categorical(['high', 'low', None, 'middle'], ['low', 'middle', 'high'])})")
	b.runAll()
	b.grid()
	for _, first := range []string{"1|low", "0|high"} {
		b.run(`press(head('size'))`)
		b.row(first)
	}
}

// The data of a chart are a table below it, of Plotly's bytes as of plain values; of a picture there are none.
func TestChartData(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "import pandas as pd, numpy as np, plotly.express as px, altair as alt\n"+
		"d = pd.DataFrame({'day': [1, 2, 3, 4], 'sold': np.array([1.5, 2.5, np.nan, 4.0]), 'of': list('aabb')})\n"+
		"px.line(d, x='day', y='sold', color='of', width=700)",
		"alt.Chart(d).mark_bar().encode(x='day:O', y='sold:Q').properties(width=600)",
		"import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
		"import plotly.graph_objects as go\ngo.Figure(go.Surface(z=[[1, 2], [3, 4]]))")
	b.runAll()
	open := func(cell int) {
		b.wait(fmt.Sprintf(`document.querySelectorAll('.cell')[%d].querySelector('.chart-data > summary')`, cell))
		b.run(fmt.Sprintf(`document.querySelectorAll('.cell')[%d].querySelector('.chart-data > summary').click()`, cell))
		b.wait(fmt.Sprintf(`document.querySelectorAll('.cell')[%d].querySelector('.chart-data .grid[data-ready]')`, cell))
		b.run(gridHelp)
	}
	open(0)
	b.wait(`count() === '4 rows × 3 columns'`)
	b.row("a|1|1.5")
	b.wait(`[...document.querySelectorAll('.chart-data th')].map((h) => h.innerText).join().includes('sold')`)
	// Altair's chart is drawn, as its data say.
	b.run(`document.querySelector('.out-frame[src$="/vega"]').scrollIntoView()`)
	b.wait(`document.querySelector('.out-frame[src$="/vega"]').style.height !== '420px'`)
	b.examine("chart-data")
	b.axeInEachLook("the data of a chart")
	// Once the system turns dark, charts are drawn anew. Before, the page has to be drawn light once.
	b.run(`await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame)`)
	b.run(`window.drawn = []; for (const f of document.querySelectorAll('.out-frame')) f.addEventListener('load', () => drawn.push(f.src.split('/').at(-1)))`)
	b.seen(dark)
	b.wait(`drawn.includes('plotly') && drawn.includes('vega')`)
	b.shoot("chart-dark")
	// What is wider than a phone is drawn anew, or can be scrolled, which its edge shows.
	for _, how := range []struct {
		look         look
		plotly, vega string
	}{{phone, "fits", "more-right"}, {light, "700", ""}} {
		b.seen(how.look)
		b.inFrame("plotly", fmt.Sprintf(`{ fits: document.querySelector('svg').getBoundingClientRect().width <= innerWidth,
			700: document.querySelector('svg').getBoundingClientRect().width === 700 }[%q] && document.documentElement.scrollWidth <= innerWidth`, how.plotly))
		b.inFrame("vega", fmt.Sprintf(`document.documentElement.className === %q && !!document.querySelector('svg')`, how.vega))
		b.shoot("chart-wide-" + how.look.name)
	}
	open(1)
	b.wait(`document.querySelectorAll('.cell')[1].innerText.includes('4 rows × 3 columns')`)
	if eval[bool](b, `!!document.querySelectorAll('.cell')[2].querySelector('.chart-data')`) {
		t.Error("a picture has data")
	}
	if eval[bool](b, `!!document.querySelectorAll('.cell')[3].querySelector('.chart-data')`) {
		t.Error("a surface, whose data are no table, has one")
	}
}
