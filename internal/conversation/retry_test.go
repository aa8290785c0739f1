package conversation_test

import (
	"testing"

	"github.com/airlock-run/airlock/internal/conversation"
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
