package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func TestMemory(t *testing.T) {
	providertest.TestStore(t, func(*testing.T) (provider.LedgerStore, provider.UploadStore) {
		s := &provider.Memory{}
		return s, s
	})
}

// ending is a store whose holders do one thing more at the moment that somebody
// asks about them.
type ending struct {
	*provider.Memory
	last map[string]func() error
}

func (e ending) Alive(ctx context.Context, holder string) (bool, error) {
	if do := e.last[holder]; do != nil {
		if err := do(); err != nil {
			return false, err
		}
	}
	return e.Memory.Alive(ctx, holder)
}

// What a process marks as to be kept right before it ends is kept, and one that
// cannot be asked about keeps no other's leftovers where they are.
func TestSweepWhileProcessesEnd(t *testing.T) {
	ctx, b := t.Context(), benches()[0].make(t)
	store := ending{&provider.Memory{}, map[string]func() error{}}
	broken := errors.New("the lock cannot be read")
	put := func(key string, last func(provider.Entry) error) {
		e := provider.Entry{Key: key, Holder: "h-" + key, Provider: b.Provider.Name(), Account: b.Provider.Account(),
			Kind: provider.EntryFile, Name: key, ID: "file-" + key}
		if err := store.Put(ctx, e); err != nil {
			t.Fatal(err)
		}
		store.last[e.Holder] = func() error { return last(e) }
	}
	put("kept", func(e provider.Entry) error { e.Keep = true; return store.Put(ctx, e) })
	put("unknown", func(provider.Entry) error { return broken })
	put("left", func(provider.Entry) error { return nil })
	swept, err := provider.Sweep(ctx, store, provider.Retry{Clock: b.Clock}, b.Provider)
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	names := func(entries []provider.Entry) (names []string) {
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return names
	}
	if len(swept.Left) > 0 || len(swept.Kept) != 1 || swept.Kept[0].Name != "kept" || len(swept.Deleted) != 1 ||
		swept.Deleted[0].Name != "left" {
		t.Errorf("kept %v, deleted %v, left %v", names(swept.Kept), names(swept.Deleted), swept.Left)
	}
}
