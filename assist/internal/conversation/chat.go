package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
)

// A Chat is a conversation with a model that is in progress in this process. It has one
// turn at a time. Close ends it.
type Chat struct {
	host   *Host
	record *Conversation
	*Backend
	uploads *ephemeralUploads
	noted   provider.Provider // recorded in the ledger, for callers that retry themselves
	whole   provider.Provider // recorded and retried
	rule    provider.Retry
	ledger  *provider.Ledger // nil: there is nothing to clean up
	tracker *provider.Tracker
	kept    bool         // the archive has the conversation
	before  int          // turns of earlier processes
	release func() error // ends the lock on the conversation

	asking sync.Mutex // held by a turn

	history      []provider.Turn       // the exchanges so far
	carry        []provider.Attachment // files of a turn that failed: the next one brings them
	resend       []File                // inputs of before a clean-up
	lost         []Upload              // those of them that this machine does not have any more
	sameProvider bool                  // as in earlier processes
	missed       []provider.FileRef    // objects that may hold outputs that could not be fetched

	mu      sync.Mutex
	sources map[string]sent // by remote id
	notify  func(Event)     // of the turn in progress; nil: there is none
}

// ID returns the id of the conversation.
func (c *Chat) ID() string { return c.record.ID }

// Settings returns the settings of the conversation.
func (c *Chat) Settings() Settings { return c.record.Settings }

// A Prompt begins a turn.
type Prompt struct {
	Text  string
	Files []File
	// SkipFailed continues without files that cannot be sent, without a question.
	SkipFailed bool
	// Schema is the JSON schema of the answer; empty: free text.
	Schema json.RawMessage
	// Folder is where outputs may be saved; empty: the user is not asked, and outputs
	// stay in quarantine.
	Folder string
	// Expect makes a turn fail whose answer promises a file that does not exist.
	Expect bool
	// Browse is the folder from which the model may request files; empty: none.
	Browse string
}

// Check reports what would keep a prompt from being sent: the key, the model, the tool,
// the provider's limits. It sends nothing and spends no tokens.
func (c *Chat) Check(ctx context.Context, p Prompt) error {
	if err := c.checkTool(p); err != nil {
		return err
	}
	if err := c.whole.Check(ctx, c.record.Settings.Model); err != nil {
		return err
	}
	for _, err := range c.Provider.Caps().Limits.Check(c.record.Settings.Provider, wishes(p.Files)) {
		return err
	}
	return nil
}

// checkTool returns an error if the provider lacks the tool, or schemas.
func (c *Chat) checkTool(p Prompt) error {
	caps, s := c.Provider.Caps(), c.record.Settings
	known := s.Tool == provider.ToolAuto || s.Tool == provider.ToolNone || s.Tool == ""
	var names []string
	for _, t := range caps.Tools {
		known = known || t == s.Tool
		names = append(names, string(t))
	}
	switch {
	case !known:
		return &provider.Error{Kind: provider.Invalid, Provider: s.Provider, Op: "check the tool",
			Message: "it has no tool " + string(s.Tool), Hint: "It has: " + strings.Join(names, ", ") + "."}
	case len(p.Schema) > 0 && !caps.Schema:
		return &provider.Error{Kind: provider.Invalid, Provider: s.Provider, Op: "check the schema",
			Message: "it cannot be held to a JSON schema"}
	}
	return nil
}

// Turn runs one turn. It puts questions to the prompter and sends events to the sink.
// The record of a turn that has begun is returned and saved even with an error.
//
// The turn ends with the context. Close deletes the objects at the provider.
func (c *Chat) Turn(ctx context.Context, p Prompt, prompter Prompter, sink Sink) (*Turn, error) {
	if !c.asking.TryLock() {
		return nil, ErrTurn
	}
	defer c.asking.Unlock()
	t := c.newTurn(p, prompter, sink)
	defer c.silence()
	t.emit(Begun{Conversation: c.record.ID, Turn: t.record.Number, Provider: c.record.Settings.Provider,
		Model: c.record.Settings.Model, Prompt: t.record.Prompt})
	err := t.keep(ctx)
	if err == nil {
		err = t.run(ctx)
	}
	return t.record, t.end(ctx, err)
}

func (c *Chat) newTurn(p Prompt, prompter Prompter, sink Sink) *turn {
	now := c.host.Clock.Now().UTC()
	t := &turn{chat: c, prompt: p, prompter: prompter, sink: sink, relayed: relayed{redactor: c.host.Redact},
		names: newStepNames(c.record.Turns),
		record: &Turn{Number: len(c.record.Turns) + 1, State: TurnRunning, Started: now, Prompt: c.host.Redact.Text(p.Text),
			Inputs: []Upload{}, Steps: []provider.Step{}, Outputs: []Output{}, Missing: []string{}, Notices: []string{},
			Decisions: []Decision{}, Receipts: []*workspace.Receipt{}}}
	if c.record.Title == "" {
		c.record.Title = title(t.record.Prompt)
	}
	c.record.Turns = append(c.record.Turns, t.record)
	c.mu.Lock()
	c.notify = t.emit
	c.mu.Unlock()
	return t
}

// title returns the beginning of a prompt, in one line.
func title(prompt string) string {
	line := strings.Join(strings.Fields(prompt), " ")
	if runes := []rune(line); len(runes) > 80 {
		line = string(runes[:79]) + "…"
	}
	return line
}

func (c *Chat) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify = nil
}

// repeated emits a notice about a call that is retried.
func (c *Chat) repeated(err error, wait time.Duration) {
	c.mu.Lock()
	notify := c.notify
	c.mu.Unlock()
	if notify != nil {
		notify(Notice{Text: fmt.Sprintf("%v: trying again in %v", err, wait.Round(100*time.Millisecond))})
	}
}

// remember restores the state of a conversation from its record.
func (c *Chat) remember(ctx context.Context, sameProvider bool) {
	c.kept, c.before = true, len(c.record.Turns)
	alive := sameProvider && c.record.Session.ID != ""
	c.sameProvider = sameProvider
	if !alive {
		c.resume(ctx)
	}
	for _, t := range c.record.Turns {
		if t.State == TurnRunning { // its process has ended
			t.State = TurnInterrupted
		}
		for _, x := range t.Exchange {
			if !alive { // its ids name objects that were deleted
				x.Raw, x.Files = nil, nil
			}
			c.history = append(c.history, x)
		}
		for _, in := range t.Inputs {
			if !alive || in.SHA256 == "" || in.Remote.ID == "" {
				continue
			}
			if f, err := c.host.reopen(ctx, c.record.Owner, in); err == nil {
				f.Name = in.Name
				c.sources[in.Remote.ID] = sent{f.Source, in.SHA256}
			}
		}
	}
	if alive {
		c.rememberOutputs()
	}
	switch {
	case alive && c.Provider.Name() == provider.Local:
		// Its sessions end with their process. The service still has their files.
		c.tracker.Resume(provider.Session{}, c.record.Staged)
	case alive:
		c.tracker.Resume(c.record.Session, c.record.Staged)
	}
}

// rememberOutputs registers outputs in quarantine as sources of files that the provider
// may have lost.
func (c *Chat) rememberOutputs() {
	for _, t := range c.record.Turns {
		for _, o := range t.Outputs {
			if o.SHA256 == "" || o.Remote.ID == "" {
				continue
			}
			c.sources[o.Remote.ID] = sent{c.host.heldFile(o.Name, o.MIME, o.Size, o.SHA256).Source, o.SHA256}
		}
	}
}

// KeepAlive keeps the session alive between turns until the context ends, for an hour at
// most.
func (c *Chat) KeepAlive(ctx context.Context) {
	if err := c.tracker.KeepAlive(ctx, time.Hour); err != nil && ctx.Err() == nil {
		c.host.Log.Debug("the session was not kept alive", "err", err)
	}
}

// cleanTime is how long a clean-up may take.
const cleanTime = 30 * time.Second

// Close ends the conversation. It deletes the objects at the provider, unless the settings
// keep them, even if the context has ended. No turn may be in progress.
func (c *Chat) Close(ctx context.Context, sink Sink) (*Cleaned, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	c.asking.Lock() // and never unlock
	done := &Cleaned{At: c.host.Clock.Now().UTC()}
	var failed error
	if c.ledger != nil {
		failed = c.clean(ctx, done)
	}
	if c.kept {
		c.record.Cleaned = done
		c.record.Session, c.record.Staged = provider.Session{}, nil
		if c.record.Settings.Keep && c.ledger != nil {
			c.record.Session, c.record.Staged = c.tracker.Session(), c.staying()
		}
		failed = errors.Join(failed, c.host.PutConversation(ctx, c.record))
	}
	if sink != nil {
		sink(CleanedUp{*done})
	}
	return done, errors.Join(failed, c.release(), closeBackend(c.Backend))
}

func (c *Chat) clean(ctx context.Context, done *Cleaned) error {
	for _, r := range c.missed {
		kind, id := provider.EntrySession, r.Session
		switch {
		case r.Scope == provider.ScopeFile:
			kind, id = provider.EntryFile, r.ID
		case r.Session == "":
			kind = provider.EntryRun
		}
		if err := c.ledger.Unfetched(ctx, kind, id); err != nil {
			return errors.Join(err, c.ledger.Close()) // without the mark a clean-up would delete it
		}
	}
	swept, err := c.ledger.Clean(ctx, c.Provider)
	done.Deleted, done.Kept, done.Others = len(swept.Deleted), len(swept.Kept), swept.Others
	for _, l := range swept.Left {
		if left := fmt.Sprintf("%v: %s", l.Entry, c.host.Redact.Error(l.Err.Error())); !slices.Contains(done.Left, left) {
			done.Left = append(done.Left, left)
		}
	}
	for _, e := range swept.Unfetched {
		done.Left = append(done.Left, c.later(e))
	}
	return errors.Join(err, c.ledger.Close())
}

// unfetched marks a file, or the session that has it, as not to be deleted. The files of
// a turn that the user stopped are not marked.
func (c *Chat) unfetched(ctx context.Context, r provider.FileRef) {
	same := func(m provider.FileRef) bool {
		return m.Scope == r.Scope && m.Session == r.Session && (r.Session != "" || m.ID == r.ID)
	}
	if ctx.Err() == nil && r.Scope != provider.ScopeInline && !slices.ContainsFunc(c.missed, same) {
		c.missed = append(c.missed, r)
	}
}

// later says how files that could not be fetched can be fetched later.
func (c *Chat) later(e provider.Entry) string {
	name := c.Provider.Name()
	switch e.Kind {
	case provider.EntrySession:
		text := fmt.Sprintf("%s, with files that could not be listed or fetched: `airlock provider get --provider %s "+
			"--session %s -o DIR` fetches them", e.ID, name, e.ID)
		if idle := c.Provider.Caps().IdleTTL; idle > 0 {
			text += fmt.Sprintf(" while it lives, %d minutes after its last use", int(idle.Minutes()))
		}
		return text + "; `airlock provider gc` deletes it"
	case provider.EntryFile:
		return fmt.Sprintf("%s (%s), which could not be fetched: `airlock provider get --provider %s %s` fetches it; "+
			"`airlock provider gc` deletes it", e.Name, e.ID, name, e.ID)
	}
	return fmt.Sprintf("files that code may have made: `airlock provider ls --provider %s` lists them, "+
		"`airlock provider get --provider %s ID` fetches one; `airlock provider gc` deletes them", name, name)
}

// staying returns the files with which a kept conversation can be resumed. The local
// sandbox keeps files but no sessions, so the files that code made are among them.
func (c *Chat) staying() []provider.Attachment {
	all := c.tracker.Staged()
	if c.Provider.Name() != provider.Local {
		return all
	}
	made := map[string]provider.FileInfo{} // by name: the last one counts
	for _, t := range c.record.Turns[c.before:] {
		for _, o := range t.Outputs {
			if o.Remote.Scope == provider.ScopeSession {
				made[o.Name] = provider.FileInfo{Ref: provider.FileRef{Provider: o.Remote.Provider, Scope: provider.ScopeFile,
					ID: o.Remote.ID},
					Name: o.Name, MIME: o.MIME, Size: o.Size, Readable: true, State: provider.StateReady, SHA256: o.SHA256}
			}
		}
	}
	all = slices.DeleteFunc(all, func(a provider.Attachment) bool { _, replaced := made[a.File.Name]; return replaced })
	for _, name := range slices.Sorted(maps.Keys(made)) {
		all = append(all, provider.Attachment{File: made[name]})
	}
	return all
}

// ModelDestination returns where a prompt goes; "": the model is on this machine.
func (c *Chat) ModelDestination() string { return cmp.Or(c.Shown, c.Destination) }

// ephemeralUploads caches the uploads of one conversation, which are deleted at its end,
// in front of the uploads that earlier conversations kept.
type ephemeralUploads struct {
	kept provider.UploadStore

	mu   sync.Mutex
	list []provider.CachedUpload
}

// Uploads implements provider.UploadStore.
func (u *ephemeralUploads) Uploads(
	ctx context.Context, key provider.UploadKey,
) (found []provider.CachedUpload, err error) {
	u.mu.Lock()
	for _, c := range u.list {
		if c.Key == key {
			found = append(found, c)
		}
	}
	u.mu.Unlock()
	kept, err := u.kept.Uploads(ctx, key)
	return append(found, kept...), err
}

// PutUpload implements provider.UploadStore.
func (u *ephemeralUploads) PutUpload(_ context.Context, c provider.CachedUpload) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, c)
	return nil
}

// RemoveUpload implements provider.UploadStore.
func (u *ephemeralUploads) RemoveUpload(ctx context.Context, key provider.UploadKey, id string) error {
	u.mu.Lock()
	before := len(u.list)
	u.list = slices.DeleteFunc(u.list, func(c provider.CachedUpload) bool { return c.Key == key && c.File.Ref.ID == id })
	removed := len(u.list) < before
	u.mu.Unlock()
	if removed {
		return nil
	}
	return u.kept.RemoveUpload(ctx, key, id)
}
