package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/provider"
)

// Backend is a provider that somebody has connected.
type Backend struct {
	Provider provider.Provider
	// Destination is where files go, as a person would say it: "OpenAI
	// (api.openai.com)". Empty: they stay on this machine.
	Destination string
	// Shown is where files go that are shown to the model itself; empty: the
	// Destination.
	Shown string
	// Passing says that what is made there ends with this process, so that
	// there is nothing to record and to clean up.
	Passing bool
	Close   func() error // may be nil
}

// CountStore adds up what processes have counted.
type CountStore interface {
	AddCounts(ctx context.Context, rows []provider.Counts) error
}

// HostOptions are what a Host stands on. All but Counters, Retry, Clock and Log
// are required.
type HostOptions struct {
	Archive Archive
	Ledger  provider.LedgerStore
	Uploads provider.UploadStore
	Counts  CountStore
	Desk    *Desk
	// Quarantine is the directory in which outputs are held.
	Quarantine string
	// Connect gives the provider of a conversation of an owner.
	Connect  func(ctx context.Context, owner string, s Settings) (*Backend, error)
	Counters *provider.Counters
	Retry    provider.Retry
	Clock    provider.Clock
	Log      *slog.Logger
}

// Host holds conversations with models. Its methods may be called at once.
type Host struct {
	HostOptions
	quarantine *provider.Quarantine
	counting   sync.Mutex
	counted    map[[2]string]provider.Counts // what CountStore knows already
}

// NewHost returns a host. Close it.
func NewHost(o HostOptions) (*Host, error) {
	if o.Clock == nil {
		o.Clock = provider.SystemClock{}
	}
	if o.Retry.Clock == nil {
		o.Retry.Clock = o.Clock
	}
	if o.Counters == nil {
		o.Counters = &provider.Counters{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	q, err := provider.OpenQuarantine(o.Quarantine)
	if err != nil {
		return nil, fmt.Errorf("the folder for fetched files: %w", err)
	}
	return &Host{HostOptions: o, quarantine: q, counted: map[[2]string]provider.Counts{}}, nil
}

// Close gives up what the host has open. Close its conversations before.
func (h *Host) Close() error {
	h.count(context.Background())
	return h.quarantine.Close()
}

// Begin starts a conversation. Nothing is asked and nothing is sent yet, and
// it is kept from its first turn on. Whoever begins one closes it.
func (h *Host) Begin(ctx context.Context, owner string, s Settings) (*Chat, error) {
	now := h.Clock.Now().UTC()
	return h.open(ctx, &Conversation{ID: assignment.NewID(), Owner: owner, Created: now, Updated: now, Settings: s})
}

// Resume goes on with a conversation. change may alter its settings; nil
// leaves them. What was cleaned up at the provider is gone: the model is told
// the conversation as text, and inputs that are still on this machine as they
// were are sent again with the next turn.
func (h *Host) Resume(ctx context.Context, owner, id string, change func(*Settings)) (*Chat, error) {
	c, err := h.Archive.Conversation(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	before := c.Settings.Provider
	if change != nil {
		change(&c.Settings)
	}
	chat, err := h.open(ctx, c)
	if err != nil {
		return nil, err
	}
	chat.remember(c.Settings.Provider == before)
	return chat, nil
}

func (h *Host) open(ctx context.Context, c *Conversation) (*Chat, error) {
	b, err := h.Connect(ctx, c.Owner, c.Settings)
	if err != nil {
		return nil, err
	}
	chat := &Chat{uploads: &passingUploads{kept: h.Uploads}, host: h, record: c, backend: b, whole: b.Provider, sources: map[string]provider.Source{}}
	if b.Close == nil {
		b.Close = func() error { return nil }
	}
	if !b.Passing {
		if chat.ledger, err = provider.OpenLedger(ctx, h.Ledger, c.ID, h.Retry); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		chat.whole = chat.ledger.Recorded(b.Provider)
		if c.Settings.Keep {
			if err := chat.ledger.KeepAll(ctx); err != nil {
				return nil, errors.Join(err, chat.ledger.Close(), b.Close())
			}
		}
	}
	chat.rule = h.Retry
	chat.rule.Again = chat.repeated
	chat.whole = provider.Retried(chat.whole, chat.rule, h.Counters)
	chat.tracker = &provider.Tracker{Provider: chat.whole, Clock: h.Clock, Counters: h.Counters, Again: chat.again}
	return chat, nil
}

// Conversation returns one that is kept, with its turns, or ErrNotFound.
func (h *Host) Conversation(ctx context.Context, owner, id string) (*Conversation, error) {
	return h.Archive.Conversation(ctx, owner, id)
}

// Conversations returns an owner's, without turns, newest first.
func (h *Host) Conversations(ctx context.Context, owner string, p Page) ([]*Conversation, error) {
	return h.Archive.Conversations(ctx, owner, p)
}

// Output opens an output that is held here.
func (h *Host) Output(sha256 string) (*os.File, error) { return h.quarantine.Open(sha256) }

// Save saves outputs of a turn that is over, for whoever decides later.
func (h *Host) Save(ctx context.Context, owner, id string, turn int, a Answer) (*Turn, error) {
	c, err := h.Archive.Conversation(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	for _, t := range c.Turns {
		if t.Number != turn || t.State == TurnRunning {
			continue
		}
		if a.Folder == "" {
			return nil, fmt.Errorf("%w: a folder to save into is missing", ErrInvalid)
		}
		s := saving{host: h, conversation: c, turn: t}
		err := s.write(ctx, a.Folder, a)
		return t, errors.Join(err, h.Archive.PutConversation(context.WithoutCancel(ctx), c, t))
	}
	return nil, fmt.Errorf("turn %d: %w", turn, ErrNotFound)
}

// Drop forgets a conversation and the outputs that are held of it.
func (h *Host) Drop(ctx context.Context, owner, id string) error {
	c, err := h.Archive.Conversation(ctx, owner, id)
	if err != nil {
		return err
	}
	for _, t := range c.Turns {
		if t.State == TurnRunning && h.Clock.Now().Sub(t.Started) < crashedAfter {
			return ErrTurn
		}
	}
	return h.Archive.DropConversation(ctx, owner, id) // its outputs go with their time: others may have the same
}

const (
	// holdOutputs is how long outputs are held here after they were fetched.
	holdOutputs = 7 * 24 * time.Hour
	// crashedAfter is when a turn that runs has to be one that crashed.
	crashedAfter = 24 * time.Hour
)

// Sweep deletes what processes that are no more have left at providers, and
// outputs that nobody wanted.
func (h *Host) Sweep(ctx context.Context, providers ...provider.Provider) (provider.Swept, error) {
	swept, err := provider.Sweep(ctx, h.Ledger, h.Retry, providers...)
	return swept, errors.Join(err, h.tidy())
}

// tidy removes outputs whose time is over, and beginnings of files that a
// crash has left.
func (h *Host) tidy() error {
	entries, err := os.ReadDir(h.Quarantine)
	if err != nil {
		return err
	}
	var failed error
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > holdOutputs {
			failed = errors.Join(failed, os.Remove(filepath.Join(h.Quarantine, e.Name())))
		}
	}
	return failed
}

// count hands what was counted since the last time to the store.
func (h *Host) count(ctx context.Context) {
	h.counting.Lock()
	defer h.counting.Unlock()
	var news []provider.Counts
	rows := h.Counters.Snapshot()
	for _, row := range rows {
		key := [2]string{row.Provider, row.Model}
		if fresh := since(row, h.counted[key]); fresh != nil {
			news = append(news, *fresh)
		}
	}
	if len(news) == 0 {
		return
	}
	if err := h.Counts.AddCounts(ctx, news); err != nil {
		h.Log.Warn("the counts of providers were not kept", "err", err)
		return
	}
	for _, row := range rows {
		h.counted[[2]string{row.Provider, row.Model}] = row
	}
}

// since is what a row has more than it had, nil for nothing.
func since(now, before provider.Counts) *provider.Counts {
	d := provider.Counts{Provider: now.Provider, Model: now.Model, Turns: now.Turns - before.Turns, TurnTime: now.TurnTime - before.TurnTime,
		Uploads: now.Uploads - before.Uploads, Downloads: now.Downloads - before.Downloads, Bytes: now.Bytes - before.Bytes, Retries: now.Retries - before.Retries,
		Failures: now.Failures - before.Failures, Missing: now.Missing - before.Missing, Recoveries: now.Recoveries - before.Recoveries, Files: map[provider.Evidence]int64{}}
	for k, v := range now.Files {
		if v > before.Files[k] {
			d.Files[k] = v - before.Files[k]
		}
	}
	if d.Turns|int64(d.TurnTime)|d.Uploads|d.Downloads|d.Bytes|d.Retries|d.Failures|d.Missing|d.Recoveries == 0 && len(d.Files) == 0 {
		return nil
	}
	return &d
}

// Fetch brings one remote file into the quarantine, where Output opens it.
func (h *Host) Fetch(ctx context.Context, p provider.Provider, a provider.Artifact, most int64, progress func(done int64)) (provider.Artifact, error) {
	c := provider.Collector{Quarantine: h.quarantine, Retry: h.Retry, MaxBytes: most, Counters: h.Counters,
		Progress: func(_ provider.Artifact, done int64) { progress(done) }}
	a.FoundBy = []provider.Evidence{provider.ByListing}
	found, err := c.Collect(ctx, only{p}, nil, &provider.RunResult{Artifacts: []provider.Artifact{a}})
	h.count(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return a, err
	case len(found.Failed) > 0:
		return a, found.Failed[0].Err
	}
	return found.Files[0], nil
}

// only is a provider whose sessions are not looked through: one file is
// wanted, not what else there is.
type only struct{ provider.Provider }

func (o only) Caps() provider.Capabilities {
	c := o.Provider.Caps()
	c.SessionFiles = false
	return c
}
