package conversation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// Objects that were not listed are deleted only at a user's request, and the turn counts as
// failed.
func TestUnlistedIsNotDeleted(t *testing.T) {
	for _, name := range []string{provider.OpenAI, provider.Anthropic} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, remotes()[name])
			script := s.makes("Done.", providertest.Made{Name: "a.txt", Data: []byte("made")})
			script.Steps[0].Code = "open('a.txt', 'w').write('made')" // the clean-up recognizes it by this
			s.server.Script(script)
			on := providertest.OpSessionFiles
			if name == provider.Anthropic { // its files are searched from where the reply broke off
				on = providertest.OpList
				s.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultCut})
			}
			for range 3 {
				s.server.Inject(providertest.Fault{On: on, Kind: providertest.FaultStatus, Status: 500})
			}
			chat := s.begin(t)
			turn, err := chat.Turn(t.Context(), conversation.Prompt{
				Text: "Go", Files: []conversation.File{s.file(t, "in.csv", "a,b")}}, s, s.tell)
			if err == nil || turn.State != conversation.TurnFailed {
				t.Errorf("the turn passes: %v", err)
			}
			cleaned, err := chat.Close(t.Context(), s.tell)
			if err != nil || !slices.ContainsFunc(cleaned.Left, func(l string) bool {
				return strings.Contains(l, "airlock provider get --provider "+name)
			}) {
				t.Errorf("%v, left %q", err, cleaned.Left)
			}
			made := func() bool {
				return slices.ContainsFunc(s.server.Objects(), func(o string) bool {
					return strings.Contains(o, "cntr_") || strings.Contains(o, "a.txt")
				})
			}
			if !made() {
				t.Errorf("deleted unseen; there is %v", s.server.Objects())
			}
			if slices.ContainsFunc(s.server.Objects(), func(o string) bool {
				return strings.Contains(o, "in.csv") && !strings.Contains(o, "cntr_")
			}) {
				t.Errorf("an input stayed: %v", s.server.Objects())
			}
			if swept, err := s.Sweep(t.Context(), s.provider); err != nil || len(swept.Deleted) > 0 || !made() {
				t.Errorf("the next command deletes it: %v, %+v", err, swept)
			}
			if _, err := s.SweepAll(t.Context(), s.provider); err != nil || len(s.server.Objects()) > 0 {
				t.Errorf("a clean-up that was asked for: %v, left %v", err, s.server.Objects())
			}
		})
	}
}
