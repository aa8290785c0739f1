package conversation_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// A request that fails temporarily is retried, whatever was streamed before, with a notice.
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

// The reply is lost after all retries. The outputs of its code are in the session and are
// offered before the session is deleted.
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

// A kept conversation continues with its inputs and the outputs of its code, even if the
// provider has lost them meanwhile. A file that changed since needs a new consent.
func TestKeptGoesOn(t *testing.T) {
	for _, name := range []string{provider.OpenAI, provider.Local} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, remotes()[name])
			input := s.file(t, "in.csv", "a,b\n")
			settings := conversation.Settings{Provider: s.name, Model: s.model, Keep: true}
			chat, err := s.Begin(t.Context(), "local", settings)
			if err != nil {
				t.Fatal(err)
			}
			s.server.Rescript(s.makes("Here.", providertest.Made{Name: "made.txt", Data: []byte("made")}))
			if _, err := chat.Turn(t.Context(), conversation.Prompt{Text: "Go", Files: []conversation.File{input}}, s,
				s.tell); err != nil {
				t.Fatal(err)
			}
			if done, err := chat.Close(t.Context(), s.tell); err != nil || done.Kept == 0 || done.Deleted > 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			kept, err := s.Conversation(t.Context(), "local", chat.ID())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, a := range kept.Staged {
				names = append(names, a.File.Name)
			}
			want := "in.csv" // what code made is in the session
			if name == provider.Local {
				want = "in.csv made.txt" // sessions end with their process
			}
			if strings.Join(names, " ") != want {
				t.Errorf("kept: %v", names)
			}
			// The provider loses all files.
			for _, a := range kept.Staged {
				if err := s.provider.Files().Delete(t.Context(), a.File.Ref); err != nil {
					t.Fatal(err)
				}
			}
			s.server.ExpireSessions()
			s.clock.Advance(2 * time.Hour)
			again := func(keep bool) error {
				s.server.Rescript(providertest.Turn{Text: "Yes."})
				chat, err := s.Resume(t.Context(), "local", chat.ID(), func(c *conversation.Settings) { c.Keep = keep })
				if err != nil {
					t.Fatal(err)
				}
				_, failed := chat.Turn(t.Context(), conversation.Prompt{Text: "Sure?"}, s, s.tell)
				s.asked = nil
				if _, err := chat.Close(t.Context(), s.tell); err != nil {
					t.Error(err)
				}
				return failed
			}
			if err := os.WriteFile(input.Local, []byte("other"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := again(true); err == nil || !strings.Contains(err.Error(), "changed since") {
				t.Errorf("another file was sent in its place: %v", err)
			}
			if err := os.WriteFile(input.Local, []byte("a,b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := again(false); err != nil {
				t.Errorf("what is still here was not sent again: %v", err)
			}
		})
	}
}

// A reply is lost before it reported the objects of its code in the account's store. The
// next attempt's object names them, so they are deleted too.
func TestLostReplyIsCleanedUp(t *testing.T) {
	s := newStage(t, remotes()[provider.Anthropic])
	answer := s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")})
	answer.Steps[0].Code = "echo made > a.txt"
	s.server.Script(answer, answer)
	s.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultLost})
	if turn, err := s.turn(t, conversation.Prompt{Text: "Go"}, s); err != nil || len(turn.Outputs) != 1 {
		t.Errorf("%v, %+v", err, turn.Outputs)
	}
}
