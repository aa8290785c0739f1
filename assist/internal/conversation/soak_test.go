package conversation_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

var soakTurns = flag.Int("turns", 100, "turns of the soak with random faults, over all providers")

// TestSoak runs conversations of some turns with random faults and crashes. No turn may
// lose a file that the server still has. Saved files are the files that code wrote, and
// nothing may be left at a provider after a clean-up.
func TestSoak(t *testing.T) {
	all := remotes()
	for name, open := range all {
		t.Run(name, func(t *testing.T) { soak(t, newSoaking(t, open), *soakTurns/len(all)) })
	}
}

// soaking is a stage whose ledger forgets its holders, as in a crash.
type soaking struct {
	*conversation.Host
	*rig
	remote
	store  *providertest.Store
	random *rand.Rand
	folder string
	input  conversation.File

	number, injected, broke, lost int
}

func newSoaking(t *testing.T, open func(testing.TB) remote) *soaking {
	t.Helper()
	s := &soaking{rig: newRig(t), remote: open(t), store: &providertest.Store{}, random: rand.New(rand.NewPCG(8, 1000)),
		folder: filepath.Join(t.TempDir(), "out")}
	var err error
	s.Host, err = conversation.NewHost(conversation.HostOptions{
		Archive: s.db.Conversations(), Ledger: s.store, Uploads: s.db.Uploads(), Counts: s.db.Uploads(), Replies: s.Replies,
		Quarantine: filepath.Join(t.TempDir(), "outputs"), Clock: s.clock, Retry: provider.Retry{Clock: s.clock, Tries: 4},
		Connect: func(context.Context, string, conversation.Settings) (*conversation.Backend, error) {
			return &conversation.Backend{Provider: s.provider, Destination: "the test server"}, nil
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
	at := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(at, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.input, err = conversation.OpenFile(at); err != nil {
		t.Fatal(err)
	}
	return s
}

// harm injects up to three faults, and sometimes expires the session.
func (s *soaking) harm() {
	faults := []providertest.Fault{
		{Kind: providertest.FaultStatus, Status: 503}, {Kind: providertest.FaultStatus, Status: 429, RetryAfter: time.Second},
		{Kind: providertest.FaultHTML},
		{Kind: providertest.FaultCut}, {Kind: providertest.FaultTruncate}, {Kind: providertest.FaultErrorAs200},
		{Kind: providertest.FaultWrongLength}, {Kind: providertest.FaultLost}, {Kind: providertest.FaultSlow},
	}
	ops := []providertest.Op{providertest.OpUpload, providertest.OpUploadPart, providertest.OpSessionCreate,
		providertest.OpRun, providertest.OpRun, providertest.OpStat, providertest.OpSessionFiles,
		providertest.OpDownload, providertest.OpDownload, providertest.OpSessionDelete, providertest.OpDelete,
		providertest.OpList}
	s.server.Heal()
	for range s.random.IntN(4) {
		f := faults[s.random.IntN(len(faults))]
		f.On = ops[s.random.IntN(len(ops))]
		s.server.Inject(f)
		s.injected++
	}
	if s.random.IntN(10) == 0 {
		s.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultExpire})
		s.injected++
	}
}

// script sets up the model's turn: it writes a file and mentions it in one of the usual
// ways. It returns the name that the file will have here.
func (s *soaking) script() (name, raw string, content []byte) {
	s.number++
	raw = fmt.Sprintf("out-%d.csv", s.number)
	name = raw
	made := providertest.Made{Data: fmt.Appendf(nil, "content of %s\n", raw)}
	turn := s.makes("[" + raw + "](sandbox:/mnt/data/" + raw + ")")
	switch s.random.IntN(5) {
	case 0:
		turn.Unmentioned, turn.Text = true, "Done."
	case 1:
		raw, turn.Text = "../../"+raw, "Done."
	case 2:
		name = fmt.Sprintf("out-%d.png", s.number)
		raw, turn.Text = name, "Done."
		made.Data, made.Shown = fmt.Appendf(nil, "\x89PNG\r\n\x1a\n%s", raw), true
	}
	made.Name = raw
	step := providertest.Step{Code: fmt.Sprintf("open(%q, 'w').write(x)", raw), Stdout: "written\n"}
	if s.provider.Caps().Outputs == provider.OutputStdout {
		step.Stdout += provider.Frame(made.Name, made.Data)
	} else {
		step.Files = []providertest.Made{made}
	}
	turn.Steps = []providertest.Step{step}
	s.server.Rescript(slices.Repeat([]providertest.Turn{turn}, 12)...) // a retried request gets the same turn
	return name, raw, made.Data
}

// holds reports whether the server still has a file. If files come within the reply, it had
// the file if the reply was complete.
func (s *soaking) holds(raw string, turn *conversation.Turn) bool {
	if s.provider.Caps().Outputs == provider.OutputStdout {
		return turn.Stop == provider.StopDone
	}
	if h, ok := s.server.(interface{ Holds(name string) bool }); ok {
		return h.Holds(raw)
	}
	return slices.ContainsFunc(s.server.Objects(), func(o string) bool { return strings.HasSuffix(o, " "+raw) })
}

func soak(t *testing.T, s *soaking, turns int) {
	for s.number < turns {
		s.harm()
		chat, err := s.Begin(t.Context(), "local", conversation.Settings{
			Provider: s.name, Model: s.model, Tool: provider.ToolAuto, Hints: provider.HintsAuto})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + s.random.IntN(3) {
			s.turn(t, chat)
			s.clock.Advance(time.Duration(s.random.IntN(30)) * time.Minute)
			s.harm()
		}
		if s.random.IntN(4) > 0 {
			_, _ = chat.Close(t.Context(), nil) // the sweep deletes the rest
		}
		if s.random.IntN(5) == 0 {
			s.store.Crash() // as if the process had died
		}
	}
	s.server.Heal()
	s.store.Crash()
	swept, err := s.Sweep(t.Context(), s.provider)
	if err != nil || len(swept.Left) > 0 {
		t.Errorf("gc: %v, left %v", err, swept.Left)
	}
	left := s.server.Objects()
	if len(left) > 0 {
		t.Errorf("left at the provider: %v", left)
	}
	if entries, err := s.store.Entries(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("left in the ledger: %v, %v", entries, err)
	}
	t.Logf("%d turns with %d faults, %d of them with an error in the end, %d files lost, %d objects left after gc",
		s.number, s.injected, s.broke, s.lost, len(left))
}

func (s *soaking) turn(t *testing.T, chat *conversation.Chat) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name, raw, content := s.script()
	turn, err := chat.Turn(ctx, conversation.Prompt{Text: "go", Files: []conversation.File{s.input}, SkipFailed: true,
		Folder: s.folder}, agree{}, nil)
	if err != nil {
		s.broke++
	}
	sum := sha256.Sum256(content)
	for _, o := range turn.Outputs {
		if o.Name != name {
			continue
		}
		if o.SHA256 != "" && o.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("turn %d: %s came as other bytes", s.number, name)
		}
		if saved, _ := os.ReadFile(o.Saved); o.State == conversation.OutputSaved && string(saved) != string(content) {
			t.Errorf("turn %d: %s was saved as %q", s.number, name, saved)
		}
	}
	got := slices.ContainsFunc(turn.Outputs, func(o conversation.Output) bool {
		// A picture has no name if only the reply brings it.
		return o.SHA256 == hex.EncodeToString(sum[:]) && (o.State == conversation.OutputSaved ||
			o.State == conversation.OutputUnchanged)
	})
	if !got && s.holds(raw, turn) {
		s.lost++
		t.Errorf("turn %d lost %s, which the server still has: %v, %+v", s.number, name, err, turn)
	}
}
