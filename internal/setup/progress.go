package setup

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress shows what setup is doing.
type Progress interface {
	Step(title string)                  // a step begins
	Update(done, total int, now string) // within a step; total 0: not known
	Done(result string)                 // the step succeeded
	Warn(text string)                   // a problem that does not stop setup
}

// NewProgress returns a Progress that draws a bar on a terminal, and else writes plain
// lines.
func NewProgress(w io.Writer, terminal bool) Progress {
	return &printer{w: w, terminal: terminal}
}

type printer struct {
	w        io.Writer
	terminal bool
	title    string
	began    time.Time
	tenth    int  // of the step, printed last
	partial  bool // the line on the terminal is incomplete
}

const (
	barWidth  = 24
	itemWidth = 36
)

func (p *printer) Step(title string) {
	p.title, p.began, p.tenth = title, time.Now(), 0
	if p.terminal {
		p.rewrite(fmt.Sprintf("  %s ...", title))
		return
	}
	fmt.Fprintf(p.w, "%s ...\n", title)
}

func (p *printer) Update(done, total int, now string) {
	if p.terminal {
		if runes := []rune(now); len(runes) > itemWidth {
			now = string(runes[:itemWidth-3]) + "..."
		}
		p.rewrite(fmt.Sprintf("  %s %s%s", p.title, bar(done, total), now))
		return
	}
	if total == 0 {
		fmt.Fprintf(p.w, "  %s\n", now)
		return
	}
	if tenth := done * 10 / total; tenth != p.tenth {
		p.tenth = tenth
		fmt.Fprintf(p.w, "  %d of %d: %s\n", done, total, now)
	}
}

func bar(done, total int) string {
	if total <= 0 {
		return ""
	}
	full := min(done, total) * barWidth / total
	return fmt.Sprintf("[%s%s] %d/%d ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, total)
}

func (p *printer) Done(result string) {
	if took := time.Since(p.began); took >= time.Second {
		result += fmt.Sprintf(" (%s)", took.Round(time.Second))
	}
	p.line(fmt.Sprintf("%s: %s", p.title, result))
}

func (p *printer) Warn(text string) { p.line("warning: " + text) }

func (p *printer) rewrite(text string) {
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
	p.partial = true
}

func (p *printer) line(text string) {
	if p.partial {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.partial = false
	}
	fmt.Fprintln(p.w, text)
}
