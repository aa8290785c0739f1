package providertest

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

// Live is a short test of a real service: the key, the model, a small upload, a turn that
// writes a file, its download, and the clean-up. It logs its steps and what it leaves out.
func Live(t *testing.T, p provider.Provider, model string, clock provider.Clock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	caps := p.Caps()
	if err := p.Check(ctx, ""); err != nil {
		t.Fatalf("the key: %v\n%s", err, provider.HintOf(err))
	}
	t.Log("the key is accepted")
	if err := p.Check(ctx, model); err != nil {
		t.Fatalf("the model %s: %v\n%s", model, err, provider.HintOf(err))
	}
	t.Logf("the model %s is there", model)
	store, rule := &Store{}, provider.Retry{Clock: clock}
	ledger, err := provider.OpenLedger(ctx, store, "live", rule)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		swept, err := ledger.Clean(cleaning, p)
		if err != nil || len(swept.Left) > 0 {
			t.Errorf("clean up: %v, left %v", err, swept.Left)
		}
		t.Logf("deleted %d things, not sure of %d", len(swept.Deleted), len(swept.Others))
	}()
	counters := &provider.Counters{}
	whole := provider.Retried(ledger.Recorded(p), rule, counters)
	up := provider.Uploader{Provider: whole, TTL: caps.TTLMin}
	staged, refused := up.Stage(ctx, []provider.Source{source("numbers.csv", "n\n1\n2\n39\n")})
	if len(refused) > 0 {
		t.Fatalf("upload: %v\n%s", refused[0].Err, provider.HintOf(refused[0].Err))
	}
	in := staged[0].File
	t.Logf("sent %s (%d bytes)", in.Name, in.Size)
	if _, err := p.Files().Stat(ctx, in.Ref); err != nil {
		t.Errorf("look for it: %v", err)
	}
	if !caps.UploadReadable {
		t.Log("left out: fetching the upload again, which this provider does not allow")
	}
	found := liveTurn(ctx, t, whole, provider.Attachment{File: in}, model, rule, clock)
	if !caps.SessionFiles {
		t.Log("left out: listing a session, which this provider does not offer")
	}
	for _, f := range found.Files {
		t.Logf("found %s (%d bytes, %s) by %v", f.Name, f.Size, f.MIME, f.FoundBy)
	}
	if len(found.Files) == 0 {
		t.Errorf("the file that the turn was to write was not found: failed %v, missing %v, blind %v", found.Failed,
			found.Missing, found.Blind)
	}
}

func liveTurn(
	ctx context.Context, t *testing.T, whole provider.Provider, in provider.Attachment, model string, rule provider.Retry,
	clock provider.Clock,
) *provider.Collection {
	t.Helper()
	q, err := provider.OpenQuarantine(filepath.Join(t.TempDir(), "quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	tracker := &provider.Tracker{Provider: whole, Clock: clock}
	result, err := tracker.Run(ctx, provider.RunRequest{
		Model: model, Tool: provider.ToolAuto, Files: []provider.Attachment{in},
		Instructions: provider.Instruct(whole.Name(), model, provider.ToolAuto, provider.HintsAuto),
		Input: []provider.Turn{{Role: provider.RoleUser,
			Text: "Run code that adds up column n of numbers.csv and saves the sum as sum.txt, the number alone. Hand over " +
				"sum.txt.", Files: []provider.Attachment{in}}},
	}, func(e provider.Event) {
		switch e := e.(type) {
		case provider.StepDone:
			t.Logf("ran %s: %s", e.Step.Language, e.Step.Outcome)
		case provider.Notice:
			t.Log(e.Text)
		}
	})
	if err != nil {
		t.Fatalf("the turn: %v\n%s", err, provider.HintOf(err))
	}
	if len(result.Steps) == 0 {
		t.Error("no code was run")
	}
	found, err := (&provider.Collector{Quarantine: q, Retry: rule}).Collect(ctx, whole, nil, result)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found.Files {
		file, err := q.Open(f.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(io.LimitReader(file, 100))
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == "sum.txt" && strings.TrimSpace(string(data)) != "42" {
			t.Errorf("%s has %s, want 42", f.Name, fmt.Sprintf("%q", data))
		}
	}
	return found
}
