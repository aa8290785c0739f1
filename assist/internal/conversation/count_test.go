package conversation_test

import (
	"context"
	"errors"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// All counts of a provider are saved once: turns, failed turns, and the durations and
// attempts of uploads and downloads.
func TestCountsAreKept(t *testing.T) {
	s := openAIStage(t)
	agreed := answers{conversation.AskSend: yes}
	s.server.Script(s.makes("Here.", providertest.Made{Name: "a.txt", Data: []byte("made")}))
	s.server.Inject(providertest.Fault{On: providertest.OpDownload, Kind: providertest.FaultStatus, Status: 503})
	if _, err := s.turn(t, conversation.Prompt{Text: "Go", Files: []conversation.File{s.file(t, "in.csv", "a,b\n")}},
		agreed); err != nil {
		t.Fatal(err)
	}
	s.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStatus, Status: 401})
	if _, err := s.turn(t, conversation.Prompt{Text: "Go"}, agreed); err == nil {
		t.Fatal("no key, and no error")
	}
	for range 2 { // the second time there is nothing new
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.db.Uploads().Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum provider.Counts
	for _, row := range rows {
		if row.Provider != provider.OpenAI {
			t.Errorf("%+v", row)
		}
		sum.Add(row)
	}
	if sum.Turns != 2 || sum.TurnErrors != 1 || sum.Uploads != 1 || sum.UploadTime <= 0 || sum.Downloads != 1 ||
		sum.DownloadTime <= 0 || sum.DownloadsRetried != 1 || sum.Retries != 1 || sum.Bytes != 4 {
		t.Errorf("%+v", sum)
	}
}

// full is a store that rejects writes for a while.
type full struct {
	conversation.CountStore
	down bool
}

func (f *full) AddCounts(ctx context.Context, rows []provider.Counts) error {
	if f.down {
		return errors.New("the disk is full")
	}
	return f.CountStore.AddCounts(ctx, rows)
}

// Counts that could not be saved are saved the next time.
func TestCountsAreNotLost(t *testing.T) {
	s := openAIStage(t)
	store := &full{s.Counts, true}
	s.Counts = store
	if _, err := s.turn(t, conversation.Prompt{Text: "Go"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, store.down = range []bool{true, false} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.db.Uploads().Counts(t.Context())
	if err != nil || len(rows) != 1 || rows[0].Turns != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}
