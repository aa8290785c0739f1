package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/language"
)

// job is a run from the moment it is admitted to the moment its end is
// recorded.
type job struct {
	id         ID
	owner      Owner
	caller     Caller  // who asked for it, with the rights of then
	generation int64   // of its session's place, if that holds its workspace
	node       Epoch   // the life of this node that began it
	within     ID      // the session's; known before the session is
	session    Session // looked up by register
	language   language.Language
	image      *Image     // its root; nil: it has none
	wall       Wall       // that of its session, once register has looked it up
	grant      *Grant     // nil: no network
	request    RunRequest // checked, and with every default filled in
	source     *Source    // the source that History keeps
	files      []File     // the files of request.Files, in the same order
	ticket     *ticket
	log        *runLog
	wholes     map[Stream]*Blob // output stored whole, which its capture has no room for
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when the run has ended and is cleaned up
	gaveUp     bool          // it got no slot in time; known once turn is closed
	turn       chan struct{} // closed when the run no longer waits for its slot
	maxWait    time.Duration // how long it may wait for that; 0: for as long as it takes
	accepted   bool          // by the index; guarded by Service.mu
	timings    timings
	deferred   bool   // it is not recorded when it begins
	insert     delay  // of a deferred run into the index
	inserted   bool   // the index has it; known once insert has ended
	inUse      *inUse // set by execute
	unkept     int    // outputs that could not be kept whole
	volumes    []Volume
	places     []VolumePlace // of volumes, in the same order
	measured   measured      // of a live interpreter
	restores   bool          // its session's workspace is restored

	mu  sync.Mutex
	run Run
	err error // why the run has no outcome, for callers that wait
}

// sessionField names the session that the request asks for in an error.
func (j *job) sessionField() string {
	if j.within.IsZero() {
		return fieldSession
	}
	return fieldSession + " " + j.within.String()
}

// snapshot returns a copy of the current run.
func (j *job) snapshot() *Run {
	j.mu.Lock()
	defer j.mu.Unlock()
	run := j.run
	return &run
}

// started records that the program starts, and notifies the watchers.
func (j *job) started(now time.Time) {
	j.mu.Lock()
	j.run.Status, j.run.StartedAt = StatusRunning, now
	j.mu.Unlock()
	j.measured.start(now)
	j.log.start(j.snapshot())
}

// publish announces how the run ended.
func (j *job) publish(end *completion) {
	j.mu.Lock()
	j.run, j.err = *end.run, end.err
	j.mu.Unlock()
	j.log.finish(end.run)
}

// result returns how the run ended. It is called after done is closed.
func (j *job) result() (*Run, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return nil, j.err
	}
	run := j.run
	return &run, nil
}

// admit registers a job, unless the service is closing or its session is being deleted.
func (s *Service) admit(op string, j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.accepts(op); err != nil {
		return err
	}
	if s.deleting[j.within] {
		return NotFound(op, j.sessionField())
	}
	if size := j.size(); size > smallRequest {
		if _, _, ok := s.inFlight.Add(size, maxInFlight, s.Bounds(j.owner, maxOwnerInFlight)); !ok {
			return &Error{Op: op, Kind: ErrBusy, Refusal: RefusedInFlight, RetryAfter: time.Second, Hint: "Try again later.",
				Err: errors.New("too many large programs and inputs are waiting")}
		}
	}
	s.jobs[j.id] = j
	return nil
}

// The bounds of memory for the code and input of large requests while they wait
// and run: of all owners, and of one.
const (
	smallRequest     = 64 << 10
	maxInFlight      = 512 * mebibyte
	maxOwnerInFlight = maxInFlight / 4
)

// size returns how many bytes a job's request brought along.
func (j *job) size() int64 { return int64(len(j.request.Code) + len(j.request.Stdin)) }

// retire unregisters j and closes done.
func (s *Service) retire(j *job) {
	s.queue.leave(j.ticket)
	s.mu.Lock()
	delete(s.jobs, j.id)
	if size := j.size(); size > smallRequest {
		s.inFlight.Remove(j.owner, size)
	}
	if s.closing && len(s.jobs) == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	close(j.done)
}

// job returns an owner's run that has not ended, or nil.
func (s *Service) job(owner Owner, id ID) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil && j.owner == owner {
		return j
	}
	return nil
}

// accept marks a job as recorded.
func (s *Service) accept(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.accepted = true
}

// busy reports whether a session has an accepted run that has not ended.
func (s *Service) busy(session ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.within == session && j.accepted {
			return true
		}
	}
	return false
}

// Timing is a part of the time that a run took.
type Timing struct {
	Name string // "admit", "queue", "stage", "sandbox", "program", "collect", "record"
	Took time.Duration
}

// timings measures the parts of a run, one after the other.
type timings struct {
	last time.Time
	all  []Timing
}

func (l *timings) start() { l.last, l.all = time.Now(), make([]Timing, 0, 8) }

// end closes the part that began when the one before ended.
func (l *timings) end(name string) {
	now := time.Now()
	l.all = append(l.all, Timing{name, now.Sub(l.last)})
	l.last = now
}

// split makes a share of the last part a separate part.
func (l *timings) split(name string, took time.Duration) {
	last := &l.all[len(l.all)-1]
	took = min(took, last.Took)
	last.Took -= took
	l.all = append(l.all, Timing{name, took})
}
