package provider_test

import (
	"context"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

type idling struct{ *shelves }

func (idling) Caps() provider.Capabilities {
	return provider.Capabilities{SessionCreate: true, IdleTTL: time.Hour}
}

// What a caller has left out is an error or a default, not a panic in a goroutine of ours.
func TestZeroValues(t *testing.T) {
	s := &shelves{sessions: map[string][]provider.FileInfo{}}
	tracker := provider.Tracker{Provider: idling{s}}
	tracker.Resume(provider.Session{ID: "a", LastUsed: time.Now()}, nil)
	if id, err := tracker.Ready(t.Context(), nil, nil); err != nil || id != "a" {
		t.Errorf("a Tracker without a Clock: %q, %v", id, err)
	}
	made := &provider.RunResult{Artifacts: []provider.Artifact{{Name: "a.csv",
		Ref: provider.FileRef{Scope: provider.ScopeFile, ID: "1"}}}}
	if _, err := new(provider.Collector).Collect(t.Context(), s, nil, made); provider.KindOf(err) != provider.Invalid {
		t.Errorf("a Collector without a Quarantine: %v", err)
	}
	for name, u := range map[string]provider.Uploader{"no Provider": {}, "no Open": {Provider: s}} {
		staged, refused := u.Stage(t.Context(), []provider.Source{{Name: "a.csv"}})
		if len(staged) > 0 || len(refused) != 1 || provider.KindOf(refused[0].Err) != provider.Invalid {
			t.Errorf("%s: staged %v, refused %v", name, staged, refused)
		}
	}
}

// counting counts turns.
type counting struct {
	*shelves
	n int
}

func (r *counting) Run(context.Context, provider.RunRequest, provider.Sink) (*provider.RunResult, error) {
	r.n++
	return &provider.RunResult{}, nil
}

// A second loop over the events of a turn does not run it again.
func TestStreamRunsOnce(t *testing.T) {
	p := &counting{shelves: &shelves{}}
	events := provider.Stream(t.Context(), p, provider.RunRequest{})
	var ends []error
	for range 2 {
		for _, err := range events {
			ends = append(ends, err)
		}
	}
	if len(ends) != 2 || ends[0] != nil || provider.KindOf(ends[1]) != provider.Invalid || p.n != 1 {
		t.Errorf("the loops ended with %v after %d turns", ends, p.n)
	}
}
