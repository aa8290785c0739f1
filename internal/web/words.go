package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// byteCount says a number of bytes to a person.
func byteCount(n int64) string {
	switch {
	case n < 1<<10:
		return count(int(n), "byte")
	case n < 1<<20:
		return trimZero(fmt.Sprintf("%.1f", float64(n)/(1<<10))) + " KiB"
	case n < 1<<30:
		return trimZero(fmt.Sprintf("%.1f", float64(n)/(1<<20))) + " MiB"
	}
	return trimZero(fmt.Sprintf("%.1f", float64(n)/(1<<30))) + " GiB"
}

func trimZero(s string) string { return strings.TrimSuffix(s, ".0") }

// count says how many there are of a thing whose plural has an s.
func count(n int, thing string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, thing, "")
}

// shortDuration says how long something took.
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

// rough says a length of time in its largest unit.
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
