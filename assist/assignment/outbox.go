package assignment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Store keeps lanes. Its methods may be called from many goroutines, and by
// many processes. Package assist/store has one; [Memory] is one of a single process.
type Store interface {
	// Change loads a lane, an empty one if nothing is known of it, lets do
	// change it, and saves it, while no other caller changes it. If do fails
	// nothing is saved. What it saved survives a loss of power.
	Change(ctx context.Context, id LaneID, do func(*Lane) error) error
	// Load returns lanes as they are, in the order of their ids.
	Load(ctx context.Context, q Query) ([]Lane, error)
}

// Query says which lanes to load. Empty fields mean all.
type Query struct {
	API, Project string
	// Waiting leaves out lanes without a post that waits; see Lane.Waiting.
	Waiting bool
}

// Outbox has the operations of people and programs on the posts in a store.
type Outbox struct {
	store Store
}

// noStore is the store of a caller that has left it out.
type noStore struct{}

var errNoStore = errors.New("there is no Store for the posts: it is nil")

func (noStore) Change(context.Context, LaneID, func(*Lane) error) error { return errNoStore }
func (noStore) Load(context.Context, Query) ([]Lane, error)             { return nil, errNoStore }

// NewOutbox returns an outbox over a store.
func NewOutbox(store Store) *Outbox { return &Outbox{cmp.Or[Store](store, noStore{})} }

// Add queues the posts of a batch.
func (o *Outbox) Add(ctx context.Context, b Batch) ([]Entry, error) {
	return o.add(ctx, b, nil)
}

var errLookedAt = errors.New("only looked at")

// Preview returns what Add would return, and changes nothing.
func (o *Outbox) Preview(ctx context.Context, b Batch) ([]Entry, error) {
	return o.add(ctx, b, errLookedAt)
}

func (o *Outbox) add(ctx context.Context, b Batch, after error) ([]Entry, error) {
	var entries []Entry
	for _, lane := range b.Lanes() {
		err := o.store.Change(ctx, lane, func(l *Lane) error {
			entries = append(entries, l.Add(b.In(lane), time.Now())...)
			return after
		})
		if err != nil && !errors.Is(err, errLookedAt) {
			return entries, fmt.Errorf("queue the posts of %s: %w", lane.Assignment, err)
		}
	}
	return entries, nil
}

// Lanes returns the lanes of a project, or of all.
func (o *Outbox) Lanes(ctx context.Context, q Query) ([]Lane, error) { return o.store.Load(ctx, q) }

// Retry makes a post due now that waits for its next attempt or is a dead letter. An
// empty id means all such posts.
func (o *Outbox) Retry(ctx context.Context, id string) error {
	if id != "" {
		return o.withPost(ctx, id, func(l *Lane, id string) error { return l.RetryNow(id, time.Now()) })
	}
	lanes, err := o.store.Load(ctx, Query{})
	if err != nil {
		return err
	}
	for _, lane := range lanes {
		if !slices.ContainsFunc(lane.Posts, func(p Post) bool { return p.State == Pending || p.State == DeadLetter }) {
			continue
		}
		err := o.store.Change(ctx, lane.LaneID, func(l *Lane) error {
			for _, p := range l.Posts {
				if p.State == Pending || p.State == DeadLetter {
					if err := l.RetryNow(p.ID, time.Now()); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Confirm releases a held post.
func (o *Outbox) Confirm(ctx context.Context, id string) error {
	return o.withPost(ctx, id, func(l *Lane, id string) error { return l.Confirm(id, time.Now()) })
}

// Drop marks a post as not to be sent.
func (o *Outbox) Drop(ctx context.Context, id string) error {
	return o.withPost(ctx, id, func(l *Lane, id string) error { return l.Drop(id, time.Now()) })
}

// withPost finds the post whose id begins with the given text, and changes its
// lane.
func (o *Outbox) withPost(ctx context.Context, id string, do func(l *Lane, id string) error) error {
	lanes, err := o.store.Load(ctx, Query{})
	if err != nil {
		return err
	}
	var found []Post
	for _, lane := range lanes {
		for _, p := range lane.Posts {
			if id != "" && strings.HasPrefix(p.ID, strings.ToLower(id)) {
				found = append(found, p)
			}
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("%q: %w", id, ErrNotFound)
	case 1:
		return o.store.Change(ctx, found[0].LaneID, func(l *Lane) error { return do(l, found[0].ID) })
	}
	return fmt.Errorf("%q begins the id of %d posts: write more of it", id, len(found))
}

// Post returns the post whose id begins with the given text.
func (o *Outbox) Post(ctx context.Context, id string) (p Post, err error) {
	err = o.withPost(ctx, id, func(l *Lane, id string) error {
		p = *l.Post(id)
		return errLookedAt
	})
	if errors.Is(err, errLookedAt) {
		err = nil
	}
	return p, err
}

// Escalation returns the escalation with the id.
func (o *Outbox) Escalation(ctx context.Context, id string) (Escalation, error) {
	lanes, err := o.store.Load(ctx, Query{})
	if err != nil {
		return Escalation{}, err
	}
	for i := range lanes {
		if e := lanes[i].Escalation(id); e != nil {
			return *e, nil
		}
	}
	return Escalation{}, fmt.Errorf("escalation %q: %w", id, ErrNotFound)
}

// Answer resolves an escalation, posts the decision, and releases the submissions that
// waited for it. The first answer counts; later ones get an *AnsweredError.
func (o *Outbox) Answer(ctx context.Context, id string, a Answer) (Escalation, error) {
	e, err := o.Escalation(ctx, id)
	if err != nil {
		return e, err
	}
	a.Choice, a.Posted, a.Told = e.Pick(a.Choice), false, false
	if a.Verdict == Chosen && a.Choice == "" {
		return e, errors.New("an answer needs a choice")
	}
	err = o.store.Change(ctx, e.LaneID, func(l *Lane) error {
		err := l.Answered(id, a, time.Now())
		if err == nil {
			e = *l.Escalation(id)
		}
		return err
	})
	return e, err
}

// Decisions returns the escalations of a project for the next prompt: those that are
// open, and those whose answer no prompt has told. If told is set, the answers are
// not returned again.
func (o *Outbox) Decisions(ctx context.Context, q Query, told bool) ([]Escalation, error) {
	lanes, err := o.store.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	var all []Escalation
	for _, lane := range lanes {
		fresh := false
		for _, e := range lane.Escalations {
			if e.Answer == nil || !e.Answer.Told {
				all = append(all, e)
				fresh = fresh || e.Answer != nil
			}
		}
		if !fresh || !told {
			continue
		}
		err := o.store.Change(ctx, lane.LaneID, func(l *Lane) error {
			for i := range l.Escalations {
				if a := l.Escalations[i].Answer; a != nil {
					a.Told = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
