package command

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/redact"
)

// report is the result of a command. With --json it is encoded by encoding/json.
type report interface {
	// WriteText writes it for a user, in 80 columns.
	WriteText(p *Page)
}

// Ended is the part of a report that holds an error.
type Ended struct {
	Error *Problem `json:"error,omitempty"`
}

// SetError sets the error. Finish calls it.
func (e *Ended) SetError(p Problem) { e.Error = &p }

// Finish shows a report together with an error, which ends the command.
func (a *App) Finish(r interface {
	report
	SetError(p Problem)
}, err error) error {
	code, quiet := ExitOf(err)
	if err != nil && !quiet {
		r.SetError(Explain(err))
	}
	a.Out.Result(r)
	if err == nil {
		return nil
	}
	if !a.JSON && !quiet {
		a.Out.Fail(err)
	}
	return Exit(code)
}

// Printer shows how a command ended: as text to a person, or as JSON to a program.
type Printer struct {
	Streams Streams
	JSON    bool
	colour  bool
	redact  *redact.Redactor
	endLine func() // nil: no program has written to standard error
}

// Result shows the one report of a command.
func (p Printer) Result(r report) {
	if p.JSON {
		p.Document(r)
		return
	}
	r.WriteText(&Page{p.Streams.Out, p.colour})
}

// Fail shows an error, with its hint.
func (p Printer) Fail(err error) {
	shown := Explain(err)
	if p.JSON {
		p.Document(map[string]Problem{"error": shown})
		return
	}
	if p.endLine != nil {
		p.endLine()
	}
	fmt.Fprintln(p.Streams.Err, "error: "+p.redact.Error(shown.Message))
	if shown.Hint != "" {
		fmt.Fprintln(p.Streams.Err, "hint: "+p.redact.Error(shown.Hint))
	}
}

// Document prints a JSON document.
func (p Printer) Document(v any) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return // every report can be encoded
	}
	// The reader may have closed the pipe, which is no failure of the command.
	_, _ = io.WriteString(p.Streams.Out, escapeJSON(p.redact.Known(text.String())))
}

// escapeJSON escapes the characters of a document that are invisible or control a
// terminal. They occur in strings only.
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

// Page is the writer of a report's text.
type Page struct {
	io.Writer
	Colour bool
}

// PageWidth is the width of reports in characters.
const PageWidth = 80

// PageOn returns a page on a stream, with colour if the stream is a terminal that may have it.
func (a *App) PageOn(stream io.Writer) *Page {
	return &Page{stream, IsTerminal(stream) && !a.Config.Plain}
}

// Line writes a line.
func (p *Page) Line(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", args...)
}

// The styles of text, as ANSI codes.
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Paint returns a text in a style, if the page has colours.
func (p *Page) Paint(look, text string) string {
	if !p.Colour || text == "" || look == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// Row writes a name, a coloured state, and a text wrapped beside them.
func (p *Page) Row(name string, width int, look, state, text string) {
	const stateWidth = 9
	indent := 2 + width + 2 + stateWidth
	lines := Wrap(text, PageWidth-indent)
	p.Line("%s", strings.TrimRight(fmt.Sprintf("  %s  %s%s", Pad(name, width), p.Paint(look, Pad(state, stateWidth)),
		lines[0]), " "))
	for _, line := range lines[1:] {
		p.Line("%s%s", strings.Repeat(" ", indent), line)
	}
}

// Table writes rows in columns as wide as their cells. The first row is the header.
func (p *Page) Table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], Columns(cell)+2)
		}
	}
	for n, row := range rows {
		line := ""
		for i, cell := range row {
			line += Pad(cell, widths[i])
		}
		if line = strings.TrimRight(line, " "); n == 0 {
			line = p.Paint(Bold, line)
		}
		p.Line("%s", line)
	}
}

// Pad fills a text up to a width in columns with spaces.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-Columns(text)))
}

// Cut returns as much of the beginning of a text of one line as some columns hold.
func Cut(text string, columns int) string { return ansi.Truncate(text, columns, "") }

// Wrap breaks text into lines of at most width columns, at spaces and else within
// a word. It returns at least one line.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && Columns(line)+1+Columns(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		for line += word; Columns(line) > width; {
			first, _ := cluster(line)
			start := max(len(first), len(Cut(line, width)))
			lines, line = append(lines, line[:start]), line[start:]
		}
	}
	return append(lines, line)
}

// Printable makes untrusted text safe for a terminal: it escapes control characters,
// which can move the cursor or retitle the window, and characters that change the
// direction of text. Joiners stay: some languages need them.
func Printable(text string) string {
	return escape(text, unprintable)
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r >= 0x202a && r <= 0x202e ||
		r >= 0x2066 && r <= 0x2069
}

// PrintableName makes a name, or a line of a file, safe for a terminal. It escapes
// every invisible character, so that no two names look alike.
func PrintableName(name string) string {
	return escape(name, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	})
}

// escape escapes the hidden characters, and bytes that are not UTF-8, as in a Go string.
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

// redactLog removes secrets from log records: an error may quote a server that repeats them.
func redactLog(r *redact.Redactor) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case time.Duration: // JSON has it as a number of nanoseconds, which says no unit
			a.Value = slog.StringValue(v.String())
		case string:
			a.Value = slog.StringValue(r.Error(v))
		case error:
			a.Value = slog.StringValue(r.Error(v.Error()))
		}
		return a
	}
}

// SizeText returns a number of bytes in words. A negative one is not known.
func SizeText(n int64) string {
	if n < 0 {
		return "size unknown"
	}
	return humanize.IBytes(uint64(n))
}

// DurationText returns a duration in words.
func DurationText(d time.Duration) string { return engine.DurationText(d) }

// PlainText is printable for text of several lines: it keeps line feeds and tabs.
func PlainText(text string) string {
	return escape(text, func(r rune) bool { return r != '\n' && r != '\t' && unprintable(r) })
}
