package httpd

import (
	"container/list"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// maxCallers bounds the memory of the rate limit. Nobody is forgotten before all requests that
// they had used up are theirs again. While so many callers are remembered, further addresses are
// one caller; owners, who have keys, are always remembered.
const maxCallers = 4096

// rateLimit gives each caller a bucket of requests.
type rateLimit struct {
	each  rate.Limit
	burst int
	fills time.Duration // in which an empty bucket fills

	mu      sync.Mutex
	most    int64 // requests of one caller at once
	callers map[string]*list.Element
	recent  *list.List // of *bucket, last used first
}

type bucket struct {
	caller string
	used   time.Time
	*rate.Limiter
	open atomic.Int64 // requests in progress
}

func newRateLimit(perSecond float64, most int) *rateLimit {
	burst := max(int(2*perSecond), 1)
	return &rateLimit{
		each: rate.Limit(perSecond), burst: burst, most: int64(max(most, 1)),
		fills:   time.Duration(float64(burst) / perSecond * float64(time.Second)),
		callers: map[string]*list.Element{}, recent: list.New(),
	}
}

// rate refuses a caller with too many requests in a second, or so many at once that few
// connections are left for others. An owner is one caller, with all of its keys. Callers on
// this machine without a key are not limited: they are one caller, which only slows itself.
func (l *rateLimit) rate(m Mount, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := rateName(r)
		if forwardOf(r.Context()) != nil { // the peer has counted it
			name = ""
		}
		if name != "" {
			now := time.Now()
			b := l.bucket(name)
			defer b.open.Add(-1)
			if b.open.Add(1) > l.most {
				setRefused(w, "too_many_at_once")
				w.Header().Set("Retry-After", "1")
				hangUp(w, r)
				m.refuse(w, r, http.StatusTooManyRequests, "busy", "too many requests of this caller are under way")
				return
			}
			reservation := b.ReserveN(now, 1)
			if wait := reservation.DelayFrom(now); wait > 0 {
				reservation.CancelAt(now)
				setRefused(w, "rate")
				w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
				hangUp(w, r)
				m.refuse(w, r, http.StatusTooManyRequests, "busy", "too many requests from this caller")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// byAddress begins the name of a caller without a key.
const byAddress = "address "

func rateName(r *http.Request) string {
	from := originOf(r.Context())
	caller, known := CallerFrom(r.Context())
	switch {
	case known && caller.Key != "":
		return "owner " + string(caller.Owner)
	case from.unix || from.remote.IsLoopback():
		return ""
	case known && caller.Owner != "" && !from.remote.IsValid():
		return "owner " + string(caller.Owner)
	}
	return byAddress + network(from.remote).String()
}

func (l *rateLimit) bucket(caller string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	e, ok := l.callers[caller]
	if !ok && l.recent.Len() >= maxCallers && !l.forget(now) && strings.HasPrefix(caller, byAddress) {
		caller = byAddress + "of others"
		e, ok = l.callers[caller]
	}
	if !ok {
		e = l.recent.PushFront(&bucket{caller: caller, Limiter: rate.NewLimiter(l.each, l.burst)})
		l.callers[caller] = e
	}
	l.recent.MoveToFront(e)
	b := e.Value.(*bucket)
	b.used = now
	return b
}

// forget forgets a caller whose bucket is full, and reports whether there was one.
func (l *rateLimit) forget(now time.Time) bool {
	for range l.recent.Len() {
		e := l.recent.Back()
		b := e.Value.(*bucket)
		if now.Sub(b.used) < l.fills {
			return false
		}
		if b.open.Load() == 0 {
			delete(l.callers, l.recent.Remove(e).(*bucket).caller)
			return true
		}
		b.used = now
		l.recent.MoveToFront(e)
	}
	return false
}
