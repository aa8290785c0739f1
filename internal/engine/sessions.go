package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// newSession returns a session that is not yet recorded.
func (s *Service) newSession(caller Caller, origin Origin, kind SessionKind, ttl time.Duration) Session {
	ttl = cmp.Or(ttl, s.cfg.SessionTTL)
	now := s.now()
	return Session{
		ID: NewID(), Owner: caller.Owner, Origin: origin, Kind: kind,
		CreatedAt: now, ExpiresAt: now.Add(ttl), TTL: ttl,
	}
}

// CreateSession makes a session with files in it.
func (s *Service) CreateSession(ctx context.Context, caller Caller, req SessionRequest) (Session, error) {
	const op = "create session"
	if err := s.accepting(op); err != nil {
		return Session{}, err
	}
	limits, err := s.checkSession(&req)
	if err != nil {
		return Session{}, err
	}
	if !req.Implicit {
		if err := s.CheckMonth(ctx, op, caller); err != nil {
			return Session{}, err
		}
	}
	wall, err := s.ChooseWall(caller, req.Wall)
	if err != nil {
		return Session{}, err
	}
	if err := s.RoomFor(op); err != nil {
		return Session{}, err
	}
	req.Files = slices.Clone(req.Files) // their paths will be filled in
	files, err := s.resolve(ctx, op, caller.Owner, req.Files, "")
	if err != nil {
		return Session{}, err
	}
	if s.cfg.Quota.Sessions > 0 && !req.Implicit { // before a workspace is made in vain
		if err := s.checkMore(ctx, op, caller.Owner, Usage{Sessions: 1}); err != nil {
			return Session{}, err
		}
	}
	session := s.newSession(caller, req.Origin, req.Kind, req.TTL)
	session.Implicit, session.Scope, session.Live, session.Wall = req.Implicit, req.Scope, req.Live, wall
	if session, err = s.place(session); err != nil {
		return Session{}, err
	}
	places := make([]SessionFile, len(files))
	for i, ref := range req.Files {
		places[i] = SessionFile{Session: session.ID, File: ref.ID, Path: ref.Path, Role: RoleInput, ReadOnly: ref.ReadOnly}
	}
	if session.Kind == SessionHeld {
		if err := s.hold(ctx, op, session, req.Files, files, limits); err != nil {
			return Session{}, err
		}
	}
	if err := s.index.AddSession(ctx, session, places); err != nil {
		if session.Kind == SessionHeld {
			_ = s.release(ctx, session) // if it fails too, the next start releases it
		}
		return Session{}, failure(op, "", err)
	}
	if session.Kind == SessionHeld {
		s.useHeld(ctx, session, files)
	}
	return session, nil
}

// useHeld begins the lifetimes of the files of a held session anew. They last as long as the
// session, which is restored from them.
func (s *Service) useHeld(ctx context.Context, session Session, files []File) {
	now, own := s.now(), []life{}
	for i := range files {
		if more := session.TTL - files[i].TTL; more > 0 {
			s.use(ctx, now.Add(more), files[i].life())
		} else {
			own = append(own, files[i].life())
		}
	}
	s.use(ctx, now, own...)
}

func (s *Service) checkSession(req *SessionRequest) (Limits, error) {
	req.Origin = cmp.Or(req.Origin, OriginNative)
	switch req.Kind {
	case "":
		req.Kind = SessionFiles
	case SessionFiles, SessionHeld:
	case SessionLive:
		if req.Live == "" { // package live sets it
			return Limits{}, Invalid("kind", "live sessions are made with a language")
		}
	default:
		return Limits{}, Invalid("kind", "must be %s, %s or %s", SessionFiles, SessionHeld, SessionLive)
	}
	if req.TTL < 0 {
		return Limits{}, Invalid("ttl", "must not be negative")
	}
	if len(req.Files) > maxFileRefs {
		return Limits{}, Invalid(fieldFiles, "are %d, at most %d are allowed", len(req.Files), maxFileRefs)
	}
	return s.limits(req.Limits)
}

// hold has the sandbox create a held workspace.
func (s *Service) hold(
	ctx context.Context, op string, session Session, refs []FileRef, files []File, limits Limits,
) error {
	st := &stage{}
	defer st.close()
	if err := s.stageRefs(ctx, op, st, refs, files); err != nil {
		return failure(op, "", err)
	}
	err := s.sandbox.Hold(ctx, session.ID, session.Place.Generation, session.Wall, st.inputs(), limits)
	if errors.Is(err, ErrFull) && s.evict(ctx, session.Owner, sizeOfInputs(files)) {
		err = s.sandbox.Hold(ctx, session.ID, session.Place.Generation, session.Wall, st.inputs(), limits)
	}
	return failure(op, "", err)
}

func sizeOfInputs(files []File) (n int64) {
	for i := range files {
		n += files[i].Size
	}
	return n
}

// release releases a held workspace, also when ctx has ended.
func (s *Service) release(ctx context.Context, session Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := s.sandbox.Release(ctx, session.ID, session.Place.Generation)
	if err != nil {
		s.log.ErrorContext(ctx, "a held workspace could not be released", "session", session.ID, "error", err)
	}
	return err
}

// session finds a session that has not expired, or is in use. An error names it
// as called.
func (s *Service) session(ctx context.Context, op, called string, owner Owner, id ID) (Session, error) {
	var session Session
	err := s.find(ctx, func() (err error) {
		session, err = s.index.Session(ctx, owner, id)
		return err
	}, id)
	session.ExpiresAt = s.touches.expiry(session.life())
	if err == nil && !session.ExpiresAt.After(s.now()) && !s.busy(id) {
		err = ErrNotFound
	}
	if err != nil {
		return Session{}, missing(op, called, err)
	}
	return session, nil
}

// GetSession returns the description of a session.
func (s *Service) GetSession(ctx context.Context, caller Caller, id ID) (Session, error) {
	return s.session(ctx, "get session", id.String(), caller.Owner, id)
}

// SetScope replaces the Scope of a session.
func (s *Service) SetScope(ctx context.Context, caller Caller, id ID, scope string) error {
	return missing("update session", id.String(), s.index.SetScope(ctx, caller.Owner, id, scope))
}

// NameSession sets the name of a session.
func (s *Service) NameSession(ctx context.Context, caller Caller, id ID, name string) error {
	const op = "name session"
	if err := checkName(op, name); err != nil {
		return err
	}
	return missing(op, id.String(), s.index.NameSession(ctx, caller.Owner, id, name))
}

// NameRun sets the name of a run that has ended.
func (s *Service) NameRun(ctx context.Context, caller Caller, id ID, name string) error {
	const op = "name run"
	if err := checkName(op, name); err != nil {
		return err
	}
	return missing(op, id.String(), s.index.NameRun(ctx, caller.Owner, id, name))
}

// maxName bounds the name of a run or session, in bytes.
const maxName = 480

func checkName(op, name string) error {
	if len(name) > maxName || !utf8.ValidString(name) {
		return &Error{Op: op, Kind: ErrInvalid, Hint: fmt.Sprintf("A name has at most %d bytes of UTF-8.", maxName)}
	}
	return nil
}

// SetLive replaces the Live of a live session.
func (s *Service) SetLive(ctx context.Context, caller Caller, id ID, live string) error {
	return missing("update session", id.String(), s.index.SetLive(ctx, caller.Owner, id, live))
}

// SessionsOf returns the sessions of all owners that an edge has made, without implicit ones, for
// an edge that continues with them after a restart. In a cluster they are those of this node.
func (s *Service) SessionsOf(ctx context.Context, origin Origin) ([]Session, error) {
	list, err := s.index.OriginSessions(ctx, origin, s.Self(), false)
	return list, failure("list sessions", "", err)
}

// SessionsOfOthers returns the sessions of all owners that an edge has made and that other nodes have, or had when they
// ended: Claim tells which.
func (s *Service) SessionsOfOthers(ctx context.Context, origin Origin) ([]Session, error) {
	if s.cluster == nil {
		return nil, nil
	}
	list, err := s.index.OriginSessions(ctx, origin, s.Self(), true)
	return list, failure("list sessions", "", err)
}

// ListSessions returns the caller's sessions, newest first, without those
// that were made for a single run.
func (s *Service) ListSessions(ctx context.Context, caller Caller, query SessionQuery) ([]Session, error) {
	query.Owner = caller.Owner
	if err := query.Page.check(); err != nil {
		return nil, err
	}
	sessions, err := s.index.Sessions(ctx, query)
	if err != nil {
		return nil, failure("list sessions", "", err)
	}
	for i := range sessions {
		sessions[i].ExpiresAt = s.touches.expiry(sessions[i].life())
	}
	return sessions, nil
}

// SessionFiles returns the files of a session in order of path, and their
// places in it in the same order.
func (s *Service) SessionFiles(ctx context.Context, caller Caller, id ID) ([]File, []SessionFile, error) {
	const op = "list session files"
	if _, err := s.session(ctx, op, id.String(), caller.Owner, id); err != nil {
		return nil, nil, err
	}
	return s.sessionFiles(ctx, op, caller, id)
}

// sessionFiles does what SessionFiles does, for a session that was just found.
func (s *Service) sessionFiles(ctx context.Context, op string, caller Caller, id ID) ([]File, []SessionFile, error) {
	if err := s.retryUses(ctx); err != nil {
		return nil, nil, failure(op, id.String(), err)
	}
	files, places, err := s.index.SessionFiles(ctx, caller.Owner, id)
	if err != nil {
		return nil, nil, missing(op, id.String(), err)
	}
	for _, mark := range []string{TreeMark, MemoryMark} {
		if i := slices.IndexFunc(places, func(p SessionFile) bool { return p.Path == mark }); i >= 0 {
			files, places = slices.Delete(files, i, i+1), slices.Delete(places, i, i+1)
		}
	}
	for i := range files {
		files[i].ExpiresAt = s.touches.expiry(files[i].life())
	}
	return files, places, nil
}

// SessionFile returns a session, a file that has a place in it, and that place.
// It is a use of the session and of the file.
func (s *Service) SessionFile(
	ctx context.Context, caller Caller, session, file ID,
) (Session, File, SessionFile, error) {
	const op = "find session file"
	within, err := s.session(ctx, op, session.String(), caller.Owner, session)
	if err != nil {
		return Session{}, File{}, SessionFile{}, err
	}
	var found File
	var place SessionFile
	err = s.find(ctx, func() (err error) {
		found, place, err = s.index.SessionFile(ctx, caller.Owner, session, file)
		return err
	}, file, session)
	if found.ExpiresAt = s.touches.expiry(found.life()); err == nil && !found.ExpiresAt.After(s.now()) {
		err = ErrNotFound
	}
	if err != nil {
		return Session{}, File{}, SessionFile{}, missing(op, file.String(), err)
	}
	s.use(ctx, s.now(), found.life(), within.life())
	found.ExpiresAt = s.touches.expiry(found.life())
	return within, found, place, nil
}

// UseSession returns a session with its files and their places, as SessionFiles
// does. It is a use of all of them.
func (s *Service) UseSession(ctx context.Context, caller Caller, id ID) (Session, []File, []SessionFile, error) {
	const op = "use session"
	session, err := s.session(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return Session{}, nil, nil, err
	}
	files, places, err := s.sessionFiles(ctx, op, caller, id)
	if err != nil {
		return Session{}, nil, nil, err
	}
	lives := []life{session.life()}
	for i := range files {
		lives = append(lives, files[i].life())
	}
	s.use(ctx, s.now(), lives...)
	for i := range files {
		files[i].ExpiresAt = s.touches.expiry(files[i].life())
	}
	return session, files, places, nil
}

// DeleteSession kills the runs of a session, releases its workspace and
// deletes it. The files stay until they expire. Of several concurrent calls
// one succeeds.
func (s *Service) DeleteSession(ctx context.Context, caller Caller, id ID) error {
	const op = "delete session"
	session, err := s.session(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return err
	}
	if s.foreign(session.Place.Holder) {
		return s.Elsewhere(ctx, op, id.String(), session.Place.Holder)
	}
	jobs, err := s.beginDelete(op, session, true)
	if err != nil {
		return err
	}
	defer s.endDelete(id)
	for _, j := range jobs {
		j.cancel(errSession)
	}
	for _, j := range jobs {
		if err := awaitEnd(ctx, op, j); err != nil {
			return err
		}
	}
	return s.dropSession(ctx, op, session)
}

// beginDelete marks a session as deleting, which rejects new runs, and returns the
// current runs. If kill is false and there are runs, it refuses: a run prevents
// expiry.
func (s *Service) beginDelete(op string, session Session, kill bool) ([]*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleting[session.ID] {
		return nil, &Error{Op: op, Kind: ErrNotFound, ID: session.ID.String()}
	}
	var jobs []*job
	for _, j := range s.jobs {
		if j.within == session.ID {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) > 0 && !kill {
		return nil, &Error{Op: op, Kind: ErrConflict, ID: session.ID.String()}
	}
	s.deleting[session.ID] = true
	return jobs, nil
}

func (s *Service) endDelete(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.deleting, id)
}

// dropSession releases a session's workspace and then deletes the session, so
// that no workspace outlives its record.
func (s *Service) dropSession(ctx context.Context, op string, session Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if session.Kind != SessionFiles {
		if err := s.sandbox.Release(ctx, session.ID, session.Place.Generation); err != nil {
			return failure(op, session.ID.String(), err)
		}
	}
	return missing(op, session.ID.String(), s.index.DeleteSession(ctx, session.Owner, session.ID))
}

// forget drops a held session whose workspace was lost.
func (s *Service) forget(ctx context.Context, session Session) {
	if err := s.dropSession(ctx, opRun, session); err != nil && !errors.Is(err, ErrNotFound) {
		s.log.ErrorContext(ctx, "a session whose workspace is gone could not be forgotten", "session", session.ID, "error",
			err)
	}
}
