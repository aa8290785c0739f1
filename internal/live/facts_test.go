package live

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// facts are what a test wants of a cell. Fields that are zero may be anything.
type facts struct {
	Status               Status
	Stdout, Stderr       string
	StdoutHas, StderrHas string // parts
	Result               string // as plain text
	Error                string // name of the error that it raised
	Value, ValueHas      string // of the same, and a part
	Message, NotMessage  string // a part, and one that it must not have
	Exit                 *int
	Restarted            *bool
	Files                []string // paths
}

// checkCell compares a cell with what is wanted of it. about says what the cell is, if
// several are alike.
func checkCell(t *testing.T, c Cell, want facts, about ...string) {
	t.Helper()
	got := want
	set := func(field *string, value string) {
		if *field != "" {
			*field = value
		}
	}
	has := func(field *string, value string) {
		if !strings.Contains(value, *field) {
			*field = value
		}
	}
	if want.Status != "" {
		got.Status = c.Status
	}
	set(&got.Stdout, text(c, Stdout))
	set(&got.Stderr, text(c, Stderr))
	has(&got.StdoutHas, text(c, Stdout))
	has(&got.StderrHas, text(c, Stderr))
	if want.Result != "" {
		got.Result = plain(t, c)
	}
	set(&got.Error, raised(c).Name)
	set(&got.Value, raised(c).Value)
	has(&got.ValueHas, raised(c).Value)
	has(&got.Message, c.Message)
	if want.NotMessage != "" && strings.Contains(c.Message, want.NotMessage) {
		got.NotMessage = c.Message
	}
	if want.Exit != nil {
		got.Exit = c.ExitCode
	}
	if want.Restarted != nil {
		got.Restarted = &c.Restarted
	}
	if want.Files != nil {
		got.Files = nil
		for _, f := range c.Files {
			got.Files = append(got.Files, f.Path)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s the cell differs (-want +got); its status is %s, its error %q, its message %q:\n%s",
			strings.Join(about, " "), c.Status, raised(c).Value, c.Message, diff)
	}
}
