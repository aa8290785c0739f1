package openai

import (
	"testing"

	"github.com/airlock-run/airlock/internal/live"
)

// sys.exit leaves no traceback: the model is told the exit code, but for 0, which is a success.
func TestExitCodeInLogs(t *testing.T) {
	printed, message := live.Output{Type: live.Stdout, Text: "a"}, live.Output{Type: live.Stderr, Text: "no\n"}
	traceback := live.Output{Type: live.Error, Traceback: []string{"E: x"}}
	said := func(o live.Output) []live.Output { return []live.Output{o, {Type: live.Stderr}} }
	for want, cell := range map[string]live.Cell{
		"":                     {Status: live.StatusOK, ExitCode: new(0)},
		"[exit code 3]\n":      {Status: live.StatusError, ExitCode: new(3)},
		"a\n[exit code 4]\n":   {Status: live.StatusError, ExitCode: new(4), Outputs: said(printed)},
		"no\n[exit code 1]\n":  {Status: live.StatusError, ExitCode: new(1), Outputs: said(message)},
		"E: x\n":               {Status: live.StatusError, ExitCode: new(1), Outputs: said(traceback)},
		"It was interrupted\n": {Status: live.StatusTimeout, Message: "It was interrupted"},
	} {
		if got := logs(&cell); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
