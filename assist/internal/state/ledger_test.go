package state

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
)

func TestLedgerOutlivesTheProcess(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	db, err := Open(ctx, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := provider.Entry{Key: "k", Holder: "h", Provider: provider.OpenAI, Account: "a", Kind: provider.EntryFile,
		Name: "x", Size: 3, Created: time.Unix(1, 0).UTC()}
	for _, id := range []string{"", "file-1"} {
		e.ID = id
		if err := db.Ledger().Put(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(ctx, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, err := db.Ledger().Entries(ctx)
	if diff := cmp.Diff([]provider.Entry{e}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestLedgerKnowsWhoLives(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	one, err := Open(ctx, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := Open(ctx, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	release, err := one.Ledger().MarkAlive(ctx, "h")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if got, err := two.Ledger().Alive(ctx, "h"); err != nil || got != want {
			t.Errorf("held %v, %v; want %v", got, err, want)
		}
		if want {
			if err := release(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// However holders and readers of one name interleave, one process holds it at a
// time, and no call fails.
func TestLedgerHoldersInTurn(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var at atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				release, err := db.Ledger().MarkAlive(ctx, "h")
				if err != nil {
					t.Error(err)
					return
				}
				if n := at.Add(1); n != 1 {
					t.Errorf("%d at a time", n)
				}
				runtime.Gosched()
				at.Add(-1)
				if err := release(); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 50 {
				if _, err := db.Ledger().Alive(ctx, "h"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestCounts(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 {
		row := provider.Counts{Provider: provider.XAI, Model: "m", Turns: 2,
			Files: map[provider.Evidence]int64{provider.ByStdout: 1}}
		if err := db.Uploads().AddCounts(ctx, []provider.Counts{row}); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := db.Uploads().Counts(ctx)
	want := []provider.Counts{{Provider: provider.XAI, Model: "m", Turns: 4,
		Files: map[provider.Evidence]int64{provider.ByStdout: 2}}}
	if diff := cmp.Diff(want, counts); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
