package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// opRun is the Op of every error about running code.
const opRun = "run"

// leaveGrace is how long Run waits for a run to end after its caller left.
const leaveGrace = 900 * time.Millisecond

// Run runs code and waits for the result. A program that fails is a Run, not
// an error. When ctx ends the run is cancelled and recorded as such, and Run
// returns ErrCanceled within a second. A run with an idempotency key continues:
// its caller will ask again for the answer.
func (s *Service) Run(ctx context.Context, caller Caller, req RunRequest) (*Run, error) {
	j, earlier, err := s.startRun(ctx, caller, req, true)
	if err != nil {
		return nil, err
	}
	if !earlier.IsZero() {
		if j = s.job(caller.Owner, earlier); j == nil {
			return s.GetRun(ctx, caller, earlier)
		}
	}
	if err := s.attend(ctx, j); err == nil {
		return j.result()
	} else if errors.Is(err, errCrowded) {
		return nil, err
	}
	if req.IdempotencyKey == "" {
		j.cancel(errClientGone)
		grace := time.NewTimer(leaveGrace)
		defer grace.Stop()
		select {
		case <-j.done:
		case <-grace.C:
		}
	}
	return nil, &Error{Op: opRun, Kind: ErrCanceled, ID: j.id.String(), Err: context.Cause(ctx)}
}

// Start begins a run and returns at once, with the run queued or running. The
// run lives until it ends or is cancelled, whatever becomes of ctx.
func (s *Service) Start(ctx context.Context, caller Caller, req RunRequest) (*Run, error) {
	j, earlier, err := s.startRun(ctx, caller, req, false)
	if err != nil {
		return nil, err
	}
	if !earlier.IsZero() {
		return s.GetRun(ctx, caller, earlier)
	}
	return j.snapshot(), nil
}

// Why a run was cancelled.
var (
	errClientGone = errors.New("the caller left")
	errAsked      = errors.New("its owner stopped it")
	errSession    = errors.New("its session was deleted")
)

// takesWork returns an error if the disk is low, if this node must not begin runs, or if the caller may not any more.
func (s *Service) takesWork(ctx context.Context, caller Caller) error {
	if err := s.RoomFor(opRun); err != nil {
		return err
	}
	if s.cluster != nil {
		if err := s.cluster.Check(); err != nil {
			return err
		}
	}
	return s.CheckMonth(ctx, opRun, caller)
}

// startRun checks a request, records the run and starts it. If an earlier request had the
// same key, startRun returns the ID of the earlier run instead. If the caller waits for a
// run, the run is not visible before it has ended.
func (s *Service) startRun(
	ctx context.Context, caller Caller, req RunRequest, waited bool,
) (_ *job, earlier ID, err error) {
	asked := req
	defer func() {
		if err != nil {
			s.meter.refuse(err)
		}
	}()
	lang, err := s.check(&req)
	if err != nil {
		return nil, ID{}, err
	}
	image, lang, err := s.chooseEnvironment(caller, &req, lang)
	if err != nil {
		return nil, ID{}, err
	}
	if req.Mounts, err = s.ChooseMounts(caller, req.Mounts); err != nil {
		return nil, ID{}, err
	}
	wall, err := s.ChooseWall(caller, req.Wall)
	if err != nil {
		return nil, ID{}, err
	}
	grant, err := s.grant(ctx, caller, req.Network, req.Secrets)
	if err != nil {
		return nil, ID{}, err
	}
	attended := waited || req.Attended
	asked.Attended = false // a waiting client does not make it a different request
	var print Digest
	if req.IdempotencyKey != "" {
		if print, err = fingerprint(asked); err != nil {
			return nil, ID{}, err
		}
		// Before any look-up: a repeat is answered, even if its inputs were
		// deleted or the queue is full by now.
		earlier, err := s.index.EarlierRun(ctx, caller.Owner, req.IdempotencyKey, print)
		if !errors.Is(err, ErrNotFound) {
			return nil, earlier, repeatFailure(err)
		}
	}
	if err := s.takesWork(ctx, caller); err != nil {
		return nil, ID{}, err
	}
	req.Files = slices.Clone(req.Files) // their paths will be filled in
	j := &job{
		id: NewID(), owner: caller.Owner, caller: caller, node: s.Self(), language: lang, image: image, request: req,
		grant: grant, wall: wall,
		within: req.Session,
		log:    newRunLog(req.Profile.Limits.Output),
		wholes: map[Stream]*Blob{},
		source: s.sourceOf(caller, &asked, req.Image),
		done:   make(chan struct{}),
		turn:   make(chan struct{}),
	}
	s.keepWholes(context.WithoutCancel(ctx), j)
	j.timings.start()
	if req.Session.IsZero() {
		// It lasts as long as the files that the run leaves in it.
		ttl := max(s.cfg.SessionTTL, req.Profile.Files.TTL)
		j.session = s.newSession(caller, req.Profile.Origin, SessionFiles, ttl)
		j.session.Implicit, j.session.Scope, j.session.Wall = true, req.Profile.Scope, wall
		j.within = j.session.ID
	}
	// The run's own context keeps the request's values, for the log, but not
	// its cancellation. It is set before other goroutines can find the job.
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	j.cancel = cancel
	j.deferred = req.IdempotencyKey == "" && len(req.Files) == 0 &&
		(waited && j.session.Implicit || req.Profile.Live != nil && req.Profile.Live.Fresh)
	if err = s.takeVolumes(ctx, j); err == nil {
		earlier, err = s.enqueue(ctx, j, attended, print)
	}
	if err != nil || !earlier.IsZero() {
		s.releaseVolumes(j)
		cancel(nil)
		return nil, earlier, err
	}
	j.timings.end("admit")
	go s.execute(running, j) // Shutdown waits for it: the job is registered
	return j, ID{}, nil
}

// enqueue records a job and queues it. If it does neither, because of an error or an earlier run, it undoes all that
// it has done.
func (s *Service) enqueue(ctx context.Context, j *job, attended bool, print Digest) (earlier ID, err error) {
	if j.ticket, err = s.reserve(j, attended); err != nil {
		return ID{}, err
	}
	if err = s.admit(opRun, j); err != nil {
		s.queue.leave(j.ticket)
		return ID{}, err
	}
	if earlier, err = s.register(ctx, j, print); err != nil || !earlier.IsZero() {
		s.retire(j)
		return earlier, err
	}
	s.accept(j)
	NoteRun(ctx, j.id)
	// Code without a file of its own, as a shell command, conflicts with no other run.
	j.ticket.beside = j.session.Kind == SessionHeld && s.entryOf(&j.request) == ""
	s.queue.join(j.ticket)
	return ID{}, nil
}

// recordTimeout bounds the service's own index operations, which ignore the
// caller's context.
const recordTimeout = time.Minute

// register looks up the objects of a run and records the run.
func (s *Service) register(ctx context.Context, j *job, print Digest) (earlier ID, err error) {
	var implicit *Session
	if j.session.Implicit {
		implicit = &j.session
	} else if j.session, err = s.session(ctx, opRun, j.sessionField(), j.owner, j.within); err != nil {
		return ID{}, err
	}
	if j.session.Kind == SessionHeld {
		if j.session, err = s.Claim(ctx, j.session); err != nil {
			return ID{}, err
		}
		j.generation = j.session.Place.Generation
	}
	if j.session.Kind == SessionLive && j.request.Profile.Live == nil {
		return ID{}, Invalid(fieldSession, "is live: it runs cells")
	}
	if s.cluster != nil && j.session.Kind == SessionLive && j.session.Place.Holder != s.Self() { // by now
		return ID{}, s.Elsewhere(ctx, opRun, j.sessionField(), j.session.Place.Holder)
	}
	if j.wall, err = j.session.wallIn(j.wall, j.request.Wall); err != nil {
		return ID{}, err
	}
	if j.files, err = s.resolve(ctx, opRun, j.owner, j.request.Files, s.entryOf(&j.request)); err != nil {
		return ID{}, err
	}
	j.run = Run{
		ID: j.id, Owner: j.owner, Origin: j.request.Profile.Origin, Session: j.session.ID,
		Language: j.language.Name, Image: j.request.Image, Wall: j.wall, Status: StatusQueued, CreatedAt: s.now(),
		Keyed:  j.request.IdempotencyKey != "",
		Source: j.source, Node: j.node, Generation: j.generation,
	}
	if j.deferred {
		s.records.insertSoon(j)
		return ID{}, nil
	}
	// Recorded only in part, the run would never be executed.
	durable, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	earlier, err = s.index.StartRun(durable, j.snapshot(), implicit, j.request.IdempotencyKey, print)
	if errors.Is(err, ErrNotFound) { // it was deleted just now
		return ID{}, NotFound(opRun, j.sessionField())
	}
	j.inserted = err == nil
	return earlier, repeatFailure(err)
}

// repeatFailure does what failure does, for a look-up of the earlier request of a key.
func repeatFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrConflict):
		return &Error{
			Op: opRun, Kind: ErrConflict, ID: "idempotency key",
			Hint: "Use a new key for a new request.", Err: errors.New("was used for another request"),
		}
	}
	return failure(opRun, "", err)
}

// entryOf returns the path that the code itself will have, if it has one.
func (s *Service) entryOf(req *RunRequest) string {
	if req.Profile.Program.Inline {
		return ""
	}
	return req.Profile.Program.Entry
}

// resolve finds the files that a request refers to and gives each reference
// its clean path. Errors name the reference.
func (s *Service) resolve(ctx context.Context, op string, owner Owner, refs []FileRef, entry string) ([]File, error) {
	files := make([]File, len(refs))
	for i, ref := range refs {
		file, err := s.file(ctx, op, ref.field(i), cmp.Or(ref.Owner, owner), ref.ID)
		if err != nil {
			return nil, err
		}
		files[i] = file
	}
	taken := newTargets()
	if entry != "" {
		taken.add(entry)
	}
	for i := range refs {
		field := fmt.Sprintf("%s[%d].path", fieldFiles, i)
		given := refs[i].Path
		if given == "" {
			given = files[i].Name
		}
		path, err := CleanPath(given)
		if err != nil {
			return nil, Invalid(field, "%w", err)
		}
		if !taken.add(path) {
			if path == entry {
				return nil, Invalid(field, "%q is where the code itself goes", path)
			}
			return nil, Invalid(field, "%q is taken by another file, or is a directory of one", path)
		}
		refs[i].Path = path
		s.use(ctx, s.now(), files[i].life())
	}
	return files, nil
}

// CancelRun cancels a run and returns when it has ended and is cleaned up.
// Cancelling a run that has ended does nothing.
func (s *Service) CancelRun(ctx context.Context, caller Caller, id ID) error {
	const op = "cancel run"
	run, j, err := s.run(ctx, op, caller.Owner, id)
	switch {
	case err != nil:
		return err
	case j == nil && !run.Status.Final() && run.Node != s.Self():
		return s.Elsewhere(ctx, op, id.String(), run.Node)
	case j == nil:
		return nil
	}
	j.cancel(errAsked)
	return awaitEnd(ctx, op, j)
}

// awaitEnd waits until a job is retired.
func awaitEnd(ctx context.Context, op string, j *job) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return &Error{Op: op, Kind: ErrCanceled, ID: j.id.String(), Err: context.Cause(ctx)}
	}
}
