package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// ByteCount returns a number of bytes in words.
func ByteCount(n int64) string {
	if n < 1<<10 {
		return Count(int(n), "byte")
	}
	size, units := float64(n)/(1<<10), []string{" KiB", " MiB", " GiB"}
	for size >= 1<<10-0.05 && len(units) > 1 { // what would be rounded to 1024
		size, units = size/(1<<10), units[1:]
	}
	return TrimZero(fmt.Sprintf("%.1f", size)) + units[0]
}

// TrimZero returns a number without a last digit of zero.
func TrimZero(s string) string { return strings.TrimSuffix(s, ".0") }

// Count returns a number of things in words.
func Count(n int, thing string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, thing, "")
}

// Rough returns a duration in its largest unit.
func Rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return Count(int(d.Seconds()), "second")
	case d < time.Hour:
		return Count(int(d.Minutes()), "minute")
	case d < 48*time.Hour:
		return Count(int(d.Hours()), "hour")
	}
	return Count(int(d.Hours())/24, "day")
}

func since(now, t time.Time) string {
	if d := now.Sub(t); d >= time.Second {
		return Rough(d) + " ago"
	}
	return "just now"
}

func until(now, t time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + Rough(d)
	}
	return "expired"
}

// PlainText returns a program's output without escape sequences and control characters.
// Line breaks and tabs stay. A carriage return restarts the line, as for progress bars.
func PlainText(s string) string {
	if !strings.ContainsFunc(s, IsControl) {
		return s
	}
	b := make([]byte, 0, len(s))
	start := 0 // of the current line in b
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == 0x1b:
			i = skipEscape(s, i)
			continue
		case c == '\n':
			b = append(b, c)
			start = len(b)
		case c == '\r':
			if next := i + 1; next < len(s) && s[next] != '\n' {
				b = b[:start]
			}
		case c < ' ' && c != '\t' || c == 0x7f:
		default:
			b = append(b, c)
		}
		i++
	}
	return string(b)
}

// IsControl reports whether a character is a control other than a line break and a tab.
func IsControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// skipEscape returns where an escape sequence ends that begins at i.
func skipEscape(s string, i int) int {
	if i++; i >= len(s) {
		return i
	}
	switch s[i] {
	case '[': // a command: parameters, then one letter
		for i++; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
		}
	case ']', 'P', '^', '_', 'X': // a string, up to BEL or ESC \
		for i++; i < len(s) && s[i] != 0x07 && s[i] != 0x1b; i++ {
		}
		if i+1 < len(s) && s[i] == 0x1b && s[i+1] == '\\' {
			i++
		}
	}
	return min(i+1, len(s))
}
