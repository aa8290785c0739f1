package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// describe fills in how a program ended, as its outcome says.
func (e *completion) describe(o *Outcome, limits Limits, cancelled error) {
	run := e.run
	run.ExitCode, run.Signal = o.ExitCode, o.Signal
	run.Wall = cmp.Or(o.Wall, run.Wall)
	run.Duration, run.CPU, run.MemoryPeak, run.Start = max(o.Duration, 0), o.CPU, o.MemoryPeak, o.Start
	switch {
	case o.Cancelled:
		run.Status = StatusCancelled
		run.Message = "The run was cancelled."
		if cancelled != nil {
			run.Message = "The run was cancelled: " + cancelled.Error() + "."
		}
	case o.TimedOut:
		run.Status = StatusTimeout
		run.Message = fmt.Sprintf("The program ran longer than %s and was stopped.", DurationText(limits.Timeout))
	case o.OOM:
		run.Status = StatusOOM
		run.Message = fmt.Sprintf("The program used more than %s of memory and was stopped.", byteCount(limits.Memory))
	case o.Signal != "":
		run.Status = StatusKilled
		run.Message = "The program was ended by " + o.Signal + signalWords(o, limits) + "."
	case o.ExitCode != nil && *o.ExitCode == 0:
		run.Status = StatusOK
	case o.ExitCode != nil:
		run.Status = StatusError
	default:
		run.Status = StatusInterrupted
		run.Message = "The sandbox did not say how the program ended."
	}
}

func signalWords(o *Outcome, limits Limits) string {
	// The kernel kills at the limit with a signal that says nothing, and counts
	// for that in ticks: on a busy machine it takes less for as much.
	overCPU := limits.CPUTime > 0 && o.CPU >= limits.CPUTime*3/4
	switch o.Signal {
	case "SIGKILL":
		if overCPU {
			return fmt.Sprintf(" (it used more than %s of processor time)", DurationText(limits.CPUTime))
		}
	case "SIGSEGV", "SIGBUS":
		return " (it used memory that is not there)"
	case "SIGXCPU":
		return fmt.Sprintf(" (it used more than %s of processor time)", DurationText(limits.CPUTime))
	case "SIGABRT":
		return " (it gave up by itself)"
	case "SIGFPE":
		return " (an impossible calculation)"
	case "SIGSYS":
		return " (it did what the sandbox forbids)"
	case "SIGXFSZ":
		return " (it wrote a file that is too large)"
	}
	return ""
}

// namedFiles is how many dropped files a message names.
const namedFiles = 5

// droppedMessage returns which files were not kept, and why. A request may ask for most, if that is not zero.
func droppedMessage(dropped []DroppedFile, limits, most FileLimit) string {
	var b strings.Builder
	all := 0
	for _, d := range dropped {
		all += 1 + d.More
	}
	if all == 1 {
		b.WriteString("1 file was not kept: ")
	} else {
		fmt.Fprintf(&b, "%d files were not kept: ", all)
	}
	for i, d := range dropped[:min(len(dropped), namedFiles)] {
		if i > 0 {
			b.WriteString(", ")
		}
		name := ShownName(d.Path)
		if name != d.Path {
			name = fmt.Sprintf("%.80q", d.Path)
		}
		fmt.Fprintf(&b, "%s (%s)", name, d.Reason)
	}
	b.WriteString(andMore(all - min(len(dropped), namedFiles)))
	if limits.Count > 0 && slices.ContainsFunc(dropped, func(d DroppedFile) bool {
		return slices.Contains(reasonsOfLimits, d.Reason)
	}) {
		fmt.Fprintf(&b, " A run may leave %d files of %s, %s together.", limits.Count, byteCount(limits.Bytes),
			byteCount(limits.Total))
		if (limits.Count < most.Count || limits.Total < most.Total) && slices.ContainsFunc(dropped, func(d DroppedFile) bool {
			return d.Reason == DropTooMany || d.Reason == DropTotal
		}) {
			fmt.Fprintf(&b, " A request may ask for %d files, %s together (fields limits.output_files, "+
				"limits.output_total_bytes).", most.Count, byteCount(most.Total))
		}
	}
	return b.String()
}

// respelledMessage returns under which names files are stored whose own are not UTF-8.
func respelledMessage(names []string) string {
	if len(names) == 0 {
		return ""
	}
	shown := slices.Clone(names[:min(len(names), namedFiles)])
	for i := range shown {
		shown[i] = ShownName(shown[i])
	}
	return "Names that are not UTF-8 are written with %XX: " + strings.Join(shown, ", ") + andMore(len(names)-len(shown))
}

// andMore ends a list of which some items are not named.
func andMore(n int) string {
	if n > 0 {
		return fmt.Sprintf(" and %d more.", n)
	}
	return "."
}

// reasonsOfLimits are those for which it helps to know how much is kept.
var reasonsOfLimits = []string{DropTooMany, DropTooLarge, DropTotal}

// sentences joins the sentences that are not empty.
func sentences(s ...string) string {
	return strings.Join(slices.DeleteFunc(s, func(text string) bool { return text == "" }), " ")
}

// byteCount returns a number of bytes as a person reads it.
func byteCount(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		switch {
		case n >= unit.size && n%unit.size == 0:
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		case n >= unit.size:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// DurationText returns a duration in words, as every surface shows it.
func DurationText(d time.Duration) string {
	d = max(d, 0)
	decimal := func(n float64, unit string) string {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + unit
	}
	parts := func(n int, unit string, rest int, smaller string) string {
		if rest == 0 {
			return fmt.Sprintf("%d %s", n, unit)
		}
		return fmt.Sprintf("%d %s %d %s", n, unit, rest, smaller)
	}
	switch {
	case d < 10*time.Millisecond:
		return decimal(float64(d)/float64(time.Millisecond), " ms")
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return decimal(d.Seconds(), " s")
	case d < time.Hour:
		return parts(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	}
	return parts(int(d.Hours()), "h", int(d.Minutes())%60, "min")
}
