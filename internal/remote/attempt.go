package remote

import "time"

// mostTries is how many workers are tried before a program waits for news of them.
const mostTries = 3

// attempt is one program's way to a worker. Each worker that next returns is asked; if it
// refuses, next returns another.
type attempt struct {
	scheduler      *scheduler
	tier, language string
	asked          map[*target]bool
	news           <-chan struct{}
}

func (s *scheduler) attempt(tier, language string) *attempt {
	return &attempt{scheduler: s, tier: tier, language: language}
}

// next returns a worker, and takes a slot of it in our books. None: no worker has room, or
// three have refused, and it is worth to ask again when the channel closes.
func (a *attempt) next() (*target, <-chan struct{}) {
	if len(a.asked) == mostTries {
		clear(a.asked)
		return nil, a.news
	}
	t, news := a.scheduler.pick(a.tier, a.language, a.asked)
	if t == nil {
		clear(a.asked)
		return nil, news
	}
	if a.asked == nil {
		a.asked = map[*target]bool{}
	}
	a.asked[t], a.news = true, news
	return t, nil
}

// Placement places programs as a Sandbox does, and runs none: for simulations.
type Placement struct{ scheduler *scheduler }

// NewPlacement returns one without workers.
func NewPlacement(slots func(slots int), now func() time.Time) *Placement {
	s := newScheduler(slots)
	s.now = now
	return &Placement{s}
}

// Update is Sandbox.Update.
func (p *Placement) Update(nodes []Node) { p.scheduler.update(nodes) }

// Search begins to look for a worker.
func (p *Placement) Search(tier, language string) *Search {
	return &Search{attempt: p.scheduler.attempt(tier, language)}
}

// Search is one program's way to a worker.
type Search struct {
	attempt *attempt
	at      *target
}

// Next returns the epoch of the worker to ask; 0: none, until the channel closes.
func (s *Search) Next() (epoch int64, news <-chan struct{}) {
	if s.at, news = s.attempt.next(); s.at == nil {
		return 0, news
	}
	return s.at.Epoch, nil
}

// Refused says that the worker has no room.
func (s *Search) Refused() {
	s.attempt.scheduler.count(s.at, -1)
	s.attempt.scheduler.heard(s.at, 0, 1)
}

// Started says that the worker has let the program in, and has so many slots left.
func (s *Search) Started(free int) { s.attempt.scheduler.heard(s.at, free, 1) }

// Ended says that the program has ended, and how many slots the worker has free.
func (s *Search) Ended(free int) {
	s.attempt.scheduler.count(s.at, -1)
	s.attempt.scheduler.heard(s.at, free, 0)
}
