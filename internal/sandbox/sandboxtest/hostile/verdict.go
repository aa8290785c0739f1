package hostile

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// claims are a program's signed statements about itself.
type claims struct {
	tried    []string
	breaches []string
	done     int // number of steps tried; -1: it did not reach its end
}

// signature returns the prefix of a program's own lines.
func signature(nonce string) string { return "H:" + nonce + ":" }

func readClaims(output, nonce string) claims {
	c := claims{done: -1}
	for line := range strings.Lines(output) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), signature(nonce))
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(text, ":")
		switch key {
		case "tried":
			c.tried = append(c.tried, value)
		case "breach":
			c.breaches = append(c.breaches, value)
		case "done":
			c.done, _ = strconv.Atoi(value)
		}
	}
	return c
}

// answerTime is how much longer than its program a run may take on a busy machine, where
// ten seconds were seen. A cell is interrupted first, and killed two seconds later. The
// guaranteed times are measured separately (docs/soak.md).
const answerTime = 20 * time.Second

// judge returns the faults in a program's end, or nil if the sandbox withstood it.
func (p *program) judge(
	w *world, nonce string, r sandboxtest.Result, limits engine.Limits, took time.Duration,
) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	c := readClaims(r.Stdout, nonce)
	for _, b := range c.breaches {
		if p.isCell && p.own != nil && p.own.MatchString(b) {
			continue // that it concerns nobody else the next program shows
		}
		fault("it got through: %s", b)
	}
	if len(c.tried) == 0 {
		fault("it never tried anything")
	}
	if wrong := p.wrongEnd(r, c); wrong != "" {
		fault("%s", wrong)
	}
	if took > p.timeout+answerTime {
		fault("the answer took %v, with a limit of %v", took, p.timeout)
	}
	if strings.Contains(r.Stdout+r.Stderr, w.secret) {
		fault("the secret is in its output")
	}
	return append(append(faults, judgeFiles(w, r, limits)...), w.touched()...)
}

// wrongEnd compares a program's end with the required one.
func (p *program) wrongEnd(r sandboxtest.Result, c claims) string {
	right := true
	switch p.ends {
	case "well":
		right = r.Code() == 0 && !r.TimedOut
		if right && c.done != len(c.tried) {
			return fmt.Sprintf("it tried %d steps and said %d", len(c.tried), c.done)
		}
	case "timeout":
		right = r.TimedOut && r.ExitCode == nil || p.limited && r.Refused && r.Signal == "SIGKILL"
	case "killed":
		right = r.Signal != "" && !r.TimedOut
	case "oom":
		right = !r.TimedOut && r.Code() != 0 && (r.OOM || !p.counted)
	case "badly":
		right = r.TimedOut || r.Code() != 0
	}
	if right {
		return ""
	}
	return fmt.Sprintf("it had to end %s: exit code %d, signal %q, timed out %v, out of memory %v", p.ends, r.Code(),
		r.Signal, r.TimedOut, r.OOM)
}

// judgeFiles checks the files of any program.
func judgeFiles(w *world, r sandboxtest.Result, limits engine.Limits) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var total int64
	for name, content := range r.Files {
		total += int64(len(content))
		if !utf8.ValidString(name) || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "../") {
			fault("a file is called %q", name)
		}
		if strings.Contains(content, w.secret) {
			fault("the secret is in the file %q", name)
		}
		if strings.Contains(content, "root:x:0:") {
			fault("a file of the system came out as %q", name)
		}
		if int64(len(content)) > limits.Files.Bytes {
			fault("the file %q has %d bytes", name, len(content))
		}
	}
	if len(r.Files) > limits.Files.Count || total > limits.Files.Total {
		fault("%d files of %d bytes together were kept", len(r.Files), total)
	}
	for _, d := range r.Dropped {
		if d.Reason == "" || strings.Contains(d.Path, w.secret) {
			fault("%q was dropped for %q", d.Path, d.Reason)
		}
	}
	return faults
}
