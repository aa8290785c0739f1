package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/airlock-run/airlock/provider"
)

// printer shows how a command ended, to a person or to a program.
type printer interface {
	// result shows the one report of a command.
	result(r report)
	// fail shows an error, with its hint.
	fail(err error)
}

// report is the result of a command. As JSON it is what encoding/json makes
// of it.
type report interface {
	// text writes it for a person, in 80 columns.
	text(p *page)
}

// ended is the part of a report that says what went wrong.
type ended struct {
	Error *problem `json:"error,omitempty"`
}

func (e *ended) fail(p problem) { e.Error = &p }

// finish shows a report together with what went wrong, which ends the command.
func (a *app) finish(r interface {
	report
	fail(p problem)
}, err error) error {
	code, quiet := exitOf(err)
	if err != nil && !quiet {
		r.fail(explain(err))
	}
	a.out.result(r)
	if err == nil {
		return nil
	}
	if !a.json && !quiet {
		a.out.fail(err)
	}
	return exit(code)
}

func newPrinter(streams Streams, asJSON, colour bool, redact *provider.Redactor) printer {
	if asJSON {
		return jsonPrinter{streams.Out, redact}
	}
	return textPrinter{streams, colour, redact}
}

type jsonPrinter struct {
	out    io.Writer
	redact *provider.Redactor
}

func (p jsonPrinter) result(r report) { p.print(r) }

func (p jsonPrinter) fail(err error) {
	p.print(map[string]problem{"error": explain(err)})
}

func (p jsonPrinter) print(v any) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return // of what is made here nothing fails
	}
	// The reader may be gone, and then there is nobody to tell.
	_, _ = io.WriteString(p.out, escapeJSON(p.redact.Known(text.String())))
}

// escapeJSON writes the characters of a document that would not show, or that
// a terminal would obey, by their numbers. They are within strings only.
func escapeJSON(document string) string {
	var b strings.Builder
	for _, r := range document {
		switch {
		case r < 0x7f || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

type textPrinter struct {
	streams Streams
	colour  bool
	redact  *provider.Redactor
}

func (p textPrinter) result(r report) { r.text(&page{p.streams.Out, p.colour}) }

func (p textPrinter) fail(err error) {
	shown := explain(err)
	fmt.Fprintln(p.streams.Err, "error: "+p.redact.Error(shown.Message))
	if shown.Hint != "" {
		fmt.Fprintln(p.streams.Err, "hint: "+p.redact.Error(shown.Hint))
	}
}

// page is where a report writes its text.
type page struct {
	io.Writer
	colour bool
}

const pageWidth = 80

func (p *page) line(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", args...)
}

// The few looks that text can have, with their codes in ANSI escapes.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *page) paint(look, text string) string {
	if !p.colour || text == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// row writes a name, a coloured state and a text that is wrapped beside them.
func (p *page) row(name string, width int, look, state, text string) {
	const stateWidth = 9
	indent := 2 + width + 2 + stateWidth
	lines := wrap(text, pageWidth-indent)
	p.line("%s", strings.TrimRight(fmt.Sprintf("  %s  %s%s", pad(name, width), p.paint(look, pad(state, stateWidth)),
		lines[0]), " "))
	for _, line := range lines[1:] {
		p.line("%s%s", strings.Repeat(" ", indent), line)
	}
}

// table writes rows in columns as wide as what is in them, the first row as their heads.
func (p *page) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell)+2)
		}
	}
	for n, row := range rows {
		line := ""
		for i, cell := range row {
			line += pad(cell, widths[i])
		}
		if line = strings.TrimRight(line, " "); n == 0 {
			line = p.paint(bold, line)
		}
		p.line("%s", line)
	}
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// wrap breaks text into lines of at most width characters, where it has
// spaces and else within a word. There is always one line.
func wrap(text string, width int) []string {
	var lines []string
	var line []rune
	for field := range strings.FieldsSeq(text) {
		word := []rune(field)
		if len(line) > 0 && len(line)+1+len(word) > width {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, word...); len(line) > width; line = line[width:] {
			lines = append(lines, string(line[:width]))
		}
	}
	return append(lines, string(line))
}

// printable makes a sentence that came from outside safe for a terminal: control
// characters, which can move the cursor or retitle the window, and those that
// turn the direction of what follows are written as escapes. Joiners stay, which
// belong to the text of some languages.
func printable(text string) string {
	return escape(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r >= 0x202a && r <= 0x202e ||
			r >= 0x2066 && r <= 0x2069
	})
}

// printableName is printable for a name, and for a line of a file: every
// character that does not show is written as an escape, so that no two names
// look alike.
func printableName(name string) string {
	return escape(name, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	})
}

// escape writes some characters, and bytes that are not UTF-8, as a string of Go
// has them.
func escape(text string, hidden func(rune) bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		one := text[i : i+size]
		if r == utf8.RuneError && size == 1 || hidden(r) {
			one = strings.Trim(strconv.QuoteToASCII(one), `"`)
		}
		b.WriteString(one)
		i += size
	}
	return b.String()
}
