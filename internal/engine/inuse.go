package engine

import (
	"context"
	"sync"
	"time"
)

// inUse keeps the session of a run, and the files that the run was given, from
// expiring while the run waits or continues: their lifetimes may be shorter.
type inUse struct {
	service *Service
	ctx     context.Context //nolint:containedctx // of the uses that are written down

	mu    sync.Mutex
	lives []life
	timer *time.Timer
	ended bool
}

// Uses are repeated usesPerLife times in the shortest lifetime, so that one may
// be late, but at least leastRepeat apart.
const (
	usesPerLife = 4
	leastRepeat = 50 * time.Millisecond
)

// keep begins a run's use of its session and of the files of its request.
func (s *Service) keep(ctx context.Context, j *job) *inUse {
	u := &inUse{service: s, ctx: context.WithoutCancel(ctx)}
	u.timer = time.AfterFunc(time.Hour, u.repeat)
	u.add(j.session.life())
	for i := range j.files {
		u.add(j.files[i].life())
	}
	return u
}

// add keeps one more object from expiring, which was used just now.
func (u *inUse) add(l life) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lives = append(u.lives, l)
	u.schedule()
}

// schedule sets the timer of the next use. The caller holds mu.
func (u *inUse) schedule() {
	if u.ended {
		return
	}
	shortest := u.lives[0].ttl
	for _, l := range u.lives {
		shortest = min(shortest, l.ttl)
	}
	u.timer.Reset(max(shortest/usesPerLife, leastRepeat))
}

// repeat uses all of it once more.
func (u *inUse) repeat() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	u.service.use(u.ctx, u.service.now(), u.lives...)
	u.schedule()
}

// end ends the use. FinishRun counts the end of a run as the last one.
func (u *inUse) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.timer.Stop()
}
