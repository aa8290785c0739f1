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

// EntryKind is the kind of object of an entry.
type EntryKind string

// The kinds of objects.
const (
	EntryFile    EntryKind = "file"
	EntrySession EntryKind = "session"
	// EntryRun is a turn whose code may have created files in the account's store that
	// only the reply names. It stays if the reply got lost.
	EntryRun EntryKind = "run"
)

// Entry is an object at a provider. It is about to be created while ID is empty.
type Entry struct {
	Key          string    `json:"key"`
	Holder       string    `json:"holder"` // the process that manages it
	Conversation string    `json:"conversation,omitempty"`
	Provider     string    `json:"provider"`
	Account      string    `json:"account"`
	Kind         EntryKind `json:"kind"`
	Name         string    `json:"name"` // at the provider
	Size         int64     `json:"size"`
	ID           string    `json:"id,omitempty"`
	Created      time.Time `json:"created"`
	// Ended is the end of the attempt to create it; zero after a crash.
	Ended time.Time `json:"ended,omitzero"`
	Keep  bool      `json:"keep,omitempty"` // the user wants to keep it
	// Unfetched says that it may hold outputs that could not be fetched. A clean-up
	// deletes it only if the user asked for one, or a day later.
	Unfetched bool `json:"unfetched,omitempty"`
	// Names are those that the code of an EntryRun may have written.
	Names []string `json:"names,omitempty"`
}

// String describes the object to the user.
func (e Entry) String() string {
	if e.Kind == EntryRun {
		return "what a turn whose reply got lost may have made"
	}
	return string(e.Kind) + " " + e.Name
}

// LedgerStore stores entries. Package assist/store has one that many processes use and whose
// entries are on disk when a method returns, so that [Sweep] finds what a crash left; [Memory]
// is one of a single process.
type LedgerStore interface {
	Put(ctx context.Context, e Entry) error       // replaces an entry with the same Key
	Remove(ctx context.Context, key string) error // succeeds if there is none
	Entries(ctx context.Context) ([]Entry, error) // in the order of their keys
	// MarkAlive marks a holder as alive until release or the end of the process.
	MarkAlive(ctx context.Context, holder string) (release func() error, err error)
	Alive(ctx context.Context, holder string) (bool, error)
}

// Ledger records objects before they are created at providers, and deletes them.
type Ledger struct {
	store        LedgerStore
	clock        Clock
	retry        Retry
	conversation string
	holder       string
	release      func() error

	mu    sync.Mutex
	keep  bool
	names []string // that occur in code of this conversation
}

// newKey returns a prefix and 26 random letters and digits.
func newKey(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// OpenLedger opens the ledger of a conversation. The caller closes it.
func OpenLedger(ctx context.Context, store LedgerStore, conversation string, retry Retry) (*Ledger, error) {
	l := &Ledger{store: store, retry: retry, clock: retry.filled().Clock, conversation: conversation,
		holder: newKey("h-")}
	var err error
	l.release, err = store.MarkAlive(ctx, l.holder)
	return l, err
}

// Close releases the entries. The next [Sweep] deletes the remaining objects.
func (l *Ledger) Close() error { return l.release() }

// KeepAll marks all present and future objects of this conversation as kept.
func (l *Ledger) KeepAll(ctx context.Context) error {
	l.mu.Lock()
	l.keep = true
	l.mu.Unlock()
	return l.each(ctx, func(e Entry) error {
		e.Keep = true
		return l.store.Put(ctx, e)
	})
}

// Keep marks a remote file or session as kept.
func (l *Ledger) Keep(ctx context.Context, kind EntryKind, id string) error {
	return l.mark(ctx, kind, id, func(e *Entry) { e.Keep = true })
}

// Unfetched marks an object that may hold outputs that could not be fetched: a session, a
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
		Account: p.Account(), Kind: kind, Name: name, Size: size, Created: l.clock.Now().UTC(), Keep: keep}
	if kind == EntrySession {
		e.Name = e.Key // unique, so that it can be found by its name
	}
	if err := l.store.Put(ctx, e); err != nil {
		return e, fmt.Errorf("nothing was sent to %s, for it could not be written down and would be left there: %w", p.Name(),
			err)
	}
	return e, nil
}

// recordResult records how a request ended, also if ctx has ended: the request was sent.
func (l *Ledger) recordResult(ctx context.Context, e Entry, id string, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if failure != nil && id == "" && !unsure(failure) {
		return l.store.Remove(ctx, e.Key)
	}
	e.ID, e.Ended = id, l.clock.Now().UTC()
	return l.store.Put(ctx, e)
}

// unsure reports whether a failed request may have created an object.
func unsure(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Ambiguous || e.Status >= 500 || e.Status/100 == 2
}

// Swept is the result of a clean-up.
type Swept struct {
	Deleted []Entry
	Kept    []Entry     // marked as kept
	Left    []Undeleted // could not be deleted; the next clean-up tries again
	// Unfetched may hold outputs that were not fetched, and stay for now.
	Unfetched []Entry
	// Others were created during a turn whose reply got lost, and their names do not occur
	// in its code. They may be another program's, and stay.
	Others []FileInfo
}

// Undeleted is an entry that a clean-up could not delete.
type Undeleted struct {
	Entry Entry
	Err   error
}

// Clean deletes all objects of this conversation that are not kept. Call it with a context
// that does not end when the user leaves.
func (l *Ledger) Clean(ctx context.Context, providers ...Provider) (Swept, error) {
	return sweep(ctx, l.store, l.retry, providers, func(e Entry) bool { return e.Holder == l.holder },
		func(e Entry) bool { return e.Unfetched })
}

// unfetchedTime is how long a [Sweep] keeps objects that may hold outputs that could not
// be fetched. Most sessions expire long before.
const unfetchedTime = 24 * time.Hour

// Sweep deletes the objects of processes that have ended. Entries of other accounts than
// the providers' stay, and objects that may hold outputs that could not be fetched stay for
// a day.
func Sweep(ctx context.Context, store LedgerStore, retry Retry, providers ...Provider) (Swept, error) {
	now := retry.filled().Clock.Now()
	return sweepGone(ctx, store, retry, providers, func(e Entry) bool {
		return e.Unfetched && now.Sub(e.Created) < unfetchedTime
	})
}

// SweepAll is a Sweep that the user asked for: it also deletes objects that may hold
// outputs that could not be fetched.
func SweepAll(ctx context.Context, store LedgerStore, retry Retry, providers ...Provider) (Swept, error) {
	return sweepGone(ctx, store, retry, providers, func(Entry) bool { return false })
}

func sweepGone(
	ctx context.Context, store LedgerStore, retry Retry, providers []Provider, excluded func(Entry) bool,
) (Swept, error) {
	gone, unknown := deadHolders(ctx, store)
	s, err := sweep(ctx, store, retry, providers, func(e Entry) bool { return gone[e.Holder] }, excluded)
	return s, errors.Join(err, unknown)
}

// deadHolders returns the holders of entries that are not alive. The caller reads their
// entries after this, since a holder may mark one as kept until its end. A holder of
// unknown state keeps its entries.
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
	ctx context.Context, store LedgerStore, retry Retry, providers []Provider, included, excluded func(Entry) bool,
) (s Swept, err error) {
	entries, err := store.Entries(ctx)
	if err != nil {
		return s, err
	}
	known := map[string]bool{} // ids that have an entry
	for _, e := range entries {
		known[e.Account+" "+e.ID] = true
	}
	// Sessions first: a file may be in use as long as its session lives.
	for _, kind := range []EntryKind{EntrySession, EntryFile, EntryRun} {
		for _, e := range entries {
			p := providerOf(providers, e)
			if e.Kind != kind || !included(e) || p == nil {
				continue
			}
			if e.Keep && kind != EntryRun {
				s.Kept = append(s.Kept, e)
				continue
			}
			if excluded(e) {
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

// remove deletes the object of an entry. It looks for the object if the id is not known.
func remove(ctx context.Context, p Provider, retry Retry, e *Entry, known map[string]bool) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		if e.ID == "" {
			id, err := lookFor(ctx, p, *e, known)
			if err != nil || id == "" {
				return err // nothing was created
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

// maxTurn bounds the length of a turn of which only the beginning is known.
const maxTurn = time.Hour

// lookFor returns the id of the object of a request whose answer got lost: a session by its
// unique name; a file without an entry by name, size and time. It returns at most one for
// each entry.
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
	// The nearest in time: each of several attempts finds its own file.
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
