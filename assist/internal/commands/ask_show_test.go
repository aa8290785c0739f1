package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

// In a pipe a large file tells each quarter once, and a small one nothing. As
// JSON nothing is told.
func TestTransfersInAPipe(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var out bytes.Buffer
		a := &Assistant{App: &command.App{Streams: command.Streams{Err: &out, Out: &out}, Config: &config.Config{},
			JSON: quiet}}
		s := a.showTurns(false)
		const size = 20 << 20
		for done := int64(0); done <= size; done += 1 << 20 {
			s.tell(conversation.Uploading{Name: "big.bin", Sent: done, Size: size})
			s.tell(conversation.Downloading{Name: "small.bin", Done: done / 20, Size: size / 20})
		}
		s.tell(conversation.Downloading{Name: "big.bin", Done: 19 << 20, Size: size})
		s.tell(conversation.Downloading{Name: "unknown.bin", Done: 19 << 20, Size: -1})
		want := "sending big.bin: 25 % of 20 MiB\nsending big.bin: 50 % of 20 MiB\nsending big.bin: 75 % of 20 MiB\n" +
			"fetching big.bin: 75 % of 20 MiB\n"
		if quiet {
			want = ""
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}

func showing() (*turnView, *bytes.Buffer) {
	var out bytes.Buffer
	a := &Assistant{App: &command.App{Streams: command.Streams{Err: &out, Out: &out}, Config: &config.Config{}}}
	return a.showTurns(false), &out
}

// Two programs at once: no line of one goes on in a line of the other.
func TestTwoAtOnce(t *testing.T) {
	s, out := showing()
	one, two := provider.Step{ID: "a", Code: "one", Outcome: provider.OutcomeOK},
		provider.Step{ID: "b", Code: "two", Outcome: provider.OutcomeFailed}
	for _, e := range []conversation.Event{
		conversation.Begun{}, provider.StepStarted{Step: one}, provider.StepStarted{Step: two},
		provider.OutputDelta{StepID: "a", Data: "a"}, provider.OutputDelta{StepID: "b", Data: "b"},
		provider.OutputDelta{StepID: "a", Data: "A\n"},
		provider.StepDone{Step: two}, provider.StepDone{Step: one},
	} {
		s.tell(e)
	}
	want := "runs code:\n  | one\n[2] runs code:\n  | two\n  [1] aA\n  [2] b\n  [2] FAILED\n  [1] OK\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// Code is shown each time that it runs, whatever id it comes with.
func TestCodeIsShownEachTime(t *testing.T) {
	s, out := showing()
	for _, code := range []string{"first", "second", "third"} {
		if code != "second" {
			s.tell(conversation.Begun{})
		}
		step := provider.Step{ID: "call_0", Code: code, Stdout: "out of " + code, Outcome: provider.OutcomeOK}
		s.tell(provider.StepStarted{Step: step})
		s.tell(provider.StepDone{Step: step})
	}
	for _, want := range []string{"| first", "out of first", "| second", "out of second", "| third", "out of third"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, out)
		}
	}
}
