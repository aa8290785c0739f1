package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/provider"
)

// Backend is a provider that the user has connected.
type Backend struct {
	Provider provider.Provider
	// Destination is where files go, as a person would say it: "OpenAI
	// (api.openai.com)". Empty: they stay on this machine.
	Destination string
	// Shown is where files go that are shown to the model itself; empty: the
	// Destination.
	Shown string
	// Ephemeral says that what is made there ends with this process, so that
	// there is nothing to record and to clean up.
	Ephemeral bool
	Close     func() error // may be nil
}

// CountStore adds up what processes have counted.
type CountStore interface {
	AddCounts(ctx context.Context, rows []provider.Counts) error
}

// HostOptions are what a Host stands on. All but Stored, Counters, Retry, Clock,
// Log and Redact are required.
type HostOptions struct {
	Archive Archive
	Ledger  provider.LedgerStore
	Uploads provider.UploadStore
	Counts  CountStore
	Desk    *Replies
	// Quarantine is the directory in which outputs are held.
	Quarantine string
	// Connect gives the provider of a conversation of an owner.
	Connect func(ctx context.Context, owner string, s Settings) (*Backend, error)
	// Stored opens a file that an owner has uploaded, for a conversation that is
	// taken up again; nil: uploaded files cannot be reached from here.
	Stored func(ctx context.Context, owner, id string) (File, error)
	// Counters are drained into Counts.
	Counters *provider.Counters
	Retry    provider.Retry
	Clock    provider.Clock
	Log      *slog.Logger
	// Redact takes secrets out of all that is told and kept; nil: it takes out
	// what looks like a key, and knows none.
	Redact *provider.Redactor
}

// problem says an error as it is kept, without secrets.
func (h *Host) problem(err error) *Problem { return redactProblem(h.Redact, ProblemOf(err)) }

// Host holds conversations with models. Its methods may be called at once.
type Host struct {
	HostOptions
	quarantine *provider.Quarantine
}

// NewHost returns a host. Close it.
func NewHost(o HostOptions) (*Host, error) {
	if o.Clock == nil {
		o.Clock = provider.SystemClock{}
	}
	o.Retry.Clock = cmp.Or(o.Retry.Clock, o.Clock)
	o.Counters = cmp.Or(o.Counters, &provider.Counters{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	q, err := provider.OpenQuarantine(o.Quarantine)
	if err != nil {
		return nil, fmt.Errorf("the folder for fetched files: %w", err)
	}
	return &Host{HostOptions: o, quarantine: q}, nil
}

// Close releases what the host has open. Close its conversations before.
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

// Resume continues with a conversation. change may alter its settings; nil
// leaves them. What was cleaned up at the provider is gone: the model is told
// the conversation as text, and inputs that are still on this machine are sent
// again with the next turn, after it was agreed to: see Again.
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
	chat.remember(ctx, c.Settings.Provider == before)
	return chat, nil
}

func (h *Host) open(ctx context.Context, c *Conversation) (*Chat, error) {
	b, err := h.Connect(ctx, c.Owner, c.Settings)
	if err != nil {
		return nil, err
	}
	release, err := h.hold(ctx, c.ID)
	if err != nil {
		return nil, errors.Join(err, closeBackend(b))
	}
	chat := &Chat{release: release, uploads: &passingUploads{kept: h.Uploads}, host: h, record: c, backend: b,
		noted: b.Provider, sources: map[string]sent{}}
	if !b.Ephemeral {
		if chat.ledger, err = provider.OpenLedger(ctx, h.Ledger, c.ID, h.Retry); err != nil {
			return nil, errors.Join(err, release(), closeBackend(b))
		}
		chat.noted = chat.ledger.Recorded(b.Provider)
		if c.Settings.Keep {
			if err := chat.ledger.KeepAll(ctx); err != nil {
				return nil, errors.Join(err, chat.ledger.Close(), release(), closeBackend(b))
			}
		}
	}
	chat.rule = h.Retry
	chat.rule.Again = chat.repeated
	chat.whole = provider.Retried(chat.noted, chat.rule, h.Counters)
	chat.tracker = &provider.Tracker{Provider: chat.whole, Clock: h.Clock, Counters: h.Counters, Again: chat.again}
	return chat, nil
}

// hold keeps other processes from continuing a conversation.
func (h *Host) hold(ctx context.Context, id string) (release func() error, err error) {
	if held, err := h.Ledger.Alive(ctx, "conversation-"+id); err != nil || held {
		return nil, errors.Join(err, ErrTurn)
	}
	return h.Ledger.MarkAlive(ctx, "conversation-"+id)
}

func closeBackend(b *Backend) error {
	if b.Close == nil {
		return nil
	}
	return b.Close()
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

// Drop forgets a conversation; one that continues somewhere is ErrTurn.
func (h *Host) Drop(ctx context.Context, owner, id string) (err error) {
	if _, err := h.Archive.Conversation(ctx, owner, id); err != nil {
		return err
	}
	release, err := h.hold(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return h.Archive.DropConversation(ctx, owner, id) // its outputs go with their time: others may have the same
}

// holdOutputs is how long outputs are held here after they were fetched.
const holdOutputs = 7 * 24 * time.Hour

// Sweep deletes what processes that are no more have left at providers, and
// outputs that nobody wanted.
func (h *Host) Sweep(ctx context.Context, providers ...provider.Provider) (provider.Swept, error) {
	swept, err := provider.Sweep(ctx, h.Ledger, h.Retry, providers...)
	return swept, errors.Join(err, h.tidy())
}

// SweepAll is Sweep for a person who asked for it: what may hold outputs that
// could not be fetched is deleted too.
func (h *Host) SweepAll(ctx context.Context, providers ...provider.Provider) (provider.Swept, error) {
	swept, err := provider.SweepAll(ctx, h.Ledger, h.Retry, providers...)
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
	news := h.Counters.Drain()
	if len(news) == 0 {
		return
	}
	if err := h.Counts.AddCounts(ctx, news); err != nil {
		h.Log.Warn("the counts of providers were not kept", "err", err)
		for _, row := range news { // for the next time
			h.Counters.Count(row.Provider, row.Model, func(c *provider.Counts) { c.Add(row) })
		}
	}
}

// Fetch brings one remote file into the quarantine, where Output opens it. It
// repeats what fails by itself: p is a provider that does not.
func (h *Host) Fetch(
	ctx context.Context, p provider.Provider, a provider.Artifact, most int64, progress func(done int64),
) (provider.Artifact, error) {
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
