package provider_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

var turns = flag.Int("turns", 100, "turns of the soak with random faults, over all providers")

// TestSoak lets everything go wrong at random, at all providers. No turn may lose
// a file that the server still has, and nothing may be left behind in the end.
func TestSoak(t *testing.T) {
	all := benches()
	for _, open := range all {
		b := open.make(t)
		t.Run(open.name, func(t *testing.T) { soak(t, b, *turns/len(all)) })
	}
}

func soak(t *testing.T, b providertest.Bench, turns int) {
	s := &soaking{t: t, bench: b, store: &providertest.Store{}, rule: provider.Retry{Clock: b.Clock, Tries: 4}}
	random := rand.New(rand.NewPCG(1, 2))
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
	lost, broke, injected := 0, 0, 0
	for n := range turns {
		b.Server.Heal()
		for range random.IntN(4) {
			f := faults[random.IntN(len(faults))]
			f.On = ops[random.IntN(len(ops))]
			b.Server.Inject(f)
			injected++
		}
		if random.IntN(10) == 0 {
			b.Server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultExpire})
			injected++
		}
		name := fmt.Sprintf("out-%d.csv", n)
		missed, err := s.turn(name, n%2 == 0)
		if err != nil {
			broke++
		}
		if missed {
			lost++
			t.Errorf("turn %d lost %s, which the server still has: %v", n, name, err)
		}
		if random.IntN(5) == 0 {
			s.store.Crash() // as if the process had died
		}
		b.Clock.Advance(10 * time.Minute)
	}
	b.Server.Heal()
	s.store.Crash()
	swept, err := provider.Sweep(t.Context(), s.store, s.rule, b.Provider)
	if err != nil || len(swept.Left) > 0 {
		t.Errorf("sweep: %v, left %v", err, swept.Left)
	}
	left := b.Server.Objects()
	if len(left) > 0 {
		t.Errorf("left at the provider: %v", left)
	}
	t.Logf("%d turns with %d faults, %d of them with an error in the end, %d files lost, %d objects left after gc", turns,
		injected, broke, lost, len(left))
}

type soaking struct {
	t     *testing.T
	bench providertest.Bench
	store *providertest.Store
	rule  provider.Retry
}

// holds reports whether the server still has a file that code made. Where files
// come within the reply it had it if the reply was whole.
func (s *soaking) holds(name string, failure error) bool {
	if s.bench.Provider.Caps().Outputs == provider.OutputStdout {
		return failure == nil
	}
	if h, ok := s.bench.Server.(interface{ Holds(name string) bool }); ok {
		return h.Holds(name)
	}
	return slices.ContainsFunc(s.bench.Server.Objects(), func(o string) bool { return strings.HasSuffix(o, " "+name) })
}

// turn is one conversation of one turn, which cleans up or does not. It reports
// whether it missed a file that the server has.
func (s *soaking) turn(name string, clean bool) (missed bool, failure error) {
	t, p := s.t, s.bench.Provider
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ledger, err := provider.OpenLedger(ctx, s.store, name, s.rule)
	if err != nil {
		t.Fatal(err)
	}
	q, err := provider.OpenQuarantine(filepath.Join(t.TempDir(), "q"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	whole := provider.Retried(ledger.Recorded(p), s.rule, nil)
	up := provider.Uploader{Provider: whole}
	staged, _ := up.Stage(ctx, []provider.Source{fakeSource("in.csv", "a,b\n1,2\n")})
	var files []provider.Attachment
	for _, one := range staged {
		files = append(files, provider.Attachment{File: one.File})
	}
	made := providertest.Made{Name: name, Data: []byte("content of " + name)}
	step := providertest.Step{Code: fmt.Sprintf("open(%q, 'w').write(x)", name), Stdout: "y\n"}
	if p.Caps().Outputs == provider.OutputStdout {
		step.Stdout += provider.Frame(made.Name, made.Data)
	} else {
		step.Files = []providertest.Made{made}
	}
	answer := providertest.Turn{Text: "[" + name + "](sandbox:/mnt/data/" + name + ")", Steps: []providertest.Step{step}}
	// A model that is asked again does the same again.
	s.bench.Server.(interface{ Rescript(...providertest.Turn) }).Rescript(answer, answer, answer, answer, answer, answer)
	tracker := &provider.Tracker{Provider: whole, Clock: s.bench.Clock}
	result, failure := tracker.Run(ctx, provider.RunRequest{
		Model: s.bench.Model, Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}, Files: files},
		func(provider.Event) {})
	if result == nil { // nothing is known of what was made; the session is
		result = &provider.RunResult{Sessions: []provider.Session{tracker.Session()}}
	}
	collector := &provider.Collector{Quarantine: q, Retry: s.rule, Idle: time.Second}
	found, err := collector.Collect(ctx, whole, nil, result)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.ContainsFunc(found.Files, func(f provider.Artifact) bool { return f.Name == name })
	if missed = !got && s.holds(name, failure); missed {
		t.Logf("%s: run %v, failed %v, blind %v, result %+v", name, failure, found.Failed, found.Blind, result)
	}
	if clean {
		_, _ = ledger.Clean(ctx, p) // what fails is left for the sweep
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	}
	return missed, failure
}
