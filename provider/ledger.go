package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// EntryKind is what an entry of the ledger stands for.
type EntryKind string

// What is made at providers.
const (
	EntryFile    EntryKind = "file"
	EntrySession EntryKind = "session"
	// EntryRun is a turn whose code may have put files into the account's store,
	// where only the reply names them: it is kept when the reply got lost.
	EntryRun EntryKind = "run"
)

// Entry is an object of Airlock at a provider: about to be made while ID is empty,
// made once it is not.
type Entry struct {
	Key          string    `json:"key"`
	Holder       string    `json:"holder"` // the process that looks after it
	Conversation string    `json:"conversation,omitempty"`
	Provider     string    `json:"provider"`
	Account      string    `json:"account"`
	Kind         EntryKind `json:"kind"`
	Name         string    `json:"name"` // at the provider
	Size         int64     `json:"size"`
	ID           string    `json:"id,omitempty"`
	Created      time.Time `json:"created"`
	// Ended is when the attempt to make it was over, known or not; zero after a
	// crash.
	Ended time.Time `json:"ended,omitzero"`
	Keep  bool      `json:"keep,omitempty"` // the person wants it to stay
	// Unfetched says that it holds, or may hold, outputs that could not be fetched:
	// a clean-up deletes it only when the person asked for one, or a day later.
	Unfetched bool `json:"unfetched,omitempty"`
	// Names are those that the code of an EntryRun may have written.
	Names []string `json:"names,omitempty"`
}

// String says to a person what an entry stands for.
func (e Entry) String() string {
	if e.Kind == EntryRun {
		return "what a turn whose reply got lost may have made"
	}
	return string(e.Kind) + " " + e.Name
}

// LedgerStore keeps entries. What a method has written is on disk when it
// returns. Many processes use one store.
type LedgerStore interface {
	Put(ctx context.Context, e Entry) error // a new one, or in the place of the one with its Key
	Remove(ctx context.Context, key string) error
	Entries(ctx context.Context) ([]Entry, error)
	// MarkAlive marks a holder as alive until release or the end of the process.
	MarkAlive(ctx context.Context, holder string) (release func() error, err error)
	Alive(ctx context.Context, holder string) (bool, error)
}

// Ledger records everything that is made at providers before it is made, and
// deletes it in the end.
type Ledger struct {
	store        LedgerStore
	clock        Clock
	retry        Retry
	conversation string
	holder       string
	release      func() error

	mu    sync.Mutex
	keep  bool
	names []string // that code of this conversation speaks of
}

// newKey is a prefix and 26 random letters and digits.
func newKey(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// OpenLedger begins the ledger of a conversation. Whoever opens it closes it.
func OpenLedger(ctx context.Context, store LedgerStore, conversation string, retry Retry) (*Ledger, error) {
	l := &Ledger{store: store, retry: retry, clock: retry.filled().Clock, conversation: conversation,
		holder: newKey("h-")}
	var err error
	l.release, err = store.MarkAlive(ctx, l.holder)
	return l, err
}

// Close gives the entries up: what is left of them is for the next [Sweep].
func (l *Ledger) Close() error { return l.release() }

// KeepAll marks everything that was and will be made in this conversation as to
// be kept.
func (l *Ledger) KeepAll(ctx context.Context) error {
	l.mu.Lock()
	l.keep = true
	l.mu.Unlock()
	return l.each(ctx, func(e Entry) error {
		e.Keep = true
		return l.store.Put(ctx, e)
	})
}

// Keep marks one remote file or session as to be kept.
func (l *Ledger) Keep(ctx context.Context, kind EntryKind, id string) error {
	return l.mark(ctx, kind, id, func(e *Entry) { e.Keep = true })
}

// Unfetched marks what may hold outputs that could not be fetched: a session, a
// file, or, as EntryRun with an empty id, the account's files.
func (l *Ledger) Unfetched(ctx context.Context, kind EntryKind, id string) error {
	return l.mark(ctx, kind, id, func(e *Entry) { e.Unfetched = true })
}

func (l *Ledger) mark(ctx context.Context, kind EntryKind, id string, change func(*Entry)) error {
	return l.each(ctx, func(e Entry) error {
		if e.Kind != kind || e.ID != id {
			return nil
		}
		change(&e)
		return l.store.Put(ctx, e)
	})
}

func (l *Ledger) each(ctx context.Context, do func(Entry) error) error {
	entries, err := l.store.Entries(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Holder != l.holder {
			continue
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// recordIntent writes an entry before the remote object is created.
func (l *Ledger) recordIntent(ctx context.Context, p Provider, kind EntryKind, name string, size int64) (Entry, error) {
	l.mu.Lock()
	keep := l.keep
	l.mu.Unlock()
	e := Entry{Key: newKey("airlock-"), Holder: l.holder, Conversation: l.conversation, Provider: p.Name(),
		Account: p.Account(),
		Kind:    kind, Name: name, Size: size, Created: l.clock.Now().UTC(), Keep: keep}
	if kind == EntrySession {
		e.Name = e.Key // unique, so that it can be found by its name
	}
	if err := l.store.Put(ctx, e); err != nil {
		return e, fmt.Errorf("nothing was sent to %s, for it could not be written down and would be left there: %w", p.Name(),
			err)
	}
	return e, nil
}

// recordResult records how a request ended, even after the caller has left: the
// provider was asked.
func (l *Ledger) recordResult(ctx context.Context, e Entry, id string, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if failure != nil && id == "" && !unsure(failure) {
		return l.store.Remove(ctx, e.Key)
	}
	e.ID, e.Ended = id, l.clock.Now().UTC()
	return l.store.Put(ctx, e)
}

// unsure reports whether a failed request may have made something.
func unsure(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Ambiguous || e.Status >= 500 || e.Status/100 == 2
}

// Swept is what a clean-up did.
type Swept struct {
	Deleted []Entry
	Kept    []Entry     // because they are marked so
	Left    []Undeleted // could not be deleted: tried again by the next one
	// Unfetched may hold outputs that are nowhere else, and stay for now.
	Unfetched []Entry
	// Others were made while a turn of ours ran whose reply got lost, and have names
	// that its code does not speak of. They may be somebody else's, and stay.
	Others []FileInfo
}

// Undeleted is an entry that a clean-up could not delete.
type Undeleted struct {
	Entry Entry
	Err   error
}

// Clean deletes everything of this conversation that is not to be kept. Call it
// with a context that the person's leaving does not cancel.
func (l *Ledger) Clean(ctx context.Context, providers ...Provider) (Swept, error) {
	return sweep(ctx, l.store, l.retry, providers, func(e Entry) bool { return e.Holder == l.holder },
		func(e Entry) bool { return e.Unfetched })
}

// unfetchedTime is how long a [Sweep] leaves what may hold outputs that could not
// be fetched. Most sessions end by themselves long before.
const unfetchedTime = 24 * time.Hour

// Sweep deletes what processes left behind that are no more. Entries of accounts
// that are not among the providers stay for a time when they are, and what may
// hold outputs that could not be fetched stays for a day.
func Sweep(ctx context.Context, store LedgerStore, retry Retry, providers ...Provider) (Swept, error) {
	now := retry.filled().Clock.Now()
	return sweepGone(ctx, store, retry, providers, func(e Entry) bool {
		return e.Unfetched && now.Sub(e.Created) < unfetchedTime
	})
}

// SweepAll is Sweep for a person who asked for it: it also deletes what may hold
// outputs that could not be fetched.
func SweepAll(ctx context.Context, store LedgerStore, retry Retry, providers ...Provider) (Swept, error) {
	return sweepGone(ctx, store, retry, providers, func(Entry) bool { return false })
}

func sweepGone(
	ctx context.Context, store LedgerStore, retry Retry, providers []Provider, spare func(Entry) bool,
) (Swept, error) {
	gone, unknown := deadHolders(ctx, store)
	s, err := sweep(ctx, store, retry, providers, func(e Entry) bool { return gone[e.Holder] }, spare)
	return s, errors.Join(err, unknown)
}

// deadHolders returns the holders of entries that are not alive. Their entries are read
// only after this: until its end a holder may have marked one as to be kept. A holder
// whose state is not known keeps its entries.
func deadHolders(ctx context.Context, store LedgerStore) (map[string]bool, error) {
	entries, err := store.Entries(ctx)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	var failed error
	for _, e := range entries {
		if _, asked := gone[e.Holder]; asked {
			continue
		}
		held, err := store.Alive(ctx, e.Holder)
		gone[e.Holder], failed = err == nil && !held, errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return gone, failed
}

func sweep(
	ctx context.Context, store LedgerStore, retry Retry, providers []Provider, ours, spare func(Entry) bool,
) (s Swept, err error) {
	entries, err := store.Entries(ctx)
	if err != nil {
		return s, err
	}
	known := map[string]bool{} // ids that have an entry are nobody's leftovers
	for _, e := range entries {
		known[e.Account+" "+e.ID] = true
	}
	// Sessions first: a file may be in use as long as its session lives.
	for _, kind := range []EntryKind{EntrySession, EntryFile, EntryRun} {
		for _, e := range entries {
			p := providerOf(providers, e)
			if e.Kind != kind || !ours(e) || p == nil {
				continue
			}
			if e.Keep && kind != EntryRun {
				s.Kept = append(s.Kept, e)
				continue
			}
			if spare(e) {
				s.Unfetched = append(s.Unfetched, e)
				continue
			}
			if kind == EntryRun {
				err = s.afterRun(ctx, p, retry, e, known)
			} else if err = remove(ctx, p, retry, &e, known); err == nil {
				s.Deleted = append(s.Deleted, e)
			}
			if err != nil {
				s.Left = append(s.Left, Undeleted{e, err})
				if ctx.Err() != nil {
					return s, ctx.Err()
				}
				continue
			}
			if err := store.Remove(ctx, e.Key); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

func providerOf(all []Provider, e Entry) Provider {
	for _, p := range all {
		if p.Name() == e.Provider && p.Account() == e.Account {
			return p
		}
	}
	return nil
}

// remove deletes what an entry stands for. One without an id is looked for first.
func remove(ctx context.Context, p Provider, retry Retry, e *Entry, known map[string]bool) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		if e.ID == "" {
			id, err := lookFor(ctx, p, *e, known)
			if err != nil || id == "" {
				return err // nothing was made
			}
			e.ID = id
			known[e.Account+" "+id] = true
		}
		if e.Kind == EntrySession {
			return p.Sessions().Delete(ctx, e.ID)
		}
		return p.Files().Delete(ctx, FileRef{Provider: p.Name(), Scope: ScopeFile, ID: e.ID})
	})
}

// maxClockSkew bounds the difference between a provider's clock and this machine's, and
// the time from a request to the creation of its object.
const maxClockSkew = 2 * time.Minute

// maxTurn is longer than a turn lasts of which only the beginning is known.
const maxTurn = time.Hour

// lookFor finds what was made by a request whose answer was never seen: a session
// by its name, which is unique; a file by name, size and time, and only one that
// no entry knows. At most one is taken for each entry.
func lookFor(ctx context.Context, p Provider, e Entry, known map[string]bool) (string, error) {
	if e.Kind == EntrySession {
		for s, err := range p.Sessions().List(ctx, Filter{Name: e.Name}) {
			if err != nil {
				return "", err
			}
			if s.Name == e.Name {
				return s.ID, nil
			}
		}
		return "", nil
	}
	end := e.Ended
	if end.IsZero() {
		end = e.Created.Add(time.Hour) // it crashed while sending
	}
	// The nearest in time: of several attempts with one file each finds its own.
	best, distance := "", time.Duration(0)
	for f, err := range p.Files().List(ctx, Filter{Name: e.Name, CreatedAfter: e.Created.Add(-maxClockSkew)}) {
		if err != nil {
			return "", err
		}
		if f.Name != e.Name || e.Size >= 0 && f.Size != e.Size || known[e.Account+" "+f.Ref.ID] ||
			f.Created.Before(e.Created.Add(-maxClockSkew)) || f.Created.After(end.Add(maxClockSkew)) {
			continue
		}
		if d := f.Created.Sub(e.Created.Truncate(time.Second)).Abs(); best == "" || d < distance {
			best, distance = f.Ref.ID, d
		}
	}
	return best, nil
}
