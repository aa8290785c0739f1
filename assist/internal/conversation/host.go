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

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/redact"
)

// A Backend is a provider that the user has connected.
type Backend struct {
	Provider provider.Provider
	// Destination is where files go, for people: "OpenAI (api.openai.com)". Empty: they
	// stay on this machine.
	Destination string
	// Shown is where files go that the model itself is shown; empty: to Destination.
	Shown string
	// Ephemeral reports that the provider's objects end with this process, so that
	// nothing has to be recorded and cleaned up.
	Ephemeral bool
	// Shares reports that the provider reads uploaded files: one with a File.Stored has
	// that id there, and is not sent.
	Shares bool
	Close  func() error // may be nil
}

// A CountStore adds up the counts of processes.
type CountStore interface {
	AddCounts(ctx context.Context, rows []provider.Counts) error
}

// HostOptions configure a Host. All but Stored, Counters, Retry, Clock, Log and Redact
// are required.
type HostOptions struct {
	Archive
	Ledger  provider.LedgerStore
	Uploads provider.UploadStore
	Counts  CountStore
	Replies *changes.Replies
	// Quarantine is the directory for fetched outputs.
	Quarantine string
	// Connect returns the provider of an owner's conversation.
	Connect func(ctx context.Context, owner string, s Settings) (*Backend, error)
	// Stored opens a file that an owner has uploaded, for a conversation that is
	// resumed; nil: uploaded files cannot be opened.
	Stored func(ctx context.Context, owner, id string) (File, error)
	// Counters are drained into Counts.
	Counters *provider.Counters
	Retry    provider.Retry
	Clock    provider.Clock
	Log      *slog.Logger
	// Redact removes secrets from events and records; nil: it removes text that looks like
	// a key.
	Redact *redact.Redactor
}

// problem describes an error as records have it, without secrets.
func (h *Host) problem(err error) *Problem { return redactProblem(h.Redact, ProblemOf(err)) }

// A Host begins, resumes and keeps conversations with models. Its methods may be called
// concurrently.
type Host struct {
	HostOptions
	quarantine *provider.Quarantine
}

// NewHost returns a Host. The caller closes it.
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

// Close closes the host, after its conversations were closed.
func (h *Host) Close() error {
	h.count(context.Background())
	return h.quarantine.Close()
}

// Begin starts a conversation. It asks and sends nothing; the first turn saves the
// conversation. The caller closes it.
func (h *Host) Begin(ctx context.Context, owner string, s Settings) (*Chat, error) {
	now := h.Clock.Now().UTC()
	return h.open(ctx, &Conversation{ID: assignment.NewID(), Owner: owner, Created: now, Updated: now, Settings: s})
}

// Resume continues a conversation. If change is not nil, it may alter the settings. If
// the provider was cleaned up, the model is sent the conversation as text, and the next
// turn sends the inputs that this machine still has once more, after the user agreed:
// see Again.
func (h *Host) Resume(ctx context.Context, owner, id string, change func(*Settings)) (*Chat, error) {
	c, err := h.Conversation(ctx, owner, id)
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
	chat := &Chat{release: release, uploads: &ephemeralUploads{kept: h.Uploads}, host: h, record: c, Backend: b,
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

// hold locks a conversation for this process. It returns ErrTurn if another has it.
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

// Output opens an output in quarantine.
func (h *Host) Output(sha256 string) (*os.File, error) { return h.quarantine.Open(sha256) }

// Drop deletes a conversation, or returns ErrTurn if it is in progress somewhere.
func (h *Host) Drop(ctx context.Context, owner, id string) (err error) {
	if _, err := h.Conversation(ctx, owner, id); err != nil {
		return err
	}
	release, err := h.hold(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return h.DropConversation(ctx, owner, id) // its outputs expire: other conversations may have the same
}

// HoldOutputs is how long outputs stay in quarantine after they were fetched.
const HoldOutputs = 7 * 24 * time.Hour

// Sweep deletes objects of crashed processes at providers, and expired outputs.
func (h *Host) Sweep(ctx context.Context, providers ...provider.Provider) (provider.Swept, error) {
	swept, err := provider.Sweep(ctx, h.Ledger, h.Retry, providers...)
	return swept, errors.Join(err, h.cleanUp())
}

// SweepAll is Sweep at a user's request: it also deletes objects that may hold outputs
// that could not be fetched.
func (h *Host) SweepAll(ctx context.Context, providers ...provider.Provider) (provider.Swept, error) {
	swept, err := provider.SweepAll(ctx, h.Ledger, h.Retry, providers...)
	return swept, errors.Join(err, h.cleanUp())
}

// cleanUp removes expired outputs, and partial files that a crash has left.
func (h *Host) cleanUp() error {
	entries, err := os.ReadDir(h.Quarantine)
	if err != nil {
		return err
	}
	var failed error
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > HoldOutputs {
			failed = errors.Join(failed, os.Remove(filepath.Join(h.Quarantine, e.Name())))
		}
	}
	return failed
}

// count adds the counts since the last call to the store.
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

// Fetch brings one remote file into quarantine, where Output opens it. It retries calls
// itself, so that p should not.
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

// only is a provider without a listing of sessions, to fetch a single file.
type only struct{ provider.Provider }

func (o only) Caps() provider.Capabilities {
	c := o.Provider.Caps()
	c.SessionFiles = false
	return c
}
