package conversation

import (
	"slices"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
)

// TestOrder preserves the positions of steps in a text, even if the saved text differs
// slightly from the streamed text.
func TestOrder(t *testing.T) {
	var o order
	for _, e := range []provider.Event{
		provider.TextDelta{Text: "First "}, provider.TextDelta{Text: "I look.\n\n"},
		provider.CodeDelta{StepID: "a", Code: "x"}, provider.StepStarted{Step: provider.Step{ID: "a"}},
		provider.StepDone{Step: provider.Step{ID: "a"}},
		provider.StepDone{Step: provider.Step{ID: "b"}}, provider.TextDelta{Text: "Then I say."},
		provider.OutputDelta{StepID: "c"},
	} {
		o.note(e)
	}
	for _, c := range []struct {
		name, text string
		want       []Place
	}{
		{"as it was streamed", "First I look.\n\nThen I say.", []Place{{"a", 15}, {"b", 15}, {"c", 26}}},
		{"with more at its end", "First I look.\n\nThen I say. No.", []Place{{"a", 15}, {"b", 15}, {"c", 26}}},
		{"its end alone", "Then I say.", []Place{{"a", 0}, {"b", 0}, {"c", 11}}},
		{"another one", "Something else", nil},
	} {
		if got := o.in(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
