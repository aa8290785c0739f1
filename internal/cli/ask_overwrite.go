package cli

import (
	"github.com/dustin/go-humanize/english"
	"golang.org/x/term"

	"github.com/airlock-run/airlock/workspace"
)

// mostDiffLines are shown of a file before a person is asked about it.
const mostDiffLines = 60

// overwrite shows what replacing a file would do to it.
func (s *turnShown) overwrite(f *workspace.FileChange) {
	if f == nil {
		return
	}
	whole, cut := *f, 0
	lines := 0
	for i := range f.Hunks {
		if lines += len(f.Hunks[i].Lines); i > 0 && lines > mostDiffLines {
			whole.Hunks, cut = f.Hunks[:i], len(f.Hunks)-i
			break
		}
	}
	if len(whole.Hunks) > 0 && len(whole.Hunks[0].Lines) > mostDiffLines {
		first := whole.Hunks[0]
		first.Lines = first.Lines[:mostDiffLines]
		whole.Hunks, cut = []workspace.Hunk{first}, len(f.Hunks)
	}
	whole.ID, whole.Findings = "  ", nil // there is nothing to choose by it, and that it exists is the question
	showFile(s.page, &whole, widthOf(s.streams.Err))
	if cut > 0 {
		s.page.line("    %s", s.page.paint(faint, "... and more: in all "+english.Plural(f.Added, "line", "")+" more and "+
			english.Plural(f.Removed, "line", "")+" less"))
	}
}

// widthOf is how wide a terminal is, else how wide reports are.
func widthOf(stream any) int {
	if f := fileOf(stream); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return pageWidth
}
