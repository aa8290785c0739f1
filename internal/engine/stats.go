package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/language"
)

// Stats are the counts of a service.
type Stats struct {
	Slots    int              // runs that can compute at the same time
	Running  int              // runs that have started
	Resting  int              // of those, the ones that wait for something and need no slot
	Queued   int              // runs that wait for one
	Runs     map[Status]int64 // ended since the start, by final status; no interpreters that ended with their sessions
	Rejected int64            // refused because too many others waited
	Wait     Histogram        // how long runs waited for a slot
	Duration Histogram        // how long programs ran that are no interpreters of live sessions

	Refused   map[Refusal]int64     // runs, by reason
	Programs  map[Program]int64     // ended since the start
	CPU       time.Duration         // processor time of those
	Takeovers map[SessionKind]int64 // sessions that this node took over from another one

	Disk Room // of the data directory; zero if there is no Space

	// HasKeys says that a key was ever made. Revoked ones count: revoking the
	// last key must not open the door to everybody.
	HasKeys bool
}

// Program is what programs are counted by. Each field has one of a few values.
type Program struct {
	Origin   Origin // the protocol that started it
	Language string // a name of the table
	Set      string // of packages: the name of an installed one, "image", or "none" without a choice
	Start    Start  // empty: not known
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
	wait     histogram
	duration histogram

	mu        sync.Mutex
	runs      map[Status]int64
	refused   map[Refusal]int64
	programs  map[Program]int64
	cpu       time.Duration
	takeovers map[SessionKind]int64
}

func newMeter() meter {
	return meter{wait: newHistogram(), duration: newHistogram(), runs: map[Status]int64{}, refused: map[Refusal]int64{},
		programs: map[Program]int64{}, takeovers: map[SessionKind]int64{}}
}

// ended counts a run that has ended.
func (m *meter) ended(run *Run, of Program, live bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !live || run.Status != StatusCancelled { // its session was deleted or idle
		m.runs[run.Status]++
	}
	m.cpu += run.CPU
	if run.StartedAt.IsZero() {
		return
	}
	of.Start = run.Start
	m.programs[of]++
	if !live { // whose life is the session's
		m.duration.observe(run.Duration)
	}
}

// refuse counts a run that was not begun.
func (m *meter) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[refusalOf(err)]++
}

// takeOver counts a session that another node had.
func (m *meter) takeOver(kind SessionKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takeovers[kind]++
}

// Other is the value of a field of Program that is not one of the few.
const Other = "other"

var origins = []Origin{OriginNative, OriginOnyx, OriginLibreChat, OriginLive, OriginMCP, OriginDify, OriginJupyter,
	OriginE2B, OriginTerminal, OriginOpenAI, OriginPreview}

// programOf returns what the program of a job is counted by.
func (s *Service) programOf(j *job) Program {
	p := Program{Origin: j.request.Profile.Origin, Language: j.language.Name, Set: j.request.Packages}
	if !slices.Contains(origins, p.Origin) {
		p.Origin = Other
	}
	if _, known := language.Find(p.Language); !known {
		p.Language = Other
	}
	sets := s.cfg.Packages.Installed
	switch {
	case j.image != nil:
		p.Set = "image"
	case p.Set == "" && len(sets) > 0:
		p.Set = sets[0]
	case p.Set == "":
		p.Set = "none"
	case !slices.Contains(sets, p.Set):
		p.Set = Other
	}
	return p
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
	m := &s.meter
	m.mu.Lock()
	runs, refused, programs, takeovers := maps.Clone(m.runs), maps.Clone(m.refused), maps.Clone(m.programs),
		maps.Clone(m.takeovers)
	cpu := m.cpu
	m.mu.Unlock()
	var room Room
	if s.cfg.Space != nil {
		room, _ = s.cfg.Space.Room() // callers that start runs get the error
	}
	return Stats{
		Disk:  room,
		Slots: s.queue.size(), Running: running, Resting: resting, Queued: queued, Runs: runs,
		Rejected: refused[RefusedQueue] + refused[RefusedOwner] + refused[RefusedWait],
		Refused:  refused, Programs: programs, CPU: cpu, Takeovers: takeovers,
		Wait: m.wait.snapshot(), Duration: m.duration.snapshot(), HasKeys: m.keys.Load() > 0,
	}
}
