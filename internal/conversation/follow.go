package conversation

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/airlock-run/airlock/provider"
)

// tell is the sink of a turn. A question waits from the moment on in which
// the user can see it.
func (c *liveChat) tell(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked, ok := e.(Asked); ok {
		c.waiting = append(c.waiting, &waiting{asked.Ask, make(chan Answer, 1)})
	}
	c.last++
	if n := len(c.events); n > 0 { // text that nobody has read yet comes in one
		more, isText := e.(provider.TextDelta)
		before, wasText := c.events[n-1].Event.(provider.TextDelta)
		if isText && wasText && len(before.Text) < 4096 && len(c.events) >= mostEvents/2 {
			c.events[n-1] = Numbered{c.last, provider.TextDelta{Text: before.Text + more.Text}}
			e = nil
		}
	}
	if e != nil {
		c.events = append(c.events, Numbered{c.last, e})
	}
	if extra := len(c.events) - mostEvents; extra > 0 {
		c.events = slices.Delete(c.events, 0, extra)
	}
	close(c.news)
	c.news = make(chan struct{})
}

// Follow gives the events after a number, those that there are and then those
// that come, until the conversation is closed or the context ends. Between
// them, when nothing happens for as long as beat, comes a Numbered without an
// event, so that whoever writes to a connection learns that it is gone; 0:
// never. A first number above after+1 says that events between have been
// dropped: the record of the conversation has what they told.
func (l *Live) Follow(
	ctx context.Context, owner, id string, after int64, beat time.Duration,
) (iter.Seq[Numbered], error) {
	c, err := l.find(owner, id)
	if err != nil {
		return nil, err
	}
	return func(yield func(Numbered) bool) {
		for {
			events, more := c.since(after)
			for _, e := range events {
				if !yield(e) {
					return
				}
				after = e.ID
			}
			if more == nil {
				return
			}
			var beats <-chan time.Time
			timer := time.NewTimer(beat)
			if beat > 0 {
				beats = timer.C
			}
			select {
			case <-more:
			case <-beats:
				if !yield(Numbered{}) {
					timer.Stop()
					return
				}
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
		}
	}, nil
}

// since returns the events after a number, and what is closed when there are
// more; nil: there will be none.
func (c *liveChat) since(after int64) ([]Numbered, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, _ := slices.BinarySearchFunc(c.events, after+1, func(n Numbered, id int64) int { return int(n.ID - id) })
	if c.closed {
		return slices.Clone(c.events[at:]), nil
	}
	return slices.Clone(c.events[at:]), c.news
}
