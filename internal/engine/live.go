package engine

import (
	"context"
	"errors"
	"time"
)

// Resident is the Host of a live interpreter's profile.
type Resident interface {
	RoundHandler
	// Output takes what the interpreter's processes write, in place of the run's log.
	Output(stream Stream, data []byte)
	// Reins says how the interpreter is led. It comes before the first call.
	Reins(reins Reins)
	// Resumed says that a program that waited has a slot, and goes on.
	Resumed()
}

// Reins are the means to lead a program from outside of its sandbox.
type Reins struct {
	Interrupt func() error // sends it SIGINT, and what it runs in the foreground
	Drain     func()       // returns when what it has written until now is handed over
	// Prepare has a program that waits get ready for the answer. It never blocks; nil where
	// the sandbox is elsewhere.
	Prepare func()
	// Usage is what all in its sandbox have used so far; nil where only SaveSession knows.
	Usage func() (cpu time.Duration, memoryPeak int64)
}

// Led is a Host whose program can be led.
type Led interface {
	Lead(reins Reins)
}

// Lead implements Led.
func (h *host) Lead(reins Reins) {
	if resident, ok := h.job.request.Profile.Host.(Resident); ok && h.job.request.Profile.Live {
		resident.Reins(reins)
	}
}

// endless is the time limit of a live interpreter: its cells have theirs.
const endless = 10 * 365 * 24 * time.Hour

// runLive runs an interpreter in its session's workspace, which is made if it has had
// none yet, or if it is gone: with an executor, with the service, or because somebody
// needed the room.
func (s *Service) runLive(ctx context.Context, j *job, spec *Spec, host Host) (*Outcome, error) {
	if !j.request.Profile.Fresh {
		outcome, err := s.sandbox.Run(ctx, spec, host)
		if !errors.Is(err, ErrNotFound) {
			return outcome, err
		}
	}
	st := &stage{known: map[string]File{}}
	defer st.close()
	if err := s.stageSession(ctx, j, st, newTargets()); err != nil {
		return nil, err
	}
	made := *spec
	made.Make, made.Inputs = true, st.inputs()
	outcome, err := s.sandbox.Run(ctx, &made, host)
	if errors.Is(err, ErrConflict) { // another interpreter of the session has made it
		return s.sandbox.Run(ctx, spec, host)
	}
	return outcome, err
}

// Vacate gives the workspace of a live session back, which has no interpreter. What
// was stored of it stays.
func (s *Service) Vacate(ctx context.Context, session Session) error {
	return s.release(ctx, session.ID)
}

// Saved is what became of the files of a live session.
type Saved struct {
	Files      []File // new and changed, in order of path
	Deleted    []string
	Dropped    []DroppedFile
	CPU        time.Duration // see Changes
	MemoryPeak int64
}

// SaveSession stores what has changed in the workspace of a live session since it
// was last called. When it returns the files are durable, and the session's. Those
// that could not be stored are in Dropped.
func (s *Service) SaveSession(ctx context.Context, session Session, limits Limits) (*Saved, error) {
	const op = "save session"
	changes, err := s.sandbox.Changes(ctx, session.ID, limits.Files)
	if err != nil {
		return nil, failure(op, session.ID.String(), err)
	}
	defer closeOutputs(changes.Outputs)
	j := &job{id: NewID(), owner: session.Owner, session: session}
	j.request.Profile = Profile{Origin: session.Origin, Limits: limits, FileTTL: max(s.cfg.FileTTL, session.TTL)}
	run := &Run{ID: j.id, Owner: session.Owner, Session: session.ID, Generation: session.Place.Generation}
	end := &completion{run: run}
	st := &stage{known: map[string]File{}}
	if len(changes.Outputs)+len(changes.Deleted) > 0 {
		files, places, err := s.index.SessionFiles(ctx, session.Owner, session.ID)
		if err != nil {
			return nil, failure(op, session.ID.String(), err)
		}
		for i, place := range places {
			st.known[place.Path] = files[i]
		}
	}
	outcome := &Outcome{Outputs: changes.Outputs, Deleted: changes.Deleted, Dropped: changes.Dropped}
	s.collect(ctx, j, st, outcome, end)
	defer func() { s.reclaim.unpin(end.pinned...) }()
	if len(end.run.Files)+len(end.deleted) > 0 {
		if err := s.index.SaveFiles(ctx, end.run, end.deleted, s.now()); err != nil {
			s.janitor.enqueueOrphans(end.pinned...)
			end.dropAll(reasonFor(err))
			end.deleted = nil
			s.log.WarnContext(ctx, "files of a live session could not be recorded", "session", session.ID, "error", err)
		}
	}
	return &Saved{end.run.Files, end.deleted, end.run.Dropped, changes.CPU, changes.MemoryPeak}, nil
}

// Touch notes a use of a session.
func (s *Service) Touch(ctx context.Context, session Session) { s.useSession(ctx, session, s.now()) }
