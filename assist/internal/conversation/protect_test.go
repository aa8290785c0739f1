package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/workspace"
)

// answers has one answer for each kind of question. Other kinds get no answer.
type answers map[conversation.AskKind]func(conversation.Ask) conversation.Answer

func (a answers) Answer(_ context.Context, q conversation.Ask) (conversation.Answer, error) {
	if answer, ok := a[q.Kind]; ok {
		return answer(q), nil
	}
	return conversation.Answer{}, conversation.ErrNonInteractive
}

func yes(conversation.Ask) conversation.Answer { return conversation.Answer{OK: true} }
func no(conversation.Ask) conversation.Answer  { return conversation.Answer{} }

// openAIStage returns a stage with OpenAI, the provider with the most features.
func openAIStage(t *testing.T) *stage { return newStage(t, remotes()[provider.OpenAI]) }

func (s *stage) turn(t *testing.T, p conversation.Prompt, person conversation.Prompter) (*conversation.Turn, error) {
	t.Helper()
	chat := s.begin(t)
	turn, err := chat.Turn(t.Context(), p, person, s.tell)
	s.clean(t, chat)
	return turn, err
}

// Only files that the user agreed to leave the machine, and only after that.
func TestConsent(t *testing.T) {
	s := openAIStage(t)
	for name, c := range map[string]struct {
		person conversation.Prompter
		want   error
	}{"nobody": {answers{}, conversation.ErrApproval}, "no person": {nil, conversation.ErrApproval},
		"no": {answers{conversation.AskSend: no}, conversation.ErrDeclined}} {
		turn, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{s.file(t, "a.csv", "a")}}, c.person)
		if !errors.Is(err, c.want) || turn.State != conversation.TurnFailed {
			t.Errorf("%s: %v, %+v", name, err, turn)
		}
	}
	if n := s.server.Count(providertest.OpUpload) + s.server.Count(providertest.OpRun); n != 0 {
		t.Errorf("%d calls without consent", n)
	}
	one := answers{conversation.AskSend: func(conversation.Ask) conversation.Answer {
		return conversation.Answer{OK: true, Picks: []conversation.Pick{{ID: "f2"}}}
	}}
	turn, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{
		s.file(t, "a.csv", "a"), s.file(t, "b.csv", "b")}}, one)
	if err != nil || len(turn.Inputs) != 1 || turn.Inputs[0].Name != "b.csv" ||
		s.server.Count(providertest.OpUpload) != 1 {
		t.Errorf("%v, %+v", err, turn.Inputs)
	}
}

// The question names a file that may contain a secret.
func TestDoubt(t *testing.T) {
	s := openAIStage(t)
	var asked conversation.Ask
	look := answers{conversation.AskSend: func(q conversation.Ask) conversation.Answer {
		asked = q
		return conversation.Answer{}
	}}
	_, _ = s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{
		s.file(t, ".env", "A=1"), s.file(t, "notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\n"),
		s.file(t, "plain.txt", "plain")}}, look)
	if len(asked.Files) != 3 || asked.Files[0].Sensitivity == "" || asked.Files[1].Sensitivity == "" ||
		asked.Files[2].Sensitivity != "" {
		t.Errorf("%+v", asked.Files)
	}
}

// Only approved bytes are written. An answer with another hash writes nothing.
func TestApprovalIsOfBytes(t *testing.T) {
	s := openAIStage(t)
	s.server.Script(s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")}))
	other := answers{conversation.AskSave: func(q conversation.Ask) conversation.Answer {
		return conversation.Answer{OK: true, Picks: []conversation.Pick{
			{ID: "o1", SHA256: workspace.Sum([]byte("shown")).String()}}}
	}}
	_, err := s.turn(t, conversation.Prompt{Text: "Go", Folder: s.folder}, other)
	if !errors.Is(err, workspace.ErrStale) {
		t.Errorf("%v", err)
	}
	if files, _ := os.ReadDir(s.folder); len(files) > 0 {
		t.Errorf("written: %v", files)
	}
}

// An existing file stays unless the user chose to replace it. An input that changed
// meanwhile is not replaced even then.
func TestNothingIsOverwritten(t *testing.T) {
	s := openAIStage(t)
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(s.folder, "a.txt")
	set := func(content string) {
		t.Helper()
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save := func(clash conversation.Clash, before func()) answers {
		return answers{conversation.AskSend: yes, conversation.AskSave: func(q conversation.Ask) conversation.Answer {
			if !q.Outputs[0].Exists {
				t.Errorf("it is not said that the file exists: %+v", q.Outputs[0])
			}
			before()
			return conversation.Answer{OK: true, Picks: []conversation.Pick{{ID: "o1", Clash: clash}}}
		}}
	}
	for _, c := range []struct {
		clash conversation.Clash
		state conversation.OutputState
		want  string
	}{{"", conversation.OutputExists, "mine"}, {conversation.ClashSkip, conversation.OutputDeclined, "mine"},
		{conversation.ClashRename, conversation.OutputSaved, "mine"},
		{conversation.ClashReplace, conversation.OutputSaved, "made"}} {
		set("mine")
		s.server.Script(s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")}))
		turn, err := s.turn(t, conversation.Prompt{Text: "Go", Folder: s.folder}, save(c.clash, func() {}))
		got, _ := os.ReadFile(at)
		if err != nil || turn.Outputs[0].State != c.state || string(got) != c.want {
			t.Errorf("%q: %v, %s, %q", c.clash, err, turn.Outputs[0].State, got)
		}
	}
	set("input")
	input, err := conversation.OpenFile(at)
	if err != nil {
		t.Fatal(err)
	}
	s.server.Script(s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")}))
	turn, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{input}, Folder: s.folder},
		save(conversation.ClashReplace, func() { set("edited meanwhile") }))
	if got, _ := os.ReadFile(at); err == nil || string(got) != "edited meanwhile" {
		t.Errorf("%v, %q, %+v", err, got, turn.Outputs)
	}
}

// The model gets files of the project only after the user's answer, and never files from
// outside.
func TestModelAsksForFiles(t *testing.T) {
	s := openAIStage(t)
	root, outside := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{filepath.Join(root, "data.csv"): "a,b",
		filepath.Join(root, "other.csv"): "c", filepath.Join(outside, "secret.txt"): "secret"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link.txt": filepath.Join(outside, "secret.txt"), "dir": outside,
		"near.csv": "data.csv", "inner": "."} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".git", "config"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(person answers, paths ...string) (sent []string, asked []conversation.FileAsked) {
		t.Helper()
		arguments, _ := json.Marshal(map[string]any{"paths": paths, "reason": "because"})
		s.server.Rescript(providertest.Turn{Calls: []providertest.Call{{Name: "request_files", Arguments: arguments}}},
			providertest.Turn{Text: "Done."})
		if answer, ok := person[conversation.AskMore]; ok {
			person[conversation.AskMore] = func(q conversation.Ask) conversation.Answer { asked = q.Files; return answer(q) }
		}
		turn, err := s.turn(t, conversation.Prompt{Text: "Go", Browse: root}, person)
		if err != nil {
			t.Fatalf("%v: %v", paths, err)
		}
		for _, in := range turn.Inputs {
			if !in.Asked {
				t.Errorf("%s: it is not said that the model asked", in.Path)
			}
			sent = append(sent, in.Path)
		}
		return sent, asked
	}
	hostile := []string{"../" + filepath.Base(outside) + "/secret.txt", filepath.Join(outside, "secret.txt"), "link.txt",
		"dir/secret.txt", "near.csv", "inner/data.csv", ".git/config", ".GIT/config", "dir", ".", "", `..\secret.txt`,
		"/etc/passwd", "data.csv/x", "nothing"}
	all := func(q conversation.Ask) conversation.Answer {
		a := conversation.Answer{OK: true}
		for _, f := range q.Files {
			a.Picks = append(a.Picks, conversation.Pick{ID: f.ID})
		}
		return a
	}
	if sent, asked := ask(answers{conversation.AskMore: all}, hostile...); len(sent)+len(asked) > 0 {
		t.Errorf("from outside: sent %v, asked %v", sent, asked)
	}
	if sent, asked := ask(answers{conversation.AskMore: all}, "data.csv"); strings.Join(sent, " ") != "data.csv" ||
		len(asked) != 1 {
		t.Errorf("sent %v, asked %v", sent, asked)
	}
	for name, person := range map[string]answers{"no": {conversation.AskMore: no}, "nobody": {},
		"yes without picks": {conversation.AskMore: yes}} {
		if sent, _ := ask(person, "data.csv", "other.csv"); len(sent) > 0 {
			t.Errorf("%s: sent %v", name, sent)
		}
	}
	one := answers{conversation.AskMore: func(conversation.Ask) conversation.Answer {
		return conversation.Answer{OK: true, Picks: []conversation.Pick{{ID: "f2"}}}
	}}
	if sent, _ := ask(one, "data.csv", "other.csv"); strings.Join(sent, " ") != "other.csv" {
		t.Errorf("sent %v", sent)
	}
}

// A file that cannot be sent is named, and the user decides. If it may travel in the
// request, the user is asked about that first, and without consent it does not.
func TestFilesThatFail(t *testing.T) {
	down := providertest.Fault{On: providertest.OpUpload, Kind: providertest.FaultStatus, Status: 503}
	each(t, func(t *testing.T, s *stage) {
		if s.name == provider.Local {
			return // its store is here
		}
		inline := s.provider.Caps().InlineUpload
		for _, c := range []struct {
			name       string
			person     answers
			skip       bool
			ok, inside bool
		}{
			{"nobody", answers{conversation.AskSend: yes}, false, false, false},
			{"no", answers{conversation.AskSend: yes, conversation.AskSkip: no, conversation.AskInline: no}, false, false,
				false},
			{"without", answers{conversation.AskSend: yes, conversation.AskSkip: yes, conversation.AskInline: no}, false, true,
				false},
			{"without, unasked", answers{conversation.AskSend: yes}, true, true, false},
			{"within", answers{conversation.AskSend: yes, conversation.AskInline: yes}, false, inline, inline},
		} {
			s.server.Inject(down, down, down) // as often as it is tried
			turn, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{
				s.file(t, "a.csv", "a"), s.file(t, "b.csv", "b")}, SkipFailed: c.skip}, c.person)
			s.server.Heal()
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			sent := map[string]bool{}
			for _, in := range turn.Inputs {
				sent[in.Name] = in.SHA256 != ""
				if (in.Remote.Scope == provider.ScopeInline) != (c.inside && in.Name == "a.csv") {
					t.Errorf("%s: %s went by %q", c.name, in.Name, in.Remote.Scope)
				}
			}
			if len(turn.Inputs) != 2 || sent["a.csv"] != c.inside || !sent["b.csv"] {
				t.Errorf("%s: %+v", c.name, turn.Inputs)
			}
			if !strings.Contains(strings.Join(turn.Notices, " "), "a.csv") {
				t.Errorf("%s: it is not said: %v", c.name, turn.Notices)
			}
		}
	})
}

// One question covers all files that may travel in the request, with their size and the
// reason. Files that do not fit are left out of it.
func TestInlineIsAsked(t *testing.T) {
	s := newStage(t, remotes()[provider.XAI])
	for range 9 {
		s.server.Inject(providertest.Fault{On: providertest.OpUpload, Kind: providertest.FaultStatus, Status: 503})
	}
	var asked conversation.Ask
	look := answers{conversation.AskSend: yes, conversation.AskSkip: yes,
		conversation.AskInline: func(q conversation.Ask) conversation.Answer {
			asked = q
			return conversation.Answer{OK: true, Picks: []conversation.Pick{{ID: "f2"}}}
		}}
	large := strings.Repeat("x", int(s.provider.Caps().Limits.Inline)-1)
	turn, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{
		s.file(t, "a.csv", "a"), s.file(t, "b.csv", "bb"), s.file(t, "large.csv", large)}}, look)
	if err != nil {
		t.Fatal(err)
	}
	if len(asked.Files) != 2 || asked.Bytes != 3 || asked.Destination == "" || asked.Files[0].Problem == nil ||
		asked.Files[0].Problem.Kind != string(provider.Transient) {
		t.Errorf("asked: %+v", asked)
	}
	var within []string
	for _, in := range turn.Inputs {
		if in.SHA256 != "" {
			within = append(within, in.Name)
		}
	}
	if strings.Join(within, " ") != "b.csv" {
		t.Errorf("sent: %v", within)
	}
}

// The question names a file that tools execute or obey by themselves, even if the folder
// does not exist yet. A file that belongs to Git cannot be picked.
func TestWhatRunsIsAskedAbout(t *testing.T) {
	for _, there := range []bool{false, true} {
		s := openAIStage(t)
		if there {
			if err := os.MkdirAll(s.folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		s.server.Script(s.makes("Here.", providertest.Made{Name: "Makefile", Data: []byte("all:; touch pwned")},
			providertest.Made{Name: "conftest.py", Data: []byte("import os")},
			providertest.Made{Name: "tool", Data: []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00")},
			providertest.Made{Name: "git~1", Data: []byte("gitdir: evil")},
			providertest.Made{Name: "plain.txt", Data: []byte("text")}))
		var asked []conversation.OutputAsked
		person := answers{conversation.AskSave: func(q conversation.Ask) conversation.Answer {
			asked = q.Outputs
			return conversation.Answer{OK: true, Picks: []conversation.Pick{}}
		}}
		if _, err := s.turn(t, conversation.Prompt{Text: "Go", Folder: s.folder}, person); err != nil {
			t.Fatal(err)
		}
		if len(asked) != 5 {
			t.Fatalf("asked about %+v", asked)
		}
		for _, o := range asked {
			warned, refused := o.Name != "plain.txt" && o.Name != "git~1", o.Name == "git~1"
			if (o.Warning != "") != warned || (o.Refused != "") != refused {
				t.Errorf("folder there: %v; %s: warning %q, refused %q", there, o.Name, o.Warning, o.Refused)
			}
		}
	}
}
