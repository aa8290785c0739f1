package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// A data frame has its true size, all of its rows can be searched, and numbers stand right.
func TestDataFrame(t *testing.T) {
	s := shared(t)
	b := open(t, look{"frame", false, 1100, 760})
	b.goTo(s.url + "/notebooks")
	b.click("form.new button")
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('.cell .cm-content')`)
	b.do(chromedp.SendKeys(chromedp.CSS(".cm-content"),
		"import pandas as pd, numpy as np\npd.DataFrame(np.zeros((2000, 14))).assign(word='007')"))
	b.runAll()
	b.wait(`document.querySelector('.grid-bar small')?.innerText === '2,000 rows × 15 columns'`)
	if got := eval[string](b, `[...document.querySelectorAll('.grid tbody tr:not([hidden]) td')].slice(1, 17).map((c) => c.className + c.textContent).join(' ')`); got !=
		"number0 number0.0 number0.0 number0.0 number0.0 number0.0 number0.0 number0.0 number0.0 number0.0 number0.0 number0.0 "+
			"number0.0 number0.0 number0.0 007" {
		t.Errorf("the first row is %q", got)
	}
	b.run(`const find = document.querySelector('.grid-bar input'); find.value = '1999'; find.dispatchEvent(new Event('input'))`)
	b.wait(`document.querySelector('.grid-bar small').innerText === '1 of 2,000 rows × 15 columns'`)
}
