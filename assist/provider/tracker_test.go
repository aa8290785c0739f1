package provider_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// TestKeepAlive touches a session before its clock runs out, and not for ever.
func TestKeepAlive(t *testing.T) {
	clock := providertest.NewClock()
	s := &fakeSessions{clock: clock}
	p := sessionProvider{fakeProvider{files: &fakeFiles{}}, s}
	tracker := &provider.Tracker{Provider: p, Clock: clock}
	if _, err := tracker.Ready(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := tracker.KeepAlive(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := len(s.touched); n != 4 || s.touched[0].Sub(s.made) >= 20*time.Minute {
		t.Errorf("touched at %v, made at %v", s.touched, s.made)
	}
	if _, err := tracker.Ready(t.Context(), nil, nil); err != nil || s.created != 1 {
		t.Errorf("%v, %d sessions: the one that was kept alive is the one to use", err, s.created)
	}
}

type sessionProvider struct {
	fakeProvider
	sessions *fakeSessions
}

func (p sessionProvider) Sessions() provider.SessionStore { return p.sessions }
func (sessionProvider) Caps() provider.Capabilities {
	return provider.Capabilities{Sessions: true, SessionCreate: true, SessionTouch: true, IdleTTL: 20 * time.Minute}
}

type fakeSessions struct {
	provider.NoSessions
	clock   provider.Clock
	made    time.Time
	touched []time.Time
	created int
}

func (f *fakeSessions) Create(context.Context, provider.SessionSpec) (provider.Session, error) {
	f.made, f.created = f.clock.Now(), f.created+1
	return provider.Session{ID: "s", Active: true}, nil
}

func (f *fakeSessions) Touch(context.Context, string) error {
	f.touched = append(f.touched, f.clock.Now())
	return nil
}

// TestLedgerFindsItsOwn lets two attempts with one file get lost, beside a file of
// the same name and size that somebody else has sent before.
func TestLedgerFindsItsOwn(t *testing.T) {
	clock, store := providertest.NewClock(), &provider.Memory{}
	files := &listedFiles{clock: clock}
	files.add("theirs") // an hour before
	clock.Advance(time.Hour)
	p := listedProvider{files}
	rule := provider.Retry{Clock: clock}
	ledger, err := provider.OpenLedger(t.Context(), store, "c", rule)
	if err != nil {
		t.Fatal(err)
	}
	whole := ledger.Recorded(p)
	for range 2 {
		if _, err := whole.Files().Upload(t.Context(), provider.Upload{Name: "a", Size: 1}); err == nil {
			t.Fatal("the answer was to get lost")
		}
		clock.Advance(30 * time.Second)
	}
	swept, err := ledger.Clean(t.Context(), p)
	if err != nil || len(swept.Left) > 0 || len(files.all) != 1 || files.all[0].Ref.ID != "theirs" {
		t.Errorf("%v, left %v, files %+v", err, swept.Left, files.all)
	}
}

type listedProvider struct{ files *listedFiles }

func (listedProvider) Name() string                        { return "fake" }
func (listedProvider) Account() string                     { return "a" }
func (listedProvider) Caps() provider.Capabilities         { return provider.Capabilities{} }
func (listedProvider) Check(context.Context, string) error { return nil }
func (p listedProvider) Files() provider.FileStore         { return p.files }
func (listedProvider) Sessions() provider.SessionStore     { return provider.NoSessions{} }
func (listedProvider) Run(context.Context, provider.RunRequest, provider.Sink) (*provider.RunResult, error) {
	return &provider.RunResult{}, nil
}

type listedFiles struct {
	provider.FileStore
	clock provider.Clock
	all   []provider.FileInfo
}

func (f *listedFiles) add(id string) {
	f.all = append(f.all, provider.FileInfo{Ref: provider.FileRef{ID: id}, Name: "a", Size: 1, Created: f.clock.Now()})
}

func (f *listedFiles) Upload(context.Context, provider.Upload) (provider.FileInfo, error) {
	f.add(f.clock.Now().String())
	return provider.FileInfo{}, &provider.Error{Kind: provider.Transient, Ambiguous: true}
}

func (f *listedFiles) List(context.Context, provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		for _, i := range f.all {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func (f *listedFiles) Delete(_ context.Context, r provider.FileRef) error {
	for i := range f.all {
		if f.all[i].Ref.ID == r.ID {
			f.all = append(f.all[:i], f.all[i+1:]...)
			break
		}
	}
	return nil
}
