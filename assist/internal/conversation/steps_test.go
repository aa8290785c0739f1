package conversation_test

import (
	"slices"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// Each execution has its own id in its conversation, in events and in the record, whatever
// ids the provider and the model give.
func TestStepsHaveTheirOwnIDs(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		chat := s.begin(t)
		var kept, told, code []string
		for _, program := range []string{"one()", "two()", "three()"} {
			s.server.Script(providertest.Turn{Steps: []providertest.Step{{Code: program}, {Code: program + "\nagain()"}},
				Text: "Done."})
			turn, err := chat.Turn(t.Context(), conversation.Prompt{Text: "Go"}, s, func(e conversation.Event) {
				if e, ok := e.(provider.StepStarted); ok {
					told, code = append(told, e.Step.ID), append(code, e.Step.Code)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range turn.Steps {
				kept = append(kept, step.ID)
			}
		}
		s.clean(t, chat)
		slices.Sort(told) // parallel steps begin in any order
		slices.Sort(kept)
		unique := slices.Compact(slices.Clone(told))
		if len(told) != 6 || len(unique) != 6 || !slices.Equal(told, kept) {
			t.Errorf("told %q, kept %q, code %q", told, kept, code)
		}
	})
}
