package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Resident has a live interpreter.
type Resident interface {
	// Output receives the output of the interpreter's processes, in place of the run's log.
	Output(stream Stream, data []byte)
	// SetControls passes the means to control the interpreter, before its first call.
	SetControls(controls Controls)
	// Resumed reports that a program that waited has a slot again.
	Resumed()
	// Forgot reports that an interpreter is new, because it could not go on as it was stored.
	Forgot(why error)
}

// endless is the time limit of a live interpreter. Its cells have their own limits.
const endless = 10 * 365 * 24 * time.Hour

// runLive runs an interpreter in its session's workspace, which is created if the session
// has had none yet, or if it was lost: with an executor, with the service, or by eviction.
func (s *Service) runLive(ctx context.Context, j *job, spec *Spec, host Host) (*Outcome, error) {
	if !j.request.Profile.Live.Fresh {
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
	var err error
	if made.Memory, err = s.openMemory(ctx, st.memory); err != nil {
		j.request.Profile.Live.Resident.Forgot(err)
	}
	defer made.Memory.Close() // of nil it does nothing
	outcome, err := s.sandbox.Run(ctx, &made, host)
	failed, _ := errors.AsType[*Error](err)
	switch {
	case made.Memory != nil && failed != nil && failed.ID == NoMemory:
		s.log.WarnContext(ctx, "a session could not go on as it was stored", "session", j.session.ID, "error", err)
		j.request.Profile.Live.Resident.Forgot(err)
		if err := s.ForgetMemory(ctx, j.session); err != nil {
			return nil, err
		}
		return s.runLive(ctx, j, spec, host)
	case errors.Is(err, ErrConflict): // another interpreter of the session has made it
		return s.sandbox.Run(ctx, spec, host)
	}
	return outcome, err
}

// Vacate releases the workspace of a live session without an interpreter. Its stored files stay.
func (s *Service) Vacate(ctx context.Context, session Session) error {
	return s.release(ctx, session)
}

// Saved reports which files of a live session were stored.
type Saved struct {
	Files      []File // new and changed, in order of path
	Deleted    []string
	Dropped    []DroppedFile
	CPU        time.Duration // see Changes
	MemoryPeak int64
}

// SaveSession stores the changes in the workspace of a live session since its last
// call. When it returns, the files are durable and belong to the session. Files that
// could not be stored are in Dropped. If there are paths, it stores what is at or below them, and leaves other
// changes for later calls.
func (s *Service) SaveSession(ctx context.Context, session Session, limits Limits, paths ...string) (*Saved, error) {
	const op = "save session"
	defer s.saves.lock(session.ID)() // what another call stores is there when this one returns
	changes, err := s.sandbox.Changes(ctx, session.ID, limits.Files, paths...)
	if err != nil {
		return nil, failure(op, session.ID.String(), err)
	}
	defer closeOutputs(changes.Outputs)
	j := &job{id: NewID(), owner: session.Owner, session: session}
	j.request.Profile = Profile{Origin: session.Origin, Limits: limits,
		Files: FileRules{TTL: max(s.cfg.FileTTL, session.TTL)}}
	if session.Kind == SessionHeld {
		j.request.Profile.Origin, j.request.Profile.Files.TTL = OriginHeld, session.TTL // no list of an edge has them
	}
	if session.Kind == SessionLive {
		j.id = session.ID // what a session writes is its own, as what a run writes is the run's
	}
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
		if err := s.index.SaveFiles(ctx, end.run, end.deleted, s.now()); err == nil {
			s.Count(Caller{Owner: session.Owner, Key: s.keyOf(session.ID)}, Consumption{Stored: bytesIn(end.run.Files)})
		} else {
			s.janitor.enqueueOrphans(end.pinned...)
			end.dropAll(reasonFor(err))
			end.deleted = nil
			s.log.WarnContext(ctx, "files of a live session could not be recorded", "session", session.ID, "error", err)
		}
	}
	files := slices.DeleteFunc(end.run.Files, func(f File) bool { return f.Path == TreeMark })
	deleted := slices.DeleteFunc(end.deleted, func(path string) bool { return path == TreeMark })
	return &Saved{files, deleted, end.run.Dropped, changes.CPU, changes.MemoryPeak}, nil
}

// sessionLocks are locks by session.
type sessionLocks struct {
	mu sync.Mutex
	of map[ID]*sessionLock
}

type sessionLock struct {
	sync.Mutex
	users int // that hold it or wait for it
}

// lock locks a session until unlock is called.
func (l *sessionLocks) lock(id ID) (unlock func()) {
	l.mu.Lock()
	if l.of == nil {
		l.of = map[ID]*sessionLock{}
	}
	one := l.of[id]
	if one == nil {
		one = &sessionLock{}
		l.of[id] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.of, id)
		}
	}
}

// Touch records a use of a session.
func (s *Service) Touch(ctx context.Context, session Session) {
	s.use(ctx, s.now(), session.life())
}

// A held workspace is lost with its executor, its machine, or the node that knows where it
// is. The files that its runs left are stored after each run, so that the workspace can be
// restored, also on another machine.

// restoredNote begins the stderr of the first program in a restored workspace: callers may
// read nothing else.
const restoredNote = "[The workspace of this session was lost, with its machine or in a restart of the service. " +
	"It has its files as of the last run again; what ran in it has ended.]\n"

// runHeld runs a program in its session's workspace, which it restores if it was lost.
func (s *Service) runHeld(ctx context.Context, j *job, spec *Spec, host Host) (*Outcome, error) {
	outcome, err := s.sandbox.Run(ctx, spec, host)
	if !errors.Is(err, ErrNotFound) {
		return outcome, err
	}
	note, err, _ := s.restores.Do(j.session.ID.String(), func() (any, error) {
		alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout) // others may wait for it
		defer cancel()
		return s.restore(alone, j, spec.Limits)
	})
	if err != nil {
		return nil, err
	}
	host.Output(Stderr, []byte(note.(string)))
	return s.sandbox.Run(ctx, spec, host)
}

// restore makes a lost workspace with the stored files of its session, unless another run of
// the session has, and returns what to tell about it.
func (s *Service) restore(ctx context.Context, j *job, limits Limits) (note string, err error) {
	held, err := s.sandbox.Held(ctx)
	if _, there := held[j.session.ID]; there || err != nil {
		return restoredNote, err
	}
	st := &stage{known: map[string]File{}}
	defer st.close()
	j.restores = true
	if err := s.stageSession(ctx, j, st, newTargets()); err != nil {
		return "", err
	}
	generation := j.session.Place.Generation
	if err := s.sandbox.Release(ctx, j.session.ID, generation); err != nil { // the workspace of a former holder
		return "", err
	}
	if err := s.sandbox.Hold(ctx, j.session.ID, generation, j.session.Wall, st.inputs(), limits); err != nil {
		return "", err
	}
	for _, omitted := range st.notes {
		note += "[" + omitted + "]\n"
	}
	return restoredNote + note, nil
}

// keepHeld stores the changes of a program in a held workspace. The sandbox hands over as
// many files at once as the limits allow.
func (s *Service) keepHeld(ctx context.Context, j *job) {
	for {
		saved, err := s.SaveSession(ctx, j.session, j.request.Profile.Limits)
		switch {
		case err != nil:
			s.log.WarnContext(ctx, "files of a held session could not be stored: they are in its workspace alone", "session",
				j.session.ID, "error", err)
			return
		case !saved.more():
			return
		}
	}
}
