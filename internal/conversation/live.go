package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Live holds conversations whose people come and go, as those of a page do. A
// turn runs by itself; whoever wants to see it follows its events, as many as
// want to and from wherever they stopped; and its questions wait, by their
// ids, for an answer from anywhere.
type Live struct {
	host *Host
	idle time.Duration // after so long without a turn a conversation is closed

	mu    sync.Mutex
	chats map[string]*liveChat
	done  bool
	group sync.WaitGroup
}

// liveChat is one conversation that is in progress.
type liveChat struct {
	chat  *Chat
	owner string

	mu       sync.Mutex
	events   []Numbered
	last     int64
	news     chan struct{} // closed at each event
	waiting  []*waiting
	answered []*waiting         // whose answer nobody has taken yet
	stop     context.CancelFunc // of the turn that runs; nil: none does
	ended    chan struct{}      // closed when it has
	used     time.Time
	closing  bool // no more turns
	closed   bool // no more events
}

// waiting is a question without an answer.
type waiting struct {
	ask    Ask
	answer chan Answer
}

// Numbered is an event with its number in the conversation, from 1 on.
type Numbered struct {
	ID    int64
	Event Event
}

// mostEvents bounds what is held for those who come late. The oldest are
// dropped; the record of a turn has all that counts of them.
const mostEvents = 20_000

// ErrAnswered says that a question has no answer to wait for (any more).
var ErrAnswered = errors.New("no such question waits for an answer")

// NewLive returns one. A conversation that nobody uses is closed, and what it
// has at the provider deleted, after idle; 0: half an hour. Shut it down.
func NewLive(h *Host, idle time.Duration) *Live {
	if idle <= 0 {
		idle = 30 * time.Minute
	}
	return &Live{host: h, idle: idle, chats: map[string]*liveChat{}}
}

// Host is what the conversations are held by.
func (l *Live) Host() *Host { return l.host }

// Begin starts a conversation and returns its id.
func (l *Live) Begin(ctx context.Context, owner string, s Settings) (string, error) {
	chat, err := l.host.Begin(ctx, owner, s)
	if err != nil {
		return "", err
	}
	return chat.ID(), l.hold(ctx, owner, chat)
}

// Resume continues with a conversation that is not in progress. One that is stays
// as it is.
func (l *Live) Resume(ctx context.Context, owner, id string, change func(*Settings)) error {
	if _, err := l.find(owner, id); err == nil {
		return nil
	}
	chat, err := l.host.Resume(ctx, owner, id, change)
	if err != nil {
		return err
	}
	return l.hold(ctx, owner, chat)
}

func (l *Live) hold(ctx context.Context, owner string, chat *Chat) error {
	c := &liveChat{chat: chat, owner: owner, news: make(chan struct{}), used: time.Now()}
	l.mu.Lock()
	_, twice := l.chats[chat.ID()]
	refused := l.done || twice
	if !refused {
		l.chats[chat.ID()] = c
	}
	l.mu.Unlock()
	if refused {
		_, err := chat.Close(ctx, nil)
		return errors.Join(ErrTurn, err)
	}
	return nil
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

// Turn starts a turn and returns at once. It ends by itself, or by Stop.
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
			l.host.Log.Debug("a turn failed", "conversation", id, "err", err) // its record says so
		}
		c.mu.Lock()
		c.stop, c.used = nil, time.Now()
		c.mu.Unlock()
		close(ended)
		l.host.count(context.Background())
	})
	return nil
}

// Answer implements Prompter: it waits for an answer from anywhere.
func (c *liveChat) Answer(ctx context.Context, q Ask) (Answer, error) {
	c.mu.Lock()
	at := slices.IndexFunc(c.waiting, func(w *waiting) bool { return w.ask.ID == q.ID })
	if at < 0 { // it has been answered before we came to wait
		at = slices.IndexFunc(c.answered, func(w *waiting) bool { return w.ask.ID == q.ID })
		w := c.answered[at]
		c.answered = nil
		c.mu.Unlock()
		return <-w.answer, nil
	}
	w := c.waiting[at]
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting = slices.DeleteFunc(c.waiting, func(other *waiting) bool { return other == w })
		c.answered = nil
	}()
	select {
	case a := <-w.answer:
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// Pending are the questions of a conversation that wait for an answer.
func (l *Live) Pending(owner, id string) ([]Ask, error) {
	c, err := l.find(owner, id)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Ask
	for _, w := range c.waiting {
		list = append(list, w.ask)
	}
	return list, nil
}

// Answer answers a question. The first answer counts; after it ErrAnswered.
func (l *Live) Answer(owner, id, question string, a Answer) error {
	c, err := l.find(owner, id)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting {
		if w.ask.ID == question {
			w.answer <- a // has room for one
			c.waiting = slices.Delete(c.waiting, i, i+1)
			c.answered = append(c.answered, w)
			c.used = time.Now()
			return nil
		}
	}
	return ErrAnswered
}

// Running reports whether a conversation continues here, and whether a turn of
// it does.
func (l *Live) Running(owner, id string) (open, turn bool) {
	c, err := l.find(owner, id)
	if err != nil {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closing, c.stop != nil
}

// Stop ends the turn that runs, as Ctrl-C does, and waits until it has ended.
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

// Close ends a conversation: its turn, if one runs, and what it has at the
// provider. It can be resumed.
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
	close(c.news) // wakes those who follow
	c.mu.Unlock()
	l.mu.Lock()
	delete(l.chats, id)
	l.mu.Unlock()
	return cleaned, err
}

// Run closes conversations that nobody uses, until the context ends.
func (l *Live) Run(ctx context.Context) {
	tick := time.NewTicker(min(l.idle/4, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.host.count(ctx)
		for id, c := range l.idlers() {
			if _, err := l.end(ctx, id, c); err != nil {
				l.host.Log.Warn("a conversation was not cleaned up", "conversation", id, "err", err)
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
		if !c.closing && time.Since(c.used) > l.idle && (c.stop == nil || len(c.waiting) > 0) {
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
	all := map[string]*liveChat{}
	for id, c := range l.chats {
		all[id] = c
	}
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
