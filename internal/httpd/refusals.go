package httpd

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// refusals counts the requests that were refused because their owner sends too many, and logs each owner's once a
// second: a line for each would let one key fill the disk with the log.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[refused]int
	timer  *time.Timer // logs them; nil: there are none
}

type refused struct {
	owner engine.Owner
	key   string
	route string
}

const (
	refusalsEvery = time.Second
	maxRefused    = 1000 // lines in a second; what is beyond is counted together
)

// add counts a request, and reports whether it was such a refusal.
func (r *refusals) add(status int, of refused) bool {
	if status != http.StatusTooManyRequests {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[refused]int{}
	}
	if _, known := r.counts[of]; !known && len(r.counts) >= maxRefused {
		of = refused{owner: "others"}
	}
	r.counts[of]++
	if r.timer == nil {
		r.timer = time.AfterFunc(refusalsEvery, r.flush)
	}
	return true
}

// flush logs what was counted.
func (r *refusals) flush() {
	r.mu.Lock()
	counts := r.counts
	r.counts, r.timer = nil, nil
	r.mu.Unlock()
	for of, n := range counts {
		r.log.Info("requests were refused", "owner", of.owner, "key", of.key, "route", of.route,
			"status", http.StatusTooManyRequests, "count", n)
	}
}

// close logs what is left.
func (r *refusals) close() {
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.flush()
}
