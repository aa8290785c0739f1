package engine

import (
	"context"
	"iter"
	"sync"
)

// EventLog is a log that readers follow. A writer never waits for them, and each reads at its
// own speed, from any event. The zero value is empty.
type EventLog[E any] struct {
	mu      sync.Mutex
	events  []E           // never changed, only added to
	changed chan struct{} // closed at the next event; nil: no reader waits
	ended   bool
}

// Add adds an event. No event follows the last one.
func (l *EventLog[E]) Add(e E, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.ended = append(l.events, e), last
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// All returns the events so far.
func (l *EventLog[E]) All() []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[:len(l.events):len(l.events)]
}

// since returns the events after the first n, and a channel that closes when there are more;
// nil: there will be none.
func (l *EventLog[E]) since(n int) ([]E, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events[min(n, len(l.events)):len(l.events):len(l.events)]
	if l.changed == nil && !l.ended {
		l.changed = make(chan struct{})
	}
	return events, l.changed
}

// Watch yields the events after the first n, up to the last or the end of ctx. It waits for
// events that have not happened yet.
func (l *EventLog[E]) Watch(ctx context.Context, n int) iter.Seq[E] {
	return func(yield func(E) bool) {
		for seen := max(n, 0); ; {
			events, changed := l.since(seen)
			for _, e := range events {
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
			if changed == nil {
				return
			}
			seen += len(events)
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
