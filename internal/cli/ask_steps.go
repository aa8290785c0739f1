package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-run/airlock/provider"
)

// stepShown is code that runs.
type stepShown struct {
	number  int // in its turn
	code    bool
	printed bool            // its output was shown as it came
	beside  bool            // other code ran at the same time
	line    strings.Builder // output that has not ended its line
}

// step is a step that is shown. All that run at the same time get their numbers
// before what they print.
func (s *turnShown) step(id string) *stepShown {
	if found, ok := s.steps[id]; ok {
		return found
	}
	s.begun++
	step := &stepShown{number: s.begun}
	s.steps[id] = step
	if len(s.steps) > 1 {
		for _, other := range s.steps {
			other.beside = true
		}
	}
	return step
}

// mark tells which of the steps that run at the same time a line is about.
func (p *stepShown) mark() string {
	if !p.beside {
		return ""
	}
	return fmt.Sprintf("[%d] ", p.number)
}

// showCode shows code before it runs.
func (s *turnShown) showCode(is provider.Step) {
	step := s.step(is.ID)
	if step.code || is.Code == "" {
		return
	}
	step.code = true
	language := cmp.Or(is.Language, "code")
	s.begin("code " + is.ID)
	s.page.line("%s", s.page.paint(bold, step.mark()+"runs "+printable(language)+":"))
	for line := range strings.Lines(plainText(strings.TrimRight(is.Code, "\n"))) {
		s.page.line("%s", strings.TrimRight("  | "+line, " \n"))
	}
}

// output shows whole lines of what running code prints.
func (s *turnShown) output(e provider.OutputDelta) {
	step := s.step(e.StepID)
	step.printed = true
	step.line.WriteString(e.Data)
	text := step.line.String()
	end := strings.LastIndexByte(text, '\n') + 1
	s.outputLines(step, text[:end])
	step.line.Reset()
	step.line.WriteString(text[end:])
}

func (s *turnShown) outputLines(step *stepShown, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(plainText(text), "\n"), "\n") {
		s.page.line("  %s", s.page.paint(faint, step.mark()+line))
	}
}

// ended shows the outcome of a step.
func (s *turnShown) ended(is provider.Step) {
	s.showCode(is)
	step := s.step(is.ID)
	delete(s.steps, is.ID) // another one may have its id
	s.outputLines(step, step.line.String())
	if !step.printed {
		s.outputLines(step, is.Stdout)
		s.outputLines(step, is.Stderr)
	}
	look, line := green, string(is.Outcome)
	if is.Outcome != provider.OutcomeOK {
		look = red
	}
	if is.ExitCode != nil && *is.ExitCode != 0 {
		line += fmt.Sprintf(" (exit code %d)", *is.ExitCode)
	}
	if took := is.Ended.Sub(is.Started); !is.Started.IsZero() && took >= 10*time.Millisecond {
		line += fmt.Sprintf(" after %v", took.Round(10*time.Millisecond))
	}
	if is.Detail != "" && is.Detail != "completed" && !strings.HasSuffix(is.Detail, string(is.Outcome)) {
		line += ": " + printable(is.Detail)
	}
	s.page.line("  %s%s", step.mark(), s.page.paint(look, line))
}
