package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

// Server is a test server for the suite; [Base] implements it.
type Server interface {
	Script(turns ...Turn)
	Inject(faults ...Fault)
	Pending() []Fault
	Heal()
	Requests() []Request
	Count(op Op) int
	Objects() []string
	ExpireSessions()
}

// Bench is a provider with its test server.
type Bench struct {
	Provider provider.Provider
	Server   Server
	Clock    *Clock
	Model    string // one that has the tool
}

// Suite tests a provider: upload, run, stream, collect, expire, recover, cancel, clean up, and
// each fault. open returns a new bench.
func Suite(t *testing.T, open func(testing.TB) Bench) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"capabilities", suiteCaps}, {"check", suiteCheck},
		{"upload, run, collect, clean up", suiteWhole}, {"stream", suiteStream}, {"stream is left", suiteLeave},
		{"events that come twice", suiteRepeats},
		{"nothing mentioned", suiteUnmentioned}, {"promised and not made", suiteMissing}, {"names from hell", suiteNames},
		{"the same picture twice", suiteTwice},
		{"outcomes", suiteOutcomes}, {"a function", suiteFunction}, {"second turn", suiteSecond}, {"paused", suitePaused},
		{"retry", suiteRetry}, {"retry in vain", suiteRetryInVain}, {"damaged downloads", suiteDamaged},
		{"a stream that breaks off", suiteCut},
		{"expired between turns", suiteExpired}, {"cancel", suiteCancel}, {"own deadline", suiteDeadline},
		{"lost answers", suiteLost},
		{"errors", suiteErrors},
		{"delete twice", suiteDelete}, {"crash", suiteCrash}, {"keep", suiteKeep},
		{"no store of files", suiteInline}, {"a lost input", suiteLostInput},
		{"cited twice, listed and deleted", suiteVanished},
		{"files without content", suiteEmpty}, {"one name twice", suiteSameName},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newRig(t, open(t))) })
	}
}

// rig is a bench with the parts around a provider, as in a conversation.
type rig struct {
	Bench
	t         *testing.T
	ctx       context.Context
	store     *Store
	ledger    *provider.Ledger
	whole     provider.Provider // recorded and retried
	collector *provider.Collector
	counters  *provider.Counters
	tracker   *provider.Tracker
	input     []provider.Turn
}

func newRig(t *testing.T, b Bench) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	r := &rig{Bench: b, t: t, ctx: ctx, store: &Store{}, counters: &provider.Counters{}}
	rule := provider.Retry{Clock: b.Clock}
	var err error
	if r.ledger, err = provider.OpenLedger(ctx, r.store, "conversation", rule); err != nil {
		t.Fatal(err)
	}
	q, err := provider.OpenQuarantine(filepath.Join(t.TempDir(), "quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	r.whole = provider.Retried(r.ledger.Recorded(b.Provider), rule, r.counters)
	r.collector = &provider.Collector{Quarantine: q, Retry: rule, Counters: r.counters, Idle: 300 * time.Millisecond}
	r.tracker = &provider.Tracker{Provider: r.whole, Clock: b.Clock, Counters: r.counters}
	return r
}

// caps returns the capabilities of the provider.
func (r *rig) caps() provider.Capabilities { return r.Provider.Caps() }

// upload sends a small file.
func (r *rig) upload(name, content string) provider.Attachment {
	r.t.Helper()
	u := provider.Uploader{Provider: r.whole, Counters: r.counters}
	staged, refused := u.Stage(r.ctx, []provider.Source{source(name, content)})
	if len(refused) > 0 {
		r.t.Fatalf("upload %s: %v", name, refused[0].Err)
	}
	return provider.Attachment{File: staged[0].File}
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

func source(name, content string) provider.Source {
	return provider.Source{Path: name, Name: name, MIME: "text/csv", Size: int64(len(content)),
		Open: func() (io.ReadSeekCloser, error) { return nopCloser{strings.NewReader(content)}, nil }}
}

// ask runs a turn as a conversation does, and collects its files.
func (r *rig) ask(
	text string, sink provider.Sink, files ...provider.Attachment,
) (*provider.RunResult, *provider.Collection, error) {
	r.t.Helper()
	if _, err := r.tracker.Ready(r.ctx, nil, sink); err != nil {
		return nil, nil, err
	}
	before, err := r.collector.Snapshot(r.ctx, r.whole, r.tracker.Session().ID)
	if err != nil && provider.KindOf(err) != provider.ContainerExpired {
		return nil, nil, err
	}
	turn := provider.Turn{Role: provider.RoleUser, Text: text, Files: files}
	result, err := r.tracker.Run(r.ctx, provider.RunRequest{
		Model: r.Model, Input: append(slices.Clone(r.input), turn), Files: files, Tool: provider.ToolAuto,
		Instructions: provider.Instruct(r.Provider.Name(), r.Model, provider.ToolAuto, provider.HintsAuto)}, sink)
	if result == nil {
		return nil, nil, err
	}
	r.input = append(append(r.input, turn), result.Next...)
	found, collecting := r.collector.Collect(r.ctx, r.whole, before, result)
	return result, found, errors.Join(err, collecting)
}

// mustAsk is ask that fails the test on an error.
func (r *rig) mustAsk(text string, files ...provider.Attachment) (*provider.RunResult, *provider.Collection) {
	r.t.Helper()
	result, found, err := r.ask(text, nil, files...)
	if err != nil {
		r.t.Fatalf("run: %v", err)
	}
	return result, found
}

// content reads a collected file by its name.
func (r *rig) content(found *provider.Collection, name string) string {
	r.t.Helper()
	for _, f := range found.Files {
		if f.Name == name {
			file, err := r.collector.Quarantine.Open(f.SHA256)
			if err != nil {
				r.t.Fatal(err)
			}
			defer file.Close()
			data, err := io.ReadAll(file)
			if err != nil {
				r.t.Fatal(err)
			}
			return string(data)
		}
	}
	r.t.Fatalf("%s was not collected: files %v, failed %v, missing %v, blind %v", name, names(found), found.Failed,
		found.Missing, found.Blind)
	return ""
}

func names(found *provider.Collection) (all []string) {
	for _, f := range found.Files {
		all = append(all, f.Name)
	}
	return all
}

// clean ends the conversation and checks that nothing is left at the provider.
func (r *rig) clean() {
	r.t.Helper()
	r.Server.Heal()
	swept, err := r.ledger.Clean(r.ctx, r.Provider)
	if err != nil || len(swept.Left) > 0 {
		r.t.Errorf("clean up: %v, left %v", err, swept.Left)
	}
	r.none()
}

func (r *rig) none() {
	r.t.Helper()
	if left := r.Server.Objects(); len(left) > 0 {
		r.t.Errorf("left at the provider: %v", left)
	}
	if entries, _ := r.store.Entries(r.ctx); len(entries) > 0 {
		r.t.Errorf("left in the ledger: %+v", entries)
	}
}

// makes returns a turn in which code writes files, in frames if the provider returns output
// only.
func (r *rig) makes(text string, files ...Made) Turn {
	step := Step{Code: "write()", Stdout: "written\n"}
	for _, f := range files {
		if r.caps().Outputs == provider.OutputStdout && !f.Shown {
			step.Stdout += provider.Frame(f.Name, f.Data)
			continue
		}
		step.Files = append(step.Files, f)
	}
	return Turn{Steps: []Step{step}, Text: text}
}

// link returns a model's link to a file.
func link(name string) string { return fmt.Sprintf("[%s](sandbox:/mnt/data/%s)", name, name) }
