package httpd

import (
	"container/list"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// maxCallers bounds the memory of the rate limit. The least recent caller is forgotten,
// with the requests that it had used up.
const maxCallers = 4096

// rateLimit gives each caller a bucket of requests.
type rateLimit struct {
	each  rate.Limit
	burst int

	mu      sync.Mutex
	most    int64 // requests of one caller at once
	callers map[string]*list.Element
	recent  *list.List // of *bucket, last used first
}

type bucket struct {
	caller string
	*rate.Limiter
	open atomic.Int64 // requests in progress
}

func newRateLimit(perSecond float64, most int) *rateLimit {
	return &rateLimit{
		each: rate.Limit(perSecond), burst: max(int(2*perSecond), 1), most: int64(max(most, 1)),
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
				w.Header().Set("Retry-After", "1")
				hangUp(w, r)
				m.refuse(w, r, http.StatusTooManyRequests, "busy", "too many requests of this caller are under way")
				return
			}
			reservation := b.ReserveN(now, 1)
			if wait := reservation.DelayFrom(now); wait > 0 {
				reservation.CancelAt(now)
				w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
				hangUp(w, r)
				m.refuse(w, r, http.StatusTooManyRequests, "busy", "too many requests from this caller")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

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
	return "address " + from.remote.String()
}

func (l *rateLimit) bucket(caller string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.callers[caller]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if l.recent.Len() >= maxCallers {
		oldest := l.recent.Back()
		delete(l.callers, l.recent.Remove(oldest).(*bucket).caller)
	}
	b := &bucket{caller: caller, Limiter: rate.NewLimiter(l.each, l.burst)}
	l.callers[caller] = l.recent.PushFront(b)
	return b
}
