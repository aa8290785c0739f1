package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// wording is a state in words, with its CSS class.
type wording struct{ words, class string }

// byteCount returns a number of bytes in words.
func byteCount(n int64) string {
	if n < 1<<10 {
		return count(int(n), "byte")
	}
	size, units := float64(n)/(1<<10), []string{" KiB", " MiB", " GiB"}
	for size >= 1<<10 && len(units) > 1 {
		size, units = size/(1<<10), units[1:]
	}
	return trimZero(fmt.Sprintf("%.1f", size)) + units[0]
}

func trimZero(s string) string { return strings.TrimSuffix(s, ".0") }

// count returns a number of things in words.
func count(n int, thing string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, thing, "")
}

// shortDuration returns a duration in words.
func shortDuration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return trimZero(fmt.Sprintf("%.1f", d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// rough returns a duration in its largest unit.
func rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return count(int(d.Seconds()), "second")
	case d < time.Hour:
		return count(int(d.Minutes()), "minute")
	case d < 48*time.Hour:
		return count(int(d.Hours()), "hour")
	}
	return count(int(d.Hours())/24, "day")
}

func since(now, t time.Time) string {
	if d := now.Sub(t); d >= time.Second {
		return rough(d) + " ago"
	}
	return "just now"
}

func until(now, t time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + rough(d)
	}
	return "expired"
}

// plainText returns a program's output without escape sequences and control characters.
// Line breaks and tabs stay. A carriage return restarts the line, as for progress bars.
func plainText(s string) string {
	if !strings.ContainsFunc(s, isControl) {
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

func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

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
