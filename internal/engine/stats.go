package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are the counts of a service.
type Stats struct {
	Slots    int              // runs that can compute at the same time
	Running  int              // runs that have started
	Resting  int              // of those, the ones that wait for something and need no slot
	Queued   int              // runs that wait for one
	Runs     map[Status]int64 // ended since the start, by final status
	Rejected int64            // refused because the queue was full
	Wait     Histogram        // how long runs waited for a slot
	Duration Histogram        // how long programs ran

	Disk Room // of the data directory; zero if there is no Space

	// HasKeys says that a key was ever made. Revoked ones count: revoking the
	// last key must not open the door to everybody.
	HasKeys bool
}

// Histogram counts durations. Counts[i] is the number of those up to
// Bounds[i] and above the bound before; the last count, one more than there
// are bounds, is of the rest.
type Histogram struct {
	Bounds []time.Duration
	Counts []int64
	Count  int64
	Sum    time.Duration
}

var histogramBounds = []time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
}

// meter keeps the counts behind Stats.
type meter struct {
	keys     atomic.Int64
	rejected atomic.Int64
	wait     histogram
	duration histogram

	mu   sync.Mutex
	runs map[Status]int64
}

func (m *meter) ended(run *Run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = map[Status]int64{}
	}
	m.runs[run.Status]++
	if !run.StartedAt.IsZero() {
		m.duration.observe(run.Duration)
	}
}

type histogram struct {
	mu     sync.Mutex
	counts Histogram
}

func newHistogram() histogram {
	return histogram{counts: Histogram{Bounds: histogramBounds, Counts: make([]int64, len(histogramBounds)+1)}}
}

func (h *histogram) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, _ := slices.BinarySearch(histogramBounds, d)
	h.counts.Counts[i]++
	h.counts.Count++
	h.counts.Sum += d
}

func (h *histogram) snapshot() Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := h.counts
	counts.Counts = slices.Clone(counts.Counts)
	return counts
}

// Stats returns the counts as they are now.
func (s *Service) Stats() Stats {
	running, resting, queued := s.queue.load()
	s.meter.mu.Lock()
	runs := maps.Clone(s.meter.runs)
	s.meter.mu.Unlock()
	var room Room
	if s.cfg.Space != nil {
		room, _ = s.cfg.Space.Room() // callers that start runs get the error
	}
	return Stats{
		Disk:  room,
		Slots: s.queue.size(), Running: running, Resting: resting, Queued: queued, Runs: runs,
		Rejected: s.meter.rejected.Load(),
		Wait:     s.meter.wait.snapshot(), Duration: s.meter.duration.snapshot(), HasKeys: s.meter.keys.Load() > 0,
	}
}
