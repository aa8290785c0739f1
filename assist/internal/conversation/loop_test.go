package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

// remote is a provider over its test server.
type remote struct {
	name     string
	model    string
	provider provider.Provider
	server   interface {
		providertest.Server
		Rescript(turns ...providertest.Turn)
	}
	clock *providertest.Clock
	wire  *wire
}

// remotes opens each provider.
func remotes() map[string]func(testing.TB) remote {
	all := map[string]func(testing.TB, *wire) remote{
		provider.OpenAI: func(tb testing.TB, w *wire) remote {
			s := providertest.NewOpenAI(tb)
			c, err := openai.New(openai.Options{Key: providertest.OpenAIKey, URL: s.URL + "/v1", Clock: s.Clock,
				HTTP: w.client()})
			return remoteOf(tb, "gpt-5", c, s, s.Clock, err)
		},
		provider.Anthropic: func(tb testing.TB, w *wire) remote {
			s := providertest.NewAnthropicServer(tb)
			c, err := anthropic.New(anthropic.Options{Key: "test", URL: s.URL, Clock: s.Clock, HTTP: w.client()})
			return remoteOf(tb, providertest.AnthropicModel, c, s, s.Clock, err)
		},
		provider.Gemini: func(tb testing.TB, w *wire) remote {
			s := providertest.NewGeminiServer(tb)
			c, err := gemini.New(gemini.Options{Key: "test", URL: s.URL, Clock: s.Clock, HTTP: w.client()})
			return remoteOf(tb, providertest.GeminiModel, c, s, s.Clock, err)
		},
		provider.XAI: func(tb testing.TB, w *wire) remote {
			s := providertest.NewXAIServer(tb)
			c, err := xai.New(xai.Options{Key: "test", URL: s.URL + "/v1", Clock: s.Clock, HTTP: w.client()})
			return remoteOf(tb, providertest.XAIModel, c, s, s.Clock, err)
		},
		provider.Local: func(tb testing.TB, w *wire) remote {
			s := providertest.NewLocalServer(tb)
			c, err := local.New(local.Options{URL: s.URL + "/v1", Runner: s.Runner, Clock: s.Clock, HTTP: w.client()})
			return remoteOf(tb, providertest.LocalModel, c, s, s.Clock, err)
		},
	}
	opened := map[string]func(testing.TB) remote{}
	for name, open := range all {
		opened[name] = func(tb testing.TB) remote {
			w := &wire{}
			r := open(tb, w)
			r.wire = w
			return r
		}
	}
	return opened
}

func remoteOf(tb testing.TB, model string, p provider.Provider, s interface {
	providertest.Server
	Rescript(turns ...providertest.Turn)
}, clock *providertest.Clock, err error) remote {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	return remote{name: p.Name(), model: model, provider: p, server: s, clock: clock}
}

// makes returns a turn whose code writes files. The provider returns them in its own way.
func (r remote) makes(text string, files ...providertest.Made) providertest.Turn {
	step := providertest.Step{Code: "write()", Stdout: "written\n"}
	for _, f := range files {
		if r.provider.Caps().Outputs == provider.OutputStdout {
			step.Stdout += provider.Frame(f.Name, f.Data)
			continue
		}
		step.Files = append(step.Files, f)
	}
	return providertest.Turn{Steps: []providertest.Step{step}, Text: text}
}

// stage is a host over one remote.
type stage struct {
	*conversation.Host
	*rig
	remote
	folder string // to save into
	events []string
	asked  []conversation.Ask
	shares bool // the provider has what users upload
}

func newStage(t *testing.T, open func(testing.TB) remote) *stage {
	t.Helper()
	s := &stage{rig: newRig(t), remote: open(t), folder: filepath.Join(t.TempDir(), "out")}
	var err error
	s.Host, err = conversation.NewHost(conversation.HostOptions{
		Archive: s.db.Conversations(), Ledger: s.db.Ledger(), Uploads: s.db.Uploads(), Counts: s.db.Uploads(),
		Replies:    s.Replies,
		Quarantine: filepath.Join(t.TempDir(), "outputs"), Clock: s.clock,
		Connect: func(context.Context, string, conversation.Settings) (*conversation.Backend, error) {
			return &conversation.Backend{Provider: s.provider, Destination: "the test server", Shares: s.shares}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Answer agrees to everything, and takes the first output only.
func (s *stage) Answer(_ context.Context, q conversation.Ask) (conversation.Answer, error) {
	s.asked = append(s.asked, q)
	a := conversation.Answer{OK: true}
	if q.Kind == conversation.AskSave {
		a.Picks = []conversation.Pick{{ID: q.Outputs[0].ID, SHA256: q.Outputs[0].SHA256}}
	}
	return a, nil
}

func (s *stage) tell(e conversation.Event) { s.events = append(s.events, kindOf(e)) }

// kindOf returns the name of an event's type.
func kindOf(e conversation.Event) string {
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", e), ".")
	return kind
}

func (s *stage) begin(t *testing.T) *conversation.Chat {
	t.Helper()
	chat, err := s.Begin(t.Context(), "local", conversation.Settings{
		Provider: s.name, Model: s.model, Tool: provider.ToolAuto, Hints: provider.HintsAuto})
	if err != nil {
		t.Fatal(err)
	}
	return chat
}

func (s *stage) file(t *testing.T, name, content string) conversation.File {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := conversation.OpenFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// clean closes the conversation and checks that nothing is left.
func (s *stage) clean(t *testing.T, chat *conversation.Chat) {
	t.Helper()
	if _, err := chat.Close(t.Context(), s.tell); err != nil {
		t.Error(err)
	}
	if left := s.server.Objects(); len(left) > 0 {
		t.Errorf("left at the provider: %v", left)
	}
	if entries, _ := s.db.Ledger().Entries(t.Context()); len(entries) > 0 {
		t.Errorf("left in the ledger: %+v", entries)
	}
}

func each(t *testing.T, test func(*testing.T, *stage)) {
	for name, open := range remotes() {
		t.Run(name, func(t *testing.T) { test(t, newStage(t, open)) })
	}
}

// A whole turn: consent, code, and two outputs of which one is saved, with nothing left
// behind. Then the conversation continues from its record.
func TestTurn(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		s.server.Script(s.makes("Here.", providertest.Made{Name: "plot.png", Data: []byte("\x89PNG\r\n\x1a\n1")},
			providertest.Made{Name: "sums.csv", Data: []byte("a,b\n3,4\n")}))
		chat := s.begin(t)
		turn, err := chat.Turn(t.Context(), conversation.Prompt{
			Text: "Sum it up", Files: []conversation.File{s.file(t, "sales.csv", "a,b\n1,2\n")}, Folder: s.folder}, s, s.tell)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.asked) != 2 || s.asked[0].Kind != conversation.AskSend || s.asked[0].Files[0].Name != "sales.csv" ||
			s.asked[0].Bytes != 8 || s.asked[1].Kind != conversation.AskSave {
			t.Fatalf("asked: %+v", s.asked)
		}
		if turn.State != conversation.TurnDone || len(turn.Outputs) != 2 ||
			turn.Outputs[0].State != conversation.OutputSaved || turn.Outputs[1].State != conversation.OutputDeclined {
			t.Fatalf("%+v", turn)
		}
		if len(turn.Steps) != 1 || turn.Steps[0].Outcome != provider.OutcomeOK || len(turn.Receipts) != 1 ||
			len(turn.Decisions) != 2 {
			t.Errorf("steps %+v, receipts %+v", turn.Steps, turn.Receipts)
		}
		saved, err := os.ReadDir(s.folder)
		if err != nil || len(saved) != 1 || saved[0].Name() != turn.Outputs[0].Name {
			t.Errorf("%v, %v", saved, err)
		}
		for _, kind := range []string{"Begun Asked Answered", "Uploaded", "StepDone",
			"Collected Asked Answered Saved Ended"} {
			if all := strings.Join(s.events, " "); !strings.Contains(all, kind) {
				t.Errorf("%q is missing in %s", kind, all)
			}
		}
		s.clean(t, chat)

		s.server.Script(providertest.Turn{Text: "Yes."})
		chat, err = s.Resume(t.Context(), "local", turn1(t, s), nil)
		if err != nil {
			t.Fatal(err)
		}
		if turn, err = chat.Turn(t.Context(), conversation.Prompt{Text: "Sure?"}, s, s.tell); err != nil ||
			turn.Number != 2 || turn.Text != "Yes." {
			t.Errorf("%+v, %v", turn, err)
		}
		if again := s.asked[len(s.asked)-1]; again.Kind != conversation.AskSend || !again.Files[0].Again {
			t.Errorf("the input was not sent again: %+v", again)
		}
		s.clean(t, chat)
	})
}

// turn1 returns the id of the only saved conversation.
func turn1(t *testing.T, s *stage) string {
	t.Helper()
	list, err := s.db.Conversations().Conversations(t.Context(), "local", conversation.Page{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d conversations, %v", len(list), err)
	}
	return list[0].ID
}

// The same with Live: questions wait for an answer by their ids.
func TestLive(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		s.server.Script(s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")}))
		live := conversation.NewLive(s.Host, time.Hour)
		id, err := live.Begin(t.Context(), "local", conversation.Settings{Provider: s.name, Model: s.model})
		if err != nil {
			t.Fatal(err)
		}
		if err := live.Turn("local", id, conversation.Prompt{Text: "Go", Files: []conversation.File{s.file(t, "in.txt", "x")},
			Folder: s.folder}); err != nil {
			t.Fatal(err)
		}
		if err := live.Turn("local", id, conversation.Prompt{Text: "Go"}); !errors.Is(err, conversation.ErrTurn) {
			t.Errorf("a second turn: %v", err)
		}
		if _, err := live.Follow(t.Context(), "eve", id, 0, 0); err == nil {
			t.Error("somebody else may follow")
		}
		events, err := live.Follow(t.Context(), "local", id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var last int64
		for e := range events {
			if e.ID != last+1 {
				t.Fatalf("event %d after %d", e.ID, last)
			}
			last = e.ID
			switch e := e.Event.(type) {
			case conversation.Asked:
				pending, err := live.Pending("local", id)
				if err != nil || len(pending) != 1 || pending[0].ID != e.Ask.ID {
					t.Fatalf("pending: %+v, %v", pending, err)
				}
				if err := live.Answer("local", id, e.Ask.ID, conversation.Answer{OK: true}); err != nil {
					t.Fatal(err)
				}
				if err := live.Answer("local", id, e.Ask.ID, conversation.Answer{OK: true}); !errors.Is(
					err, conversation.ErrAnswered) {
					t.Errorf("a second answer: %v", err)
				}
			case conversation.Ended:
				if e.Turn.State != conversation.TurnDone || e.Turn.Outputs[0].State != conversation.OutputSaved {
					t.Errorf("%+v", e.Turn)
				}
				go func() { _ = live.Shutdown(context.Background()) }() // checked below
			}
		}
		if left := s.server.Objects(); len(left) > 0 {
			t.Errorf("left at the provider: %v", left)
		}
		if _, err := live.Begin(t.Context(), "local", conversation.Settings{Provider: s.name}); err == nil {
			t.Error("after the shutdown one can begin")
		}
	})
}

// Many conversations that nobody closes take the memory of those that one owner may have in progress: the one
// that was not used for longest is closed. Another owner's stays.
func TestManyLive(t *testing.T) {
	s := newStage(t, remotes()[provider.OpenAI])
	live := conversation.NewLive(s.Host, time.Hour)
	settings := conversation.Settings{Provider: s.name, Model: s.model}
	begin := func(owner string) string {
		t.Helper()
		id, err := live.Begin(t.Context(), owner, settings)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	theirs := begin("eve")
	var ids []string
	for range 300 {
		ids = append(ids, begin("local"))
	}
	open := 0
	for _, id := range ids {
		if is, _ := live.Running("local", id); is {
			open++
		}
	}
	if last, _ := live.Running("local", ids[299]); open != 100 || !last {
		t.Errorf("%d of 300 conversations are in progress, want 100 with the last: %v", open, last)
	}
	if is, _ := live.Running("eve", theirs); !is {
		t.Error("the conversation of another owner was closed")
	}
	if err := live.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A waiting turn can be stopped, and outputs can be saved later. A conversation continues
// in one place at a time.
func TestLiveStopsAndSavesLater(t *testing.T) {
	s := newStage(t, remotes()[provider.OpenAI])
	live := conversation.NewLive(s.Host, 0)
	settings := conversation.Settings{Provider: s.name, Model: s.model}
	id, err := live.Begin(t.Context(), "local", settings)
	if err != nil {
		t.Fatal(err)
	}
	follow := func(until string) conversation.Event {
		t.Helper()
		events, err := live.Follow(t.Context(), "local", id, 0, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		var last conversation.Event
		for e := range events {
			if e.Event == nil { // a beat
				continue
			}
			if last = e.Event; kindOf(last) == until {
				break
			}
		}
		return last
	}
	if err := live.Turn("local", id, conversation.Prompt{Text: "Go",
		Files: []conversation.File{s.file(t, "in.txt", "x")}}); err != nil {
		t.Fatal(err)
	}
	follow("Asked")
	if open, turn := live.Running("local", id); !open || !turn {
		t.Errorf("open %v, turn %v", open, turn)
	}
	if err := live.Stop(t.Context(), "local", id); err != nil {
		t.Fatal(err)
	}
	if e := follow("Ended").(conversation.Ended); e.Turn.State != conversation.TurnInterrupted {
		t.Errorf("%+v", e.Turn)
	}
	if pending, _ := live.Pending("local", id); len(pending) > 0 {
		t.Errorf("still asked: %+v", pending)
	}
	if _, err := s.Resume(t.Context(), "local", id, nil); !errors.Is(err, conversation.ErrTurn) {
		t.Errorf("it goes on twice: %v", err)
	}
	if err := s.Drop(t.Context(), "local", id); !errors.Is(err, conversation.ErrTurn) {
		t.Errorf("it was forgotten while it goes on: %v", err)
	}
	if _, err := live.Close(t.Context(), "local", id); err != nil {
		t.Fatal(err)
	}

	if err := live.Resume(t.Context(), "local", id, nil); err != nil {
		t.Fatal(err)
	}
	s.server.Script(s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")}))
	if err := live.Turn("local", id, conversation.Prompt{Text: "Go on"}); err != nil {
		t.Fatal(err)
	}
	if e := follow("Ended").(conversation.Ended); e.Turn.Number != 2 ||
		e.Turn.Outputs[0].State != conversation.OutputFetched {
		t.Errorf("%+v", e.Turn)
	}
	if err := live.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	turn, err := s.SaveOutputs(t.Context(), "local", id, 2, conversation.Answer{OK: true, Folder: s.folder,
		Picks: []conversation.Pick{{ID: "o1"}}})
	if err != nil || turn.Outputs[0].State != conversation.OutputSaved {
		t.Fatalf("%v, %+v", err, turn)
	}
	if got, _ := os.ReadFile(filepath.Join(s.folder, "a.txt")); string(got) != "made" {
		t.Errorf("saved %q", got)
	}
	kept, err := s.Conversation(t.Context(), "local", id)
	if err != nil || kept.Turns[1].Outputs[0].State != conversation.OutputSaved {
		t.Errorf("%v, %+v", err, kept)
	}
	if err := s.Drop(t.Context(), "local", id); err != nil {
		t.Error(err)
	}
	if left := s.server.Objects(); len(left) > 0 {
		t.Errorf("left at the provider: %v", left)
	}
}
