package engine

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"
)

// A Snapshot is the files of a session at one moment, and its memory if it has that, under an id of its own: any number
// of sessions can be made of it, also when its session is gone. It shares its bytes with the
// files of the session and of its copies; they count against the quota of its owner each time.
type Snapshot struct {
	ID        ID
	Owner     Owner
	Origin    Origin
	Name      string // as the caller named it; empty: it has none
	Session   ID     // of which it was made
	Kind      SessionKind
	Live      string // of its session, see there
	Wall      Wall   // of its session, which sessions that are made of it have at least
	Files     int
	Bytes     int64 // of the files and the memory
	Memory    bool  // sessions that are made of it go on with its variables and processes
	CreatedAt time.Time
	ExpiresAt time.Time
	TTL       time.Duration // making a session of it moves ExpiresAt to now + TTL

	Dropped []DroppedFile // files of the session that it lacks; known only when it is made
}

// SnapshotQuery selects snapshots for a list, newest first.
type SnapshotQuery struct {
	Owner   Owner
	Session ID     // zero: of every session
	Name    string // empty: every name
	Page    Page
}

// CopySource is what a session is copied from: a session, or a snapshot.
type CopySource struct {
	Session, Snapshot ID
	Memory            bool // with its stored memory, if it has any
}

// ID returns the one that is set.
func (c CopySource) ID() ID {
	if c.Snapshot.IsZero() {
		return c.Session
	}
	return c.Snapshot
}

// MaxCopies bounds how many sessions one request makes.
const MaxCopies = 100

var snapshotName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)
})

// AddSnapshot makes a snapshot of a session. What programs have changed in the workspace so far is stored first;
// a file that is being written is as far as it is. When AddSnapshot returns, the snapshot is durable; before,
// nothing of it is there. Memory that is stored with the session is part of it if it is asked for.
func (s *Service) AddSnapshot(ctx context.Context, caller Caller, id ID, name string, memory bool) (Snapshot, error) {
	const op = "snapshot"
	if name != "" && !snapshotName().MatchString(name) {
		return Snapshot{}, Invalid("name",
			"must be up to 128 letters, digits and . _ : / -, of which the first is a letter or a digit")
	}
	session, dropped, err := s.flushSession(ctx, op, caller, id)
	if err != nil {
		return Snapshot{}, err
	}
	now := s.now()
	made, err := s.index.AddSnapshot(ctx, Snapshot{ID: NewID(), Owner: caller.Owner, Origin: session.Origin, Name: name,
		Session: id, CreatedAt: now, ExpiresAt: now.Add(s.cfg.SnapshotTTL), TTL: s.cfg.SnapshotTTL, Memory: memory})
	made.Dropped = dropped
	return made, missing(op, id.String(), err)
}

// flushSession returns a session of which all changes in the workspace are stored, and the files that could not be.
func (s *Service) flushSession(ctx context.Context, op string, caller Caller, id ID) (Session, []DroppedFile, error) {
	if err := s.accepting(op); err != nil {
		return Session{}, nil, err
	}
	session, err := s.session(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return session, nil, err
	}
	if s.foreign(session.Place.Holder) {
		return session, nil, s.Elsewhere(ctx, op, id.String(), session.Place.Holder)
	}
	if err := s.RoomFor(op); err != nil {
		return session, nil, err
	}
	s.use(ctx, s.now(), session.life())
	if session.Kind == SessionFiles {
		return session, nil, nil
	}
	saved, err := s.SaveAll(ctx, session)
	return session, saved.Dropped, err
}

// SaveAll stores all changes in the workspace of a session, or those at or below paths, whatever the limits of a run
// are. Without a workspace there are none; for paths, that is an error.
func (s *Service) SaveAll(ctx context.Context, session Session, paths ...string) (all Saved, err error) {
	limits := s.cfg.Defaults
	limits.Files = FileLimit{Count: limits.Files.Count, Bytes: limits.Workspace, Total: limits.Workspace}
	if s.cfg.Maxima.Files.Count > 0 {
		limits.Files.Count = s.cfg.Maxima.Files.Count
	}
	for {
		saved, err := s.SaveSession(ctx, session, limits, paths...)
		if errors.Is(err, ErrNotFound) && len(paths) == 0 {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all.Files, all.Deleted, all.Dropped = append(all.Files, saved.Files...), append(all.Deleted, saved.Deleted...),
			saved.Dropped
		if !saved.more() {
			return all, nil
		}
	}
}

// more reports whether another SaveSession stores more: as many files as may be were handed over.
func (s *Saved) more() bool {
	return len(s.Files) > 0 && slices.ContainsFunc(s.Dropped, func(d DroppedFile) bool {
		return d.Reason == DropTooMany || d.Reason == DropTotal
	})
}

// GetSnapshot returns a snapshot by its id, or the newest of a name.
func (s *Service) GetSnapshot(ctx context.Context, caller Caller, called string) (Snapshot, error) {
	const op = "get snapshot"
	if id, err := ParseID(called); err == nil {
		found, err := s.index.Snapshot(ctx, caller.Owner, id)
		if !errors.Is(err, ErrNotFound) {
			return found, failure(op, called, err)
		}
	}
	if !snapshotName().MatchString(called) {
		return Snapshot{}, NotFound(op, called)
	}
	list, err := s.index.Snapshots(ctx, SnapshotQuery{Owner: caller.Owner, Name: called, Page: Page{Limit: 1}})
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Snapshot{}, missing(op, called, err)
	}
	return list[0], nil
}

// ListSnapshots returns the caller's snapshots, newest first.
func (s *Service) ListSnapshots(ctx context.Context, caller Caller, query SnapshotQuery) ([]Snapshot, error) {
	query.Owner = caller.Owner
	if err := query.Page.check(); err != nil {
		return nil, err
	}
	list, err := s.index.Snapshots(ctx, query)
	return list, failure("list snapshots", "", err)
}

// DeleteSnapshot deletes a snapshot. Sessions that were made of it keep their files.
func (s *Service) DeleteSnapshot(ctx context.Context, caller Caller, id ID) error {
	digests, err := s.index.DeleteSnapshot(ctx, caller.Owner, id)
	if err != nil {
		return missing("delete snapshot", id.String(), err)
	}
	s.janitor.enqueueOrphans(digests...)
	return nil
}

// CopySession makes sessions of those of requests, whose files are copies of those of a session or a snapshot: all
// of them or none. The kind of each is that of the source. It returns the files of a session that its copies lack.
func (s *Service) CopySession(
	ctx context.Context, caller Caller, from CopySource, requests []SessionRequest,
) (made []Session, dropped []DroppedFile, err error) {
	const op = "copy session"
	if len(requests) < 1 || len(requests) > MaxCopies {
		return nil, nil, Invalid("count", "must be 1 to %d", MaxCopies)
	}
	var kind SessionKind
	var wall Wall // of the source
	if from.Snapshot.IsZero() {
		var session Session
		session, dropped, err = s.flushSession(ctx, op, caller, from.Session)
		kind, wall = session.Kind, session.Wall
	} else {
		var snapshot Snapshot
		snapshot, err = s.GetSnapshot(ctx, caller, from.Snapshot.String())
		kind, wall = snapshot.Kind, snapshot.Wall
	}
	if err == nil {
		err = s.accepting(op)
	}
	if err == nil {
		err = s.RoomFor(op)
	}
	if err != nil {
		return nil, nil, err
	}
	longest := s.cfg.FileTTL
	for _, req := range requests {
		req.Kind = kind
		if _, err := s.checkSession(&req); err != nil {
			return nil, nil, err
		}
		session, err := s.place(s.newSession(caller, req.Origin, kind, req.TTL))
		if err != nil {
			return nil, nil, err
		}
		if session.Wall, err = s.ChooseWall(caller, req.Wall); err != nil {
			return nil, nil, err
		}
		session.Scope, session.Live, session.Wall = req.Scope, req.Live, session.Wall.Stronger(wall)
		made, longest = append(made, session), max(longest, session.TTL)
	}
	if err := s.index.AddCopies(ctx, from, made, longest); err != nil {
		return nil, nil, missing(op, from.ID().String(), err)
	}
	if kind == SessionHeld {
		for _, session := range made {
			if err := s.holdCopy(ctx, session); err != nil { // its first run tries again
				s.log.WarnContext(ctx, "a copy of a session has no workspace yet", "session", session.ID, "error", err)
			}
		}
	}
	return made, dropped, nil
}

// holdCopy makes the workspace of a held session that is a copy.
func (s *Service) holdCopy(ctx context.Context, session Session) error {
	j := &job{id: NewID(), owner: session.Owner, session: session}
	j.inUse = s.keep(ctx, j)
	defer j.inUse.end()
	_, err := s.restore(ctx, j, s.cfg.Defaults)
	return err
}

// place gives a session that is kept in memory its place in the cluster.
func (s *Service) place(session Session) (Session, error) {
	if session.Kind == SessionFiles || s.cluster == nil {
		return session, nil
	}
	if err := s.cluster.Check(); err != nil {
		return session, err
	}
	session.Place = Place{Holder: s.cluster.Self(), Generation: 1}
	return session, nil
}

// ErrNoMemory is the cause of what asks for memory that is not kept.
var ErrNoMemory = errors.New("is kept in sessions of the gVisor wall alone, and this session has the shared kernel")

// RefuseMemory returns the error of a request that wants variables and processes kept with the files.
func RefuseMemory(op string) error {
	return &Error{Op: op, Kind: ErrInvalid, ID: "memory", Err: ErrNoMemory,
		Hint: `Ask for the files alone, with "memory": false: variables and processes end, and the next use starts anew ` +
			"with the files."}
}
