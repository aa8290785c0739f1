package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// AddContacts records what programs contacted.
func (x *Index) AddContacts(ctx context.Context, list []engine.Contact) error {
	if err := x.called(ctx, "AddContacts"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	x.contacts = append(x.contacts, list...)
	return nil
}

// Contacts returns what programs contacted, newest first.
func (x *Index) Contacts(ctx context.Context, q engine.ContactQuery) (list []engine.Contact, err error) {
	if err := x.called(ctx, "Contacts"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	for _, c := range slices.Backward(x.contacts) {
		if (q.Owner == "" || c.Owner == q.Owner) && (q.Run.IsZero() || c.Run == q.Run) && len(list) < q.Limit {
			list = append(list, c)
		}
	}
	return list, nil
}

// ExpireContacts deletes those from before a time.
func (x *Index) ExpireContacts(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := x.called(ctx, "ExpireContacts"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	n := 0
	x.contacts = slices.DeleteFunc(x.contacts, func(c engine.Contact) bool {
		old := n < limit && c.At.Before(before)
		if old {
			n++
		}
		return old
	})
	return n, nil
}
