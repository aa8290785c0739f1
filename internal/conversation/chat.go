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

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

// Chat is a conversation with a model that is in progress in this process. One
// turn at a time; Close ends it.
type Chat struct {
	host    *Host
	record  *Conversation
	backend *Backend
	uploads *passingUploads
	noted   provider.Provider // recorded; for what has its own retries
	whole   provider.Provider // recorded and retried
	rule    provider.Retry
	ledger  *provider.Ledger // nil: there is nothing to clean up
	tracker *provider.Tracker
	kept    bool         // the archive knows the conversation
	before  int          // turns of earlier processes
	release func() error // of the hold on the conversation

	asking sync.Mutex // held by a turn

	history      []provider.Turn       // what the model has been told and has said
	carry        []provider.Attachment // files of a turn that failed: the next one brings them
	resend       []File                // inputs of before a clean-up
	lost         []Upload              // of those, what is not here any more
	sameProvider bool                  // as in earlier processes
	missed       []provider.FileRef    // what may hold outputs that could not be fetched

	mu      sync.Mutex
	sources map[string]sent // by remote id
	notify  func(Event)     // of the turn that is going on; nil: none is
}

// ID is the conversation's.
func (c *Chat) ID() string { return c.record.ID }

// Settings are the conversation's.
func (c *Chat) Settings() Settings { return c.record.Settings }

// Prompt is what a turn begins with.
type Prompt struct {
	Text  string
	Files []File
	// SkipFailed continues without files that cannot be sent, unasked.
	SkipFailed bool
	// Schema is the JSON schema of the answer; empty: free text.
	Schema json.RawMessage
	// Folder is where outputs may be saved; empty: nobody is asked, and they
	// are held here.
	Folder string
	// Expect says that files are expected: a turn whose answer promises one that does
	// not exist fails.
	Expect bool
	// Browse is the folder of which the model may ask for files; empty: it
	// may not.
	Browse string
}

// Check finds out before a token is spent whether a prompt could go: the key,
// the model, the tool, the provider's limits. Nothing is sent.
func (c *Chat) Check(ctx context.Context, p Prompt) error {
	if err := c.checkTool(p); err != nil {
		return err
	}
	if err := c.whole.Check(ctx, c.record.Settings.Model); err != nil {
		return err
	}
	for _, err := range c.backend.Provider.Caps().Limits.Check(c.record.Settings.Provider, wishes(p.Files)) {
		return err
	}
	return nil
}

// checkTool finds what this provider cannot do at all.
func (c *Chat) checkTool(p Prompt) error {
	caps, s := c.backend.Provider.Caps(), c.record.Settings
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

// Turn has one turn. The person is asked on the way, and the sink is told what
// happens. The turn is there whenever it has begun, whatever the error: it has
// all that was seen of it, and is kept.
//
// When the context ends the turn does too; what it made at the provider is
// deleted by Close.
func (c *Chat) Turn(ctx context.Context, p Prompt, person Prompter, sink Sink) (*Turn, error) {
	if !c.asking.TryLock() {
		return nil, ErrTurn
	}
	defer c.asking.Unlock()
	t := c.newTurn(p, person, sink)
	defer c.silence()
	t.emit(Begun{Conversation: c.record.ID, Turn: t.record.Number, Provider: c.record.Settings.Provider,
		Model: c.record.Settings.Model, Prompt: t.record.Prompt})
	err := t.keep(ctx)
	if err == nil {
		err = t.run(ctx)
	}
	return t.record, t.end(ctx, err)
}

func (c *Chat) newTurn(p Prompt, person Prompter, sink Sink) *turn {
	now := c.host.Clock.Now().UTC()
	t := &turn{chat: c, prompt: p, person: person, sink: sink, relayed: relayed{redactor: c.host.Redact},
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

// title is the beginning of a prompt, in one line.
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

// repeated tells of a call that is tried again.
func (c *Chat) repeated(err error, wait time.Duration) {
	c.mu.Lock()
	notify := c.notify
	c.mu.Unlock()
	if notify != nil {
		notify(Notice{Text: fmt.Sprintf("%v: trying again in %v", err, wait.Round(100*time.Millisecond))})
	}
}

// remember takes up what was said before.
func (c *Chat) remember(ctx context.Context, sameProvider bool) {
	c.kept, c.before = true, len(c.record.Turns)
	alive := sameProvider && c.record.Session.ID != ""
	c.sameProvider = sameProvider
	if !alive {
		c.resume(ctx)
	}
	for _, t := range c.record.Turns {
		if t.State == TurnRunning { // its process is no more
			t.State = TurnInterrupted
		}
		for _, x := range t.Exchange {
			if !alive { // ids in it name what was deleted
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
	case alive && c.backend.Provider.Name() == provider.Local:
		// Its sessions end with their process. All files of this one are here.
		c.tracker.Resume(provider.Session{}, c.record.Staged)
	case alive:
		c.tracker.Resume(c.record.Session, c.record.Staged)
	}
}

// rememberOutputs makes outputs that are held here a source of what the provider
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

// KeepAlive keeps the session alive while the person thinks, for an hour at
// most, until the context ends.
func (c *Chat) KeepAlive(ctx context.Context) {
	if err := c.tracker.KeepAlive(ctx, time.Hour); err != nil && ctx.Err() == nil {
		c.host.Log.Debug("the session was not kept alive", "err", err)
	}
}

// cleanTime is how long a clean-up may take.
const cleanTime = 30 * time.Second

// Close ends the conversation: what was made at the provider is deleted unless
// it is to be kept, whether or not the context has ended. A turn must not be
// in progress.
func (c *Chat) Close(ctx context.Context, sink Sink) (*Cleaned, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	c.asking.Lock() // for good
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
		failed = errors.Join(failed, c.host.Archive.PutConversation(ctx, c.record))
	}
	if sink != nil {
		sink(CleanedUp{*done})
	}
	return done, errors.Join(failed, c.release(), closeBackend(c.backend))
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
			return errors.Join(err, c.ledger.Close()) // nothing is deleted that could not be spared
		}
	}
	swept, err := c.ledger.Clean(ctx, c.backend.Provider)
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

// unfetched notes that what a file is in, or the file itself, is not to be
// deleted. Whoever leaves in the middle of a turn does without its files.
func (c *Chat) unfetched(ctx context.Context, r provider.FileRef) {
	same := func(m provider.FileRef) bool {
		return m.Scope == r.Scope && m.Session == r.Session && (r.Session != "" || m.ID == r.ID)
	}
	if ctx.Err() == nil && r.Scope != provider.ScopeInline && !slices.ContainsFunc(c.missed, same) {
		c.missed = append(c.missed, r)
	}
}

// later says how what could not be fetched is fetched later.
func (c *Chat) later(e provider.Entry) string {
	name := c.backend.Provider.Name()
	switch e.Kind {
	case provider.EntrySession:
		text := fmt.Sprintf("%s, with files that could not be listed or fetched: `airlock files get --provider %s "+
			"--session %s -o DIR` fetches them", e.ID, name, e.ID)
		if idle := c.backend.Provider.Caps().IdleTTL; idle > 0 {
			text += fmt.Sprintf(" while it lives, %d minutes after its last use", int(idle.Minutes()))
		}
		return text + "; `airlock files gc` deletes it"
	case provider.EntryFile:
		return fmt.Sprintf("%s (%s), which could not be fetched: `airlock files get --provider %s %s` fetches it; `airlock "+
			"files gc` deletes it", e.Name, e.ID, name, e.ID)
	}
	return fmt.Sprintf("files that code may have made: `airlock files ls --provider %s` lists them, `airlock files get "+
		"--provider %s ID` fetches one; `airlock files gc` deletes them", name, name)
}

// staying are the files with which a kept conversation can be gone on with. The
// sandbox here keeps files and no sessions: what code has made is among them.
func (c *Chat) staying() []provider.Attachment {
	all := c.tracker.Staged()
	if c.backend.Provider.Name() != provider.Local {
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

// Provider is the provider itself, for who sweeps its account.
func (c *Chat) Provider() provider.Provider { return c.backend.Provider }

// Destination is where files go; empty: they stay on this machine.
func (c *Chat) Destination() string { return c.backend.Destination }

// ModelDestination is where a prompt goes; empty: the model is on this machine.
func (c *Chat) ModelDestination() string { return cmp.Or(c.backend.Shown, c.backend.Destination) }

// Ephemeral reports whether all that is made at the provider ends with this
// process.
func (c *Chat) Ephemeral() bool { return c.backend.Ephemeral }
