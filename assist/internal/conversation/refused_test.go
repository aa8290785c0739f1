package conversation_test

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
)

// An unknown model is the same error with every provider, with a cure.
func TestUnknownModel(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		s.model = "no-such-model"
		turn, err := s.turn(t, conversation.Prompt{Text: "Go"}, s)
		if provider.KindOf(err) != provider.Invalid || turn.Problem == nil || !strings.Contains(turn.Problem.Hint, "model") {
			t.Errorf("%v: %+v", err, turn.Problem)
		}
	})
}

// If nothing was sent, the clean-up does not look for objects and reports none.
func TestNothingWasSent(t *testing.T) {
	s := newStage(t, remotes()[provider.Anthropic])
	gone, err := anthropic.New(anthropic.Options{Key: "test", URL: "http://127.0.0.1:1", Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	s.provider = gone
	chat := s.begin(t)
	if _, err := chat.Turn(t.Context(), conversation.Prompt{Text: "Go"}, s, s.tell); provider.KindOf(
		err) != provider.Transient {
		t.Errorf("%v", err)
	}
	cleaned, err := chat.Close(t.Context(), s.tell)
	if err != nil || len(cleaned.Left) > 0 {
		t.Errorf("%v, left %q", err, cleaned.Left)
	}
	if entries, _ := s.db.Ledger().Entries(t.Context()); len(entries) > 0 {
		t.Errorf("left in the ledger: %+v", entries)
	}
}
