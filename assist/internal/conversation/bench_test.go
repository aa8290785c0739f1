package conversation_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// BenchmarkTurn runs a whole turn with one small file, from the first question to the last
// deletion, against a test server without delay. The reported median includes the server's
// time. Durable data is written to disk.
func BenchmarkTurn(b *testing.B) {
	for name, open := range remotes() {
		b.Run(name, func(b *testing.B) {
			r := open(b)
			data := b.TempDir()
			db, err := state.Open(b.Context(), data, state.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			desk := changes.NewReplies(changes.Options{Store: db.Projects(), Journal: db.Journal(),
				Outbox: assignment.NewOutbox(db.Outbox()), Protected: []string{data}})
			host, err := conversation.NewHost(conversation.HostOptions{
				Archive: db.Conversations(), Ledger: db.Ledger(), Uploads: db.Uploads(), Counts: db.Uploads(), Replies: desk,
				Quarantine: filepath.Join(data, "outputs"),
				Connect: func(context.Context, string, conversation.Settings) (*conversation.Backend, error) {
					return &conversation.Backend{Provider: r.provider, Destination: "the test server"}, nil
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer host.Close()
			input := filepath.Join(b.TempDir(), "in.csv")
			if err := os.WriteFile(input, []byte("a,b\n1,2\n"), 0o600); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				r.server.Script(r.makes("Here.", providertest.Made{Name: "out.csv", Data: []byte("3\n")}))
				began := time.Now()
				f, err := conversation.OpenFile(input)
				if err != nil {
					b.Fatal(err)
				}
				chat, err := host.Begin(b.Context(), "local", conversation.Settings{Provider: r.name, Model: r.model})
				if err != nil {
					b.Fatal(err)
				}
				turn, err := chat.Turn(b.Context(), conversation.Prompt{
					Text: "Go", Files: []conversation.File{f}, Folder: filepath.Join(data, "..", "saved")}, agree{}, nil)
				if err != nil || turn.State != conversation.TurnDone {
					b.Fatal(err)
				}
				if _, err := chat.Close(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
		})
	}
}

// agree is a Prompter that agrees to everything.
type agree struct{}

func (agree) Answer(context.Context, conversation.Ask) (conversation.Answer, error) {
	return conversation.Answer{OK: true}, nil
}
