package browser

import (
	"os"
	"strings"
	"testing"
)

// TestNotebookOwnKernel works in a notebook whose programs have a kernel of their own: a frame, a plot, a cell that is
// stopped and keeps its variables, a terminal, and the packages that it may install.
func TestNotebookOwnKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "this wall needs root")
	}
	// It is found beside airlock.
	made := os.Getenv("AIRLOCK_TEST_BINARY") + "-gvisor"
	if _, err := os.Stat(made); err != nil {
		skip(t, "airlock-gvisor is not beside airlock: make gvisor builds it")
	}
	if err := os.Symlink(made, binary+"-gvisor"); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	s := &service{t: t, log: t.Output(), data: ownFolder(t), args: []string{"--wall", "gvisor"}}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, look{"wall", false, 1440, 900})
	b.notebook(s, "import os\nprint(os.uname().release)",
		"import pandas as pd\nf = pd.DataFrame({'n': range(2000), 'word': [f'w{i}' for i in range(2000)]})\nf",
		"import matplotlib.pyplot as plt\nf.head(9).plot(x='word', y='n')\nplt.show()",
		"import time\nprint('begun', flush=True)\ntime.sleep(600)")
	b.run(`document.querySelector('#run-all').click()`)
	b.wait(`document.querySelectorAll('.cell-out')[3]?.innerText.includes('begun')`)
	if got := b.text(".cell-out"); !strings.HasSuffix(strings.TrimSpace(got), "-gvisor") {
		t.Errorf("the kernel of the cells is %q", got)
	}
	b.wait(`document.querySelectorAll('.cell-out')[2].querySelector('.out-image')?.naturalWidth > 100`)
	b.click("#interrupt")
	b.idle()
	b.wait(`document.querySelectorAll('.cell-out')[3].innerText.includes('KeyboardInterrupt')`)

	// The frame is still there, for the grid too: the last rows come from the interpreter.
	b.grid()
	b.wait(`count() === '2,000 rows × 2 columns'`)
	b.run(`document.querySelector('regular-table').scrollTop = 1e9`)
	b.wait(`rows().at(-1) === '1999|1999|w1999'`)
	b.wait(`document.querySelector('#variables').innerText.includes('DataFrame')`)

	b.click("#install")
	b.wait(`document.querySelector('#look').open && document.querySelector('#look-body').innerText.includes('airlock serve --network-allow packages')`)
	b.run(`document.querySelector('#look').close()`)
	b.run(`document.querySelector('#terminal-open').click()`)
	b.wait(`document.querySelector('#terminal .xterm-helper-textarea')`)
	b.do(typed(".xterm-helper-textarea", "uname -r; echo $((6*7))\r"))
	b.wait(`/-gvisor[^]*42/.test(document.querySelector('#terminal').innerText)`)
	b.saved()
	b.run(`location.reload()`)
	b.wait(`document.querySelector('#notebook')?.dataset.ready && document.querySelector('#left').innerText.startsWith('Variables are still there')`)
	b.shoot("notebook-wall")
}
