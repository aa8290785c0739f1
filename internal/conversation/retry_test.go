package conversation_test

import (
	"testing"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/providertest"
)

// A request that fails for the moment is sent again, whatever was told before
// it, and that is said.
func TestRunIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		s.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStatus, Status: 503})
		s.server.Script(providertest.Turn{Text: "Yes."})
		turn, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{s.file(t, "in.csv", "a,b\n")}}, s)
		if err != nil || turn.Text != "Yes." {
			t.Errorf("%v: %+v", err, turn)
		}
		said := map[string]int{}
		for _, n := range turn.Notices {
			if said[n]++; said[n] > 1 {
				t.Errorf("said twice: %s", n)
			}
		}
		if len(turn.Notices) == 0 {
			t.Error("it is not said")
		}
	})
}

// The reply is lost for good, and what its code has made is not: it is in the
// session, and is offered before the session goes.
func TestLostReply(t *testing.T) {
	s := openAIStage(t)
	answer := s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")})
	for range 3 { // as often as it is tried
		s.server.Script(answer)
		s.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultLost})
	}
	turn, err := s.turn(t, conversation.Prompt{Text: "Go", Folder: s.folder}, s)
	if provider.KindOf(err) != provider.Transient || turn.State != conversation.TurnFailed {
		t.Errorf("%v, %s", err, turn.State)
	}
	if len(turn.Outputs) != 1 || turn.Outputs[0].State != conversation.OutputSaved || turn.Outputs[0].Name != "a.txt" {
		t.Errorf("%+v", turn.Outputs)
	}
}
