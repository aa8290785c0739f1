package command

import (
	"fmt"
	"strings"

	"golang.org/x/term"
)

// LargeTransfer is the size from which a pipe shows the progress of a file.
const LargeTransfer = 8 << 20

const barWidth = 24

// Transfers shows the progress of files that are sent and fetched: a bar on a terminal, and
// in a pipe a line for each quarter of a large file.
type Transfers struct {
	Page     *Page
	Quiet    bool             // nothing is shown
	Bars     bool             // the page is a terminal that can redraw a line
	bar      bool             // the current line is a bar
	quarters map[string]int64 // last one shown in a pipe, by transfer
	newLine  func()           // begins a new line
}

// Transfers returns a view of transfers on standard error. If newLine is nil, nothing else is
// written there.
func (a *App) Transfers(newLine func()) *Transfers {
	t := &Transfers{Page: a.PageOn(a.Streams.Err), Quiet: a.JSON, Bars: IsTerminal(a.Streams.Err) && !a.Config.Plain,
		quarters: map[string]int64{}, newLine: newLine}
	if newLine == nil {
		t.newLine = t.ClearBar
	}
	return t
}

// Show shows how much of a file was transferred.
func (t *Transfers) Show(what, name string, done, size int64) {
	if t.Quiet {
		return
	}
	if !t.Bars {
		quarter := done * 4 / max(size, 1)
		if key := what + " " + name; size >= LargeTransfer && quarter > t.quarters[key] && quarter < 4 {
			t.newLine()
			t.quarters[key] = quarter
			t.Page.Line("%s %s: %d %% of %s", what, PrintableName(name), quarter*25, SizeText(size))
		}
		return
	}
	t.newLine()
	part, percent := 0, ""
	if size > 0 {
		part = int(min(done, size) * barWidth / size)
		percent = fmt.Sprintf(" %3d %%", min(done, size)*100/size)
	}
	t.Write(fmt.Sprintf("%s %s [%s%s]%s %s", what, PrintableName(name), strings.Repeat("#", part),
		strings.Repeat(" ", barWidth-part), percent, SizeText(done)))
}

// Write replaces the bar on a terminal.
func (t *Transfers) Write(line string) {
	fmt.Fprint(t.Page, "\r\x1b[K"+line)
	t.bar = true
}

// ClearBar removes the bar.
func (t *Transfers) ClearBar() {
	if t.bar {
		fmt.Fprint(t.Page, "\r\x1b[K")
		t.bar = false
	}
}

// WidthOf returns the width of a terminal, else that of reports.
func WidthOf(stream any) int {
	if f := FileOf(stream); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return PageWidth
}
