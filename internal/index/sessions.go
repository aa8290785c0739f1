package index

import (
	"context"
	"math"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	sessionColumns = "id, owner, origin, kind, implicit, scope, live, created_us, expires_us, ttl_us, " +
		"holder, worker, generation"

	touchSession = "UPDATE sessions SET expires_us = max(expires_us, ? + ttl_us) WHERE id = ?"

	// A file and a session of two owners never meet: the join finds nothing.
	linkFile = `INSERT INTO session_files (session, path, file, role, read_only)
		SELECT s.id, ?, f.id, ?, CAST(? AS BIGINT) FROM sessions s JOIN files f ON f.owner = s.owner
		WHERE s.id = ? AND f.id = ? AND s.expires_us > ? AND f.expires_us > ?
		ON CONFLICT (session, path) DO UPDATE SET file = excluded.file, role = excluded.role, read_only = excluded.read_only`
)

// always is an instant before every expiry.
const always int64 = math.MinInt64

func scanSession(row scanner) (s engine.Session, err error) {
	err = row.Scan(idColumn{&s.ID}, &s.Owner, &s.Origin, &s.Kind, &s.Implicit, &s.Scope, &s.Live,
		timeColumn{&s.CreatedAt}, timeColumn{&s.ExpiresAt}, durationColumn{&s.TTL},
		&s.Place.Holder, &s.Place.Worker, &s.Place.Generation)
	if s.Live != "" {
		s.Kind = engine.SessionLive
	}
	return s, err
}

func insertSession(ctx context.Context, c *conn, s *engine.Session) error {
	kind := s.Kind
	if kind == engine.SessionLive { // it keeps its files as live sessions do
		kind = engine.SessionFiles
	}
	_, err := c.exec(ctx, "INSERT INTO sessions ("+sessionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		s.ID[:], s.Owner, s.Origin, kind, s.Implicit, s.Scope, s.Live, s.CreatedAt.UnixMicro(), s.ExpiresAt.UnixMicro(),
		s.TTL.Microseconds(), int64(s.Place.Holder), int64(s.Place.Worker), s.Place.Generation)
	return err
}

// link puts a file into a session, if both are there, have one owner, and
// have not expired by now.
func link(ctx context.Context, c *conn, f engine.SessionFile, now int64) error {
	return changed(c.exec(ctx, linkFile, f.Path, f.Role, f.ReadOnly, f.Session[:], f.File[:], now, now))
}

func (db *DB) linkAll(ctx context.Context, c *conn, files []engine.SessionFile) error {
	now := db.micros()
	for _, f := range files {
		if err := link(ctx, c, f, now); err != nil {
			return failed("link file", f.File.String(), err)
		}
	}
	return nil
}

// AddSession records a session with files in it, engine.ErrFull if that is one
// more than its owner may keep. A live one without files does not wait for the disk:
// the first write that does, as of its first file, takes it along.
func (db *DB) AddSession(ctx context.Context, session engine.Session, files []engine.SessionFile) error {
	const op = "add session"
	write := db.write
	if session.Kind == engine.SessionLive && len(files) == 0 {
		write = db.writeNoSync
	}
	return write(ctx, op, session.ID.String(), func(ctx context.Context, c *conn) error {
		if err := insertSession(ctx, c, &session); err != nil {
			return err
		}
		if err := checkQuota(ctx, c, op, session.Owner, engine.Quota{Sessions: db.quota.Sessions}); err != nil {
			return err
		}
		return db.linkAll(ctx, c, files)
	})
}

const liveSession = "SELECT " + sessionColumns + " FROM sessions WHERE id = ? AND owner = ? AND expires_us > ?"

// Session returns a session that has not expired.
func (db *DB) Session(ctx context.Context, owner engine.Owner, id engine.ID) (engine.Session, error) {
	return find(ctx, db, "get session", id.String(), scanSession, liveSession, id[:], owner, db.micros())
}

// Sessions returns one page of an owner's sessions that have not expired, the
// implicit ones left out.
func (db *DB) Sessions(ctx context.Context, q engine.SessionQuery) (sessions []engine.Session, err error) {
	err = db.read(ctx, "list sessions", "", func(c *conn) error {
		from, err := findPlace(ctx, c, "SELECT created_us FROM sessions WHERE id = ? AND owner = ?", q.Owner, q.Page)
		if err != nil {
			return err
		}
		sessions, err = rows(ctx, c, scanSession, "SELECT "+sessionColumns+` FROM sessions
			WHERE owner = ? AND implicit = 0 AND (? = '' OR origin = ?) AND expires_us > ?
			AND (created_us, id) < (?, ?) ORDER BY created_us DESC, id DESC LIMIT ?`,
			q.Owner, q.Origin, q.Origin, db.micros(), from.created, from.id[:], from.limit)
		return err
	})
	return sessions, err
}

// LinkFiles puts files into sessions; a link replaces one at the same path.
// It fails with engine.ErrNotFound, and puts none, if a file or its session is
// gone or they have two owners.
func (db *DB) LinkFiles(ctx context.Context, files []engine.SessionFile) error {
	if len(files) == 0 {
		return nil
	}
	return db.write(ctx, "link files", "", func(ctx context.Context, c *conn) error {
		return db.linkAll(ctx, c, files)
	})
}

// SessionFiles returns the files of a session in order of path, without those
// that have expired. File.Path is the place in the session.
func (db *DB) SessionFiles(
	ctx context.Context, owner engine.Owner, id engine.ID,
) (files []engine.File, places []engine.SessionFile, err error) {
	scan := func(row scanner) (place engine.SessionFile, err error) {
		var f engine.File
		err = row.Scan(append(fileFields(&f), &place.Path, &place.Role, &place.ReadOnly)...)
		place.Session, place.File = id, f.ID
		f.Path = place.Path
		files = append(files, f)
		return place, err
	}
	err = db.look(ctx, "list session files", id.String(), func(c *conn) error {
		places, err = rows(ctx, c, scan, "SELECT "+fileColumns+`, l.path, l.role, l.read_only
			FROM session_files l JOIN files f ON f.id = l.file JOIN sessions s ON s.id = l.session
			WHERE l.session = ? AND f.owner = ? AND s.owner = f.owner AND f.expires_us > ? AND s.expires_us > ?
			ORDER BY l.path`, id[:], owner, db.micros(), db.micros())
		if err == nil && len(places) == 0 { // it has none, or it is not there
			_, err = one(ctx, c, scanSession, liveSession, id[:], owner, db.micros())
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return files, places, nil
}

// SessionFile returns one file of a session that has not expired, and its first
// place there.
func (db *DB) SessionFile(
	ctx context.Context, owner engine.Owner, session, file engine.ID,
) (found engine.File, place engine.SessionFile, err error) {
	place = engine.SessionFile{Session: session, File: file}
	scan := func(row scanner) (f engine.File, err error) {
		err = row.Scan(append(fileFields(&f), &place.Path, &place.Role, &place.ReadOnly)...)
		f.Path = place.Path
		return f, err
	}
	err = db.read(ctx, "find session file", file.String(), func(c *conn) error {
		found, err = one(ctx, c, scan, "SELECT "+fileColumns+`, l.path, l.role, l.read_only
			FROM session_files l JOIN files f ON f.id = l.file JOIN sessions s ON s.id = l.session
			WHERE l.file = ? AND l.session = ? AND f.owner = ? AND s.owner = f.owner AND f.expires_us > ? AND s.expires_us > ?
			ORDER BY l.path LIMIT 1`, file[:], session[:], owner, db.micros(), db.micros())
		return err
	})
	return found, place, err
}

// DeleteSession deletes a session, expired or not, and its links. The files
// stay.
func (db *DB) DeleteSession(ctx context.Context, owner engine.Owner, id engine.ID) error {
	return writing(db.erase).change(ctx, "delete session", id.String(),
		"DELETE FROM sessions WHERE id = ? AND owner = ?", id[:], owner)
}

// ExpiredSessions returns up to limit sessions that have expired by now, the
// implicit ones too, the oldest first.
func (db *DB) ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]engine.Session, error) {
	return list(ctx, db, "list expired sessions", scanSession, "SELECT "+sessionColumns+
		" FROM sessions WHERE expires_us <= ? ORDER BY expires_us, id LIMIT ?", now.UnixMicro(), limit)
}

// HeldSessions returns every session with a held workspace that belongs to a node,
// including expired sessions.
func (db *DB) HeldSessions(ctx context.Context, holder engine.Epoch) ([]engine.Session, error) {
	return list(ctx, db, "list held sessions", scanSession, "SELECT "+sessionColumns+
		" FROM sessions WHERE kind = 'held' AND holder = ? ORDER BY id", int64(holder))
}
