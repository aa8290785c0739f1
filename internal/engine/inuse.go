package engine

import (
	"context"
	"sync"
	"time"
)

// inUse keeps the session of a run, and the files that the run was given, from
// expiring while the run waits or goes on: their lifetimes may be shorter.
type inUse struct {
	service *Service
	ctx     context.Context //nolint:containedctx // of the uses that are written down
	session Session

	mu    sync.Mutex
	files []File
	timer *time.Timer
	ended bool
}

// Uses are repeated usesPerLife times in the shortest lifetime, so that one may
// be late, but no sooner than leastRepeat after each other.
const (
	usesPerLife = 4
	leastRepeat = 50 * time.Millisecond
)

// keep begins a run's use of its session and of the files of its request.
func (s *Service) keep(ctx context.Context, j *job) *inUse {
	u := &inUse{service: s, ctx: context.WithoutCancel(ctx), session: j.session}
	u.add(j.files...)
	return u
}

// add has files kept too. They were used just now.
func (u *inUse) add(files ...File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files = append(u.files, files...)
	u.arm()
}

// arm sets the timer of the next use. The caller holds mu.
func (u *inUse) arm() {
	if u.ended {
		return
	}
	life := u.session.TTL
	for i := range u.files {
		life = min(life, u.files[i].TTL)
	}
	next := max(life/usesPerLife, leastRepeat)
	if u.timer == nil {
		u.timer = time.AfterFunc(next, u.again)
		return
	}
	u.timer.Reset(next)
}

// again is one more use of all of it.
func (u *inUse) again() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	u.service.useSession(u.ctx, u.session, u.service.now())
	u.service.use(u.ctx, u.files...)
	u.arm()
}

// end ends the use. FinishRun counts the end of a run as the last one.
func (u *inUse) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.timer.Stop()
}
