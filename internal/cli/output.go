package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/airlock-run/airlock/provider"
)

// report is the result of a command. With --json it is encoded by encoding/json.
type report interface {
	// text writes it for a user, in 80 columns.
	text(p *page)
}

// ended is the part of a report that holds an error.
type ended struct {
	Error *problem `json:"error,omitempty"`
}

func (e *ended) fail(p problem) { e.Error = &p }

// finish shows a report together with an error, which ends the command.
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

// printer shows how a command ended: as text to a person, or as JSON to a program.
type printer struct {
	streams Streams
	json    bool
	colour  bool
	redact  *provider.Redactor
}

// result shows the one report of a command.
func (p printer) result(r report) {
	if p.json {
		p.document(r)
		return
	}
	r.text(&page{p.streams.Out, p.colour})
}

// fail shows an error, with its hint.
func (p printer) fail(err error) {
	shown := explain(err)
	if p.json {
		p.document(map[string]problem{"error": shown})
		return
	}
	fmt.Fprintln(p.streams.Err, "error: "+p.redact.Error(shown.Message))
	if shown.Hint != "" {
		fmt.Fprintln(p.streams.Err, "hint: "+p.redact.Error(shown.Hint))
	}
}

// document prints a JSON document.
func (p printer) document(v any) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return // every report can be encoded
	}
	// The reader may have closed the pipe, which is no failure of the command.
	_, _ = io.WriteString(p.streams.Out, escapeJSON(p.redact.Known(text.String())))
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

// page is the writer of a report's text.
type page struct {
	io.Writer
	colour bool
}

const pageWidth = 80

// pageOn returns a page on a stream, with colour if the stream is a terminal that may have it.
func (a *app) pageOn(stream io.Writer) *page {
	return &page{stream, isTerminal(stream) && !a.cfg.Plain}
}

func (p *page) line(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", args...)
}

// The styles of text, as ANSI codes.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *page) paint(look, text string) string {
	if !p.colour || text == "" || look == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// row writes a name, a coloured state, and a text wrapped beside them.
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

// table writes rows in columns as wide as their cells. The first row is the header.
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

// wrap breaks text into lines of at most width characters, at spaces and else within
// a word. It returns at least one line.
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

// printable makes untrusted text safe for a terminal: it escapes control characters,
// which can move the cursor or retitle the window, and characters that change the
// direction of text. Joiners stay: some languages need them.
func printable(text string) string {
	return escape(text, unprintable)
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r >= 0x202a && r <= 0x202e ||
		r >= 0x2066 && r <= 0x2069
}

// printableName makes a name, or a line of a file, safe for a terminal. It escapes
// every invisible character, so that no two names look alike.
func printableName(name string) string {
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
func redactLog(r *provider.Redactor) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(r.Error(v))
		case error:
			a.Value = slog.StringValue(r.Error(v.Error()))
		}
		return a
	}
}

func sizeText(n int64) string {
	if n < 0 {
		return "size unknown"
	}
	return humanize.IBytes(uint64(n))
}
