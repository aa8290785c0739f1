package enginetest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// AddSession records a session and its files.
func (x *Index) AddSession(ctx context.Context, session engine.Session, files []engine.SessionFile) error {
	if err := x.called(ctx, "AddSession"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	x.addSession(session, files)
	if err := x.checkQuota("AddSession", session.Owner); err != nil {
		delete(x.sessions, session.ID)
		delete(x.places, session.ID)
		return err
	}
	return nil
}

func (x *Index) addSession(session engine.Session, files []engine.SessionFile) {
	x.sessions[session.ID] = &row[engine.Session]{session, x.next()}
	x.places[session.ID] = map[string]engine.SessionFile{}
	for _, f := range files {
		x.places[session.ID][f.Path] = f
	}
}

// Session returns a session of an owner.
func (x *Index) Session(ctx context.Context, owner engine.Owner, id engine.ID) (engine.Session, error) {
	if err := x.called(ctx, "Session"); err != nil {
		return engine.Session{}, err
	}
	defer x.mu.Unlock()
	r, err := x.session(owner, id)
	if err != nil {
		return engine.Session{}, err
	}
	return r.object, nil
}

// Sessions lists sessions, without implicit ones.
func (x *Index) Sessions(ctx context.Context, q engine.SessionQuery) ([]engine.Session, error) {
	if err := x.called(ctx, "Sessions"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	return page(x.sessions, q.Page, func(s engine.Session) bool {
		return s.Owner == q.Owner && !s.Implicit && (q.Origin == "" || s.Origin == q.Origin) && x.lasts(s.ExpiresAt)
	}), nil
}

// LinkFiles puts files into sessions.
func (x *Index) LinkFiles(ctx context.Context, files []engine.SessionFile) error {
	if err := x.called(ctx, "LinkFiles"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	for _, f := range files {
		r, ok := x.sessions[f.Session]
		if !ok {
			return engine.ErrNotFound
		}
		_, err := x.session(r.object.Owner, f.Session)
		if err == nil {
			_, err = x.file(r.object.Owner, f.File)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range files {
		x.places[f.Session][f.Path] = f
	}
	return nil
}

// SessionFiles returns the files of a session in order of path.
func (x *Index) SessionFiles(
	ctx context.Context, owner engine.Owner, id engine.ID,
) ([]engine.File, []engine.SessionFile, error) {
	if err := x.called(ctx, "SessionFiles"); err != nil {
		return nil, nil, err
	}
	defer x.mu.Unlock()
	if _, err := x.session(owner, id); err != nil {
		return nil, nil, err
	}
	places := slices.SortedFunc(maps.Values(x.places[id]), func(a, b engine.SessionFile) int {
		return strings.Compare(a.Path, b.Path)
	})
	places = slices.DeleteFunc(places, func(p engine.SessionFile) bool {
		_, err := x.file(owner, p.File)
		return err != nil
	})
	files := make([]engine.File, len(places))
	for i, p := range places {
		files[i] = x.files[p.File].object
		files[i].Path = p.Path
	}
	return files, places, nil
}

// SessionFile returns a file of a session and its first place there.
func (x *Index) SessionFile(
	ctx context.Context, owner engine.Owner, session, file engine.ID,
) (engine.File, engine.SessionFile, error) {
	files, places, err := x.SessionFiles(ctx, owner, session)
	if err != nil {
		return engine.File{}, engine.SessionFile{}, err
	}
	for i, place := range places {
		if place.File == file {
			return files[i], place, nil
		}
	}
	return engine.File{}, engine.SessionFile{}, engine.ErrNotFound
}

// DeleteSession deletes a session; its files stay.
func (x *Index) DeleteSession(ctx context.Context, owner engine.Owner, id engine.ID) error {
	if err := x.called(ctx, "DeleteSession"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	r, ok := x.sessions[id]
	if !ok || r.object.Owner != owner {
		return engine.ErrNotFound
	}
	delete(x.sessions, id)
	delete(x.places, id)
	return nil
}

// ExpiredSessions returns sessions that have expired by now.
func (x *Index) ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]engine.Session, error) {
	if err := x.called(ctx, "ExpiredSessions"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	return page(x.sessions, engine.Page{Limit: limit}, func(s engine.Session) bool { return !s.ExpiresAt.After(now) }), nil
}

// SetScope replaces the scope of a session.
func (x *Index) SetScope(ctx context.Context, owner engine.Owner, id engine.ID, scope string) error {
	if err := x.called(ctx, "SetScope"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	r, err := x.session(owner, id)
	if err == nil {
		r.object.Scope = scope
	}
	return err
}

// NameSession sets the name of a session.
func (x *Index) NameSession(ctx context.Context, owner engine.Owner, id engine.ID, name string) error {
	if err := x.called(ctx, "NameSession"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	r, err := x.session(owner, id)
	if err == nil {
		r.object.Name = name
	}
	return err
}

// SetLive replaces how the interpreter of a session is started.
func (x *Index) SetLive(ctx context.Context, owner engine.Owner, id engine.ID, live string) error {
	if err := x.called(ctx, "SetLive"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	r, err := x.session(owner, id)
	if err == nil {
		r.object.Live = live
	}
	return err
}

// OriginSessions returns the sessions of an origin.
func (x *Index) OriginSessions(
	ctx context.Context, origin engine.Origin, _ engine.Epoch, others bool,
) ([]engine.Session, error) {
	if others {
		return nil, nil // there is one node
	}
	if err := x.called(ctx, "OriginSessions"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	return page(x.sessions, engine.Page{Limit: len(x.sessions) + 1}, func(s engine.Session) bool {
		return s.Origin == origin && !s.Implicit && x.lasts(s.ExpiresAt)
	}), nil
}

// HeldSessions returns every held session.
func (x *Index) HeldSessions(ctx context.Context, _ engine.Epoch) ([]engine.Session, error) {
	if err := x.called(ctx, "HeldSessions"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	everything := engine.Page{Limit: len(x.sessions) + 1}
	return page(x.sessions, everything, func(s engine.Session) bool { return s.Kind == engine.SessionHeld }), nil
}
