package conversation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

// Live runs conversations whose users connect and disconnect, such as users of the page. A
// turn runs in the background. Any number of callers follow its events, each from its last
// number, and answer its questions by their ids.
type Live struct {
	Host *Host
	idle time.Duration // a conversation without a turn for so long is closed

	mu    sync.Mutex
	chats map[string]*liveChat
	done  bool
	group sync.WaitGroup
}

// liveChat is a conversation in progress.
type liveChat struct {
	chat  *Chat
	owner string

	mu      sync.Mutex
	events  []Numbered
	last    int64
	news    chan struct{} // closed at each event
	waiting []*waiting
	stop    context.CancelFunc // of the turn that runs; nil: none does
	ended   chan struct{}      // closed at its end
	used    time.Time
	closing bool // no more turns
	closed  bool // no more events
}

// waiting is a question whose turn has not received an answer.
type waiting struct {
	ask      Ask
	answer   chan Answer // with room for one
	answered bool
}

func (w *waiting) open() bool { return !w.answered }

// Numbered is an event with its number in the conversation, from 1.
type Numbered struct {
	ID    int64
	Event Event
}

// mostEvents bounds the events that a conversation holds. The oldest are dropped; the
// records of the turns have what matters of them.
const mostEvents = 20_000

// ErrAnswered is returned for a question that does not wait for an answer.
var ErrAnswered = errors.New("no such question waits for an answer")

// NewLive returns a Live, which the caller shuts down. A conversation is closed, and
// cleaned up at the provider, when it has been idle for so long; 0: half an hour.
func NewLive(h *Host, idle time.Duration) *Live {
	if idle <= 0 {
		idle = 30 * time.Minute
	}
	return &Live{Host: h, idle: idle, chats: map[string]*liveChat{}}
}

// Begin starts a conversation and returns its id.
func (l *Live) Begin(ctx context.Context, owner string, s Settings) (string, error) {
	if err := l.makeRoom(ctx, owner); err != nil {
		return "", err
	}
	chat, err := l.Host.Begin(ctx, owner, s)
	if err != nil {
		return "", err
	}
	return chat.ID(), l.hold(ctx, owner, chat)
}

// Resume continues a conversation, unless it is in progress already.
func (l *Live) Resume(ctx context.Context, owner, id string, change func(*Settings)) error {
	if _, err := l.find(owner, id); err == nil {
		return nil
	}
	if err := l.makeRoom(ctx, owner); err != nil {
		return err
	}
	chat, err := l.Host.Resume(ctx, owner, id, change)
	if err != nil {
		return err
	}
	return l.hold(ctx, owner, chat)
}

func (l *Live) hold(ctx context.Context, owner string, chat *Chat) error {
	c := &liveChat{chat: chat, owner: owner, news: make(chan struct{}), used: time.Now()}
	l.mu.Lock()
	_, twice := l.chats[chat.ID()]
	var refused error
	switch {
	case l.done || twice:
		refused = ErrTurn
	case l.count(owner) >= maxLive:
		refused = ErrMany
	default:
		l.chats[chat.ID()] = c
	}
	l.mu.Unlock()
	if refused != nil {
		_, err := chat.Close(ctx, nil)
		return errors.Join(refused, err)
	}
	return nil
}

// maxLive bounds the conversations in progress of an owner. Another one closes the one that was not used for
// longest, which can be resumed if it has a turn.
const maxLive = 100

// count returns how many conversations of an owner are in progress. The caller holds mu.
func (l *Live) count(owner string) (n int) {
	for _, c := range l.chats {
		if c.owner == owner {
			n++
		}
	}
	return n
}

// makeRoom closes conversations of an owner until another one may begin.
func (l *Live) makeRoom(ctx context.Context, owner string) error {
	for {
		id, c, full := l.longestIdle(owner)
		switch {
		case !full:
			return nil
		case c == nil:
			return ErrMany
		}
		if _, err := l.end(ctx, id, c); err != nil && !errors.Is(err, ErrNotFound) {
			l.Host.Log.Warn("a conversation was not cleaned up", "conversation", id, "err", err)
		}
	}
}

// longestIdle reports whether an owner has as many conversations in progress as allowed, and returns the one
// without a turn that was not used for longest; nil: all have one.
func (l *Live) longestIdle(owner string) (id string, oldest *liveChat, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count(owner) < maxLive {
		return "", nil, false
	}
	var since time.Time
	for other, c := range l.chats {
		c.mu.Lock()
		if c.owner == owner && !c.closing && c.stop == nil && (oldest == nil || c.used.Before(since)) {
			id, oldest, since = other, c, c.used
		}
		c.mu.Unlock()
	}
	return id, oldest, true
}

func (l *Live) find(owner, id string) (*liveChat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.chats[id]
	if !ok || c.owner != owner {
		return nil, fmt.Errorf("the conversation %q is not going on: %w", id, ErrNotFound)
	}
	return c, nil
}

// Turn starts a turn and returns at once. Stop ends it early.
func (l *Live) Turn(owner, id string, p Prompt) error {
	c, err := l.find(owner, id)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.mu.Lock()
	if c.stop != nil || c.closing {
		c.mu.Unlock()
		stop()
		return ErrTurn
	}
	c.stop, c.ended, c.used = stop, ended, time.Now()
	c.mu.Unlock()
	l.group.Go(func() {
		defer stop()
		if _, err := c.chat.Turn(ctx, p, c, c.tell); err != nil {
			l.Host.Log.Debug("a turn failed", "conversation", id, "err", err) // its record has the error
		}
		c.mu.Lock()
		c.stop, c.used = nil, time.Now()
		c.mu.Unlock()
		close(ended)
		l.Host.count(context.Background())
	})
	return nil
}

// Answer implements Prompter. It waits for Live.Answer.
func (c *liveChat) Answer(ctx context.Context, q Ask) (Answer, error) {
	c.mu.Lock()
	w := c.waiting[slices.IndexFunc(c.waiting, func(w *waiting) bool { return w.ask.ID == q.ID })] // tell has added it
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting = slices.DeleteFunc(c.waiting, func(other *waiting) bool { return other == w })
	}()
	select {
	case a := <-w.answer:
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// Pending returns the questions of a conversation that wait for an answer.
func (l *Live) Pending(owner, id string) ([]Ask, error) {
	c, err := l.find(owner, id)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Ask
	for _, w := range c.waiting {
		if w.open() {
			list = append(list, w.ask)
		}
	}
	return list, nil
}

// Answer answers a question. Later answers get ErrAnswered.
func (l *Live) Answer(owner, id, question string, a Answer) error {
	c, err := l.find(owner, id)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		if w.ask.ID == question && w.open() {
			w.answer <- a
			w.answered, c.used = true, time.Now()
			return nil
		}
	}
	return ErrAnswered
}

// Running reports whether a conversation is in progress here, and whether a turn is.
func (l *Live) Running(owner, id string) (open, turn bool) {
	c, err := l.find(owner, id)
	if err != nil {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closing, c.stop != nil
}

// Stop ends the running turn, as Ctrl-C does, and waits for its end.
func (l *Live) Stop(ctx context.Context, owner, id string) error {
	c, err := l.find(owner, id)
	if err != nil {
		return err
	}
	return c.halt(ctx)
}

func (c *liveChat) halt(ctx context.Context) error {
	c.mu.Lock()
	stop, ended := c.stop, c.ended
	c.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends a conversation: it stops a running turn and cleans up at the provider. The
// conversation can be resumed.
func (l *Live) Close(ctx context.Context, owner, id string) (*Cleaned, error) {
	c, err := l.find(owner, id)
	if err != nil {
		return nil, err
	}
	return l.end(ctx, id, c)
}

func (l *Live) end(ctx context.Context, id string, c *liveChat) (*Cleaned, error) {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, ErrNotFound
	}
	c.closing = true
	c.mu.Unlock()
	if halted := c.halt(ctx); halted != nil {
		c.mu.Lock()
		c.closing = false
		c.mu.Unlock()
		return nil, halted
	}
	cleaned, err := c.chat.Close(ctx, c.tell)
	c.mu.Lock()
	c.closed = true
	close(c.news) // wakes the followers
	c.mu.Unlock()
	l.mu.Lock()
	delete(l.chats, id)
	l.mu.Unlock()
	return cleaned, err
}

// Run closes idle conversations until the context ends.
func (l *Live) Run(ctx context.Context) {
	tick := time.NewTicker(min(l.idle/4, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.Host.count(ctx)
		for id, c := range l.idlers() {
			if _, err := l.end(ctx, id, c); err != nil {
				l.Host.Log.Warn("a conversation was not cleaned up", "conversation", id, "err", err)
			}
		}
	}
}

func (l *Live) idlers() map[string]*liveChat {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]*liveChat{}
	for id, c := range l.chats {
		c.mu.Lock()
		if !c.closing && time.Since(c.used) > l.idle && (c.stop == nil || slices.ContainsFunc(c.waiting, (*waiting).open)) {
			found[id] = c
		}
		c.mu.Unlock()
	}
	return found
}

// Shutdown ends all conversations and cleans up.
func (l *Live) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	l.done = true
	all := maps.Clone(l.chats)
	l.mu.Unlock()
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for id, c := range all {
		group.Go(func() {
			if _, err := l.end(ctx, id, c); err != nil && !errors.Is(err, ErrNotFound) {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	group.Wait()
	l.group.Wait()
	return failed
}

// tell is the sink of a turn. A question can be answered from the moment in which
// followers get it.
func (c *liveChat) tell(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked, ok := e.(Asked); ok {
		c.waiting = append(c.waiting, &waiting{ask: asked.Ask, answer: make(chan Answer, 1)})
	}
	c.last++
	if n := len(c.events); n > 0 { // a long backlog has fewer, longer texts
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

// Follow returns the events after a number, past ones and then new ones, until the
// conversation is closed or the context ends. After each beat of silence it yields a
// Numbered without an event, so that a caller notices a lost connection; 0: never. If
// the first number is above after+1, the events between were dropped: the record of the
// conversation has what they told.
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
			if beat > 0 {
				beats = time.After(beat)
			}
			select {
			case <-more:
			case <-beats:
				if !yield(Numbered{}) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// since returns the events after a number, and a channel that is closed when there are
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
