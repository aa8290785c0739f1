package assignment

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// SenderOptions set up a Sender. Fields that are zero, or below, take what their comment says.
type SenderOptions struct {
	// HTTP makes the requests; nil: http.DefaultTransport. Redirects are not
	// followed, whatever the client says: a token goes to one place only.
	HTTP *http.Client
	// Token returns the token for the API at an address, "" for none. It is
	// asked for each request, and kept nowhere.
	Token func(api string) string

	Timeout  time.Duration // of one request; 30 s
	Base     time.Duration // longest wait after the first failure, doubled after each; 0.5 s
	Cap      time.Duration // longest wait at all; 60 s
	Total    time.Duration // of trying, after which a post is parked; 24 h
	Poll     time.Duration // how often Run looks for posts of other processes; 5 s
	Parallel int           // assignments at once; 4

	Rand func() float64 // from 0 to 1; math/rand/v2
	Log  *slog.Logger   // nil: nothing is logged
}

// Sender delivers the posts of a store. Several senders, in this process and in others,
// may share a store.
type Sender struct {
	store  Store
	o      SenderOptions
	client http.Client
	wake   chan struct{}

	mu    sync.Mutex
	hosts map[string]*circuit
}

// circuit is the circuit breaker of a host that does not answer.
type circuit struct {
	failures int
	until    time.Time
}

// NewSender returns a sender.
func NewSender(store Store, o SenderOptions) *Sender {
	o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	o.Base = cmp.Or(max(o.Base, 0), 500*time.Millisecond)
	o.Cap = cmp.Or(max(o.Cap, 0), time.Minute)
	o.Total = cmp.Or(max(o.Total, 0), 24*time.Hour)
	o.Poll = cmp.Or(max(o.Poll, 0), 5*time.Second)
	o.Parallel = cmp.Or(max(o.Parallel, 0), 4)
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Token == nil {
		o.Token = func(string) string { return "" }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Sender{store: cmp.Or[Store](store, noStore{}), o: o, wake: make(chan struct{}, 1), hosts: map[string]*circuit{}}
	if o.HTTP != nil {
		s.client = *o.HTTP
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

// Wake makes Run look for posts at once.
func (s *Sender) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run sends posts until the context ends, and waits for the requests that are
// in progress then: they are cut, and count as unsure.
func (s *Sender) Run(ctx context.Context) {
	_ = s.loop(ctx, Query{}, true) // it ends with the context, and logs the rest
}

// Drain sends the posts that are due and returns. It does not wait for the next attempt
// of posts that failed. The error is the store's.
func (s *Sender) Drain(ctx context.Context, q Query) error { return s.loop(ctx, q, false) }

// loop starts a goroutine for each lane with a due post, a few at once.
func (s *Sender) loop(ctx context.Context, q Query, forever bool) error {
	q.Waiting = true
	busy := map[LaneID]bool{}
	done := make(chan LaneID)
	defer func() {
		for range busy {
			<-done
		}
	}()
	for {
		wake, err := s.start(ctx, q, busy, done)
		if err != nil && !forever {
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.o.Log.ErrorContext(ctx, "the outbox cannot be read", "err", err)
		}
		if !forever && len(busy) == 0 {
			return ctx.Err()
		}
		pause := s.o.Poll
		if forever && !wake.IsZero() {
			pause = max(min(pause, time.Until(wake)), time.Millisecond)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.wake:
		case lane := <-done:
			delete(busy, lane)
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// start starts the lanes that are due, and returns when the next one will be.
func (s *Sender) start(
	ctx context.Context, q Query, busy map[LaneID]bool, done chan<- LaneID,
) (wake time.Time, err error) {
	lanes, err := s.store.Load(ctx, q)
	if err != nil {
		return wake, err
	}
	for i := range lanes {
		id := lanes[i].LaneID
		p, next := lanes[i].Next(time.Now())
		if p == nil && !next.IsZero() && (wake.IsZero() || next.Before(wake)) {
			wake = next
		}
		if p == nil || busy[id] || len(busy) >= s.o.Parallel {
			continue
		}
		busy[id] = true
		go func() {
			s.lane(ctx, id)
			done <- id
		}()
	}
	return wake, nil
}

// lane sends the posts of one lane, until none is due.
func (s *Sender) lane(ctx context.Context, id LaneID) {
	for ctx.Err() == nil {
		var claimed *Post
		err := s.store.Change(ctx, id, func(l *Lane) error {
			// Twice the time of a request: to compare first, and to send.
			claimed = l.Claim(time.Now(), 2*s.o.Timeout+10*time.Second)
			return nil
		})
		if err != nil || claimed == nil {
			s.note(ctx, "a post cannot be claimed", id, err)
			return
		}
		outcome := s.attempt(ctx, claimed)
		// The outcome is saved even if the sender is stopped.
		err = s.store.Change(context.WithoutCancel(ctx), id, func(l *Lane) error {
			l.Finish(claimed, outcome, time.Now())
			return nil
		})
		if err != nil {
			s.note(ctx, "the outcome of a post cannot be kept", id, err)
			return
		}
		if !outcome.Sent {
			s.o.Log.InfoContext(ctx, "a post was not sent", "kind", claimed.Kind, "project", id.Project, "assignment",
				id.Assignment,
				"attempt", claimed.Attempts, "parked", outcome.DeadLetter, "problem", outcome.Problem)
			return
		}
	}
}

func (s *Sender) note(ctx context.Context, what string, id LaneID, err error) {
	if err != nil && ctx.Err() == nil {
		s.o.Log.ErrorContext(ctx, what, "project", id.Project, "assignment", id.Assignment, "err", err)
	}
}

// backoff returns the delay after a number of attempts: a random one up to a bound that
// doubles, so that posts that failed together are not retried together.
func (s *Sender) backoff(attempts int) time.Duration {
	bound := s.o.Cap
	if attempts < 32 {
		bound = min(bound, s.o.Base<<max(attempts-1, 0))
	}
	return time.Duration(s.o.Rand() * float64(bound))
}

// closed reports whether the circuit of a host is closed, and else how long it stays
// open.
func (s *Sender) closed(host string) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.hosts[host]
	if c == nil {
		return 0, true
	}
	now := time.Now()
	if wait := c.until.Sub(now); wait > 0 {
		return wait, false
	}
	if c.failures > 0 { // one may try, the others wait for it
		c.until = now.Add(s.o.Timeout)
	}
	return 0, true
}

// answered records whether a host answered.
func (s *Sender) answered(host string, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there {
		delete(s.hosts, host)
		return
	}
	c := s.hosts[host]
	if c == nil {
		c = &circuit{}
		s.hosts[host] = c
	}
	c.failures++
	c.until = time.Now().Add(s.backoff(c.failures))
}
