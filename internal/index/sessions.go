package index

import (
	"context"
	"math"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	sessionColumns = "id, owner, origin, kind, implicit, scope, live, created_us, expires_us, ttl_us, " +
		"holder, worker, generation, wall, name"

	touchSession = "UPDATE sessions SET " + touched + " WHERE id = $2"

	// A file and a session of two owners never meet: the join finds nothing.
	linkFile = `INSERT INTO session_files (session, path, file, role, read_only)
		SELECT s.id, $1, f.id, $2, CAST($3 AS BIGINT) FROM sessions s JOIN files f ON f.owner = s.owner
		WHERE s.id = $4 AND f.id = $5 AND s.expires_us > $6 AND f.expires_us > $6
		ON CONFLICT (session, path) DO UPDATE SET file = excluded.file, role = excluded.role, read_only = excluded.read_only`
)

// always is an instant before every expiry.
const always int64 = math.MinInt64

func scanSession(row scanner) (s engine.Session, err error) {
	err = row.Scan(idColumn{&s.ID}, &s.Owner, &s.Origin, &s.Kind, &s.Implicit, &s.Scope, &s.Live,
		timeColumn{&s.CreatedAt}, timeColumn{&s.ExpiresAt}, durationColumn{&s.TTL},
		&s.Place.Holder, &s.Place.Worker, &s.Place.Generation, &s.Wall, &s.Name)
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
	_, err := c.exec(ctx, "INSERT INTO sessions ("+sessionColumns+
		") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
		s.ID[:], s.Owner, s.Origin, kind, s.Implicit, s.Scope, s.Live, s.CreatedAt.UnixMicro(), s.ExpiresAt.UnixMicro(),
		s.TTL.Microseconds(), int64(s.Place.Holder), int64(s.Place.Worker), s.Place.Generation, s.Wall, s.Name)
	return err
}

// link puts a file into a session, if both are there, have one owner, and
// have not expired by now.
func link(ctx context.Context, c *conn, f engine.SessionFile, now int64) error {
	return changed(c.exec(ctx, linkFile, f.Path, f.Role, f.ReadOnly, f.Session[:], f.File[:], now))
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

const liveSession = "SELECT " + sessionColumns + " FROM sessions WHERE id = $1 AND owner = $2 AND expires_us > $3"

// Session returns a session that has not expired.
func (db *DB) Session(ctx context.Context, owner engine.Owner, id engine.ID) (engine.Session, error) {
	return find(ctx, db, "get session", id.String(), scanSession, liveSession, id[:], owner, db.micros())
}

// Sessions returns one page of an owner's sessions that have not expired, the
// implicit ones left out.
func (db *DB) Sessions(ctx context.Context, q engine.SessionQuery) (sessions []engine.Session, err error) {
	err = db.read(ctx, "list sessions", "", func(c *conn) error {
		from, err := findCursor(ctx, c, "SELECT created_us FROM sessions WHERE id = $1 AND owner = $2", q.Owner, q.Page)
		if err != nil {
			return err
		}
		sessions, err = rows(ctx, c, scanSession, "SELECT "+sessionColumns+` FROM sessions
			WHERE owner = $1 AND implicit = 0 AND ($2 = '' OR origin = $2) AND expires_us > $3
			AND (created_us, id) < ($4, $5) ORDER BY created_us DESC, id DESC LIMIT $6`,
			q.Owner, q.Origin, db.micros(), from.created, from.id[:], from.limit)
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
// that have expired. File.Path is the path in the session.
func (db *DB) SessionFiles(
	ctx context.Context, owner engine.Owner, id engine.ID,
) (files []engine.File, links []engine.SessionFile, err error) {
	scan := func(row scanner) (link engine.SessionFile, err error) {
		var f engine.File
		err = row.Scan(append(fileFields(&f), &link.Path, &link.Role, &link.ReadOnly)...)
		link.Session, link.File = id, f.ID
		f.Path = link.Path
		files = append(files, f)
		return link, err
	}
	err = db.look(ctx, "list session files", id.String(), func(c *conn) error {
		links, err = rows(ctx, c, scan, "SELECT "+fileColumns+`, l.path, l.role, l.read_only
			FROM session_files l JOIN files f ON f.id = l.file JOIN sessions s ON s.id = l.session
			WHERE l.session = $1 AND f.owner = $2 AND s.owner = f.owner AND f.expires_us > $3 AND s.expires_us > $3
			ORDER BY l.path`, id[:], owner, db.micros())
		if err == nil && len(links) == 0 { // it has none, or it is not there
			_, err = one(ctx, c, scanSession, liveSession, id[:], owner, db.micros())
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return files, links, nil
}

// SessionFile returns one file of a session that has not expired, and its first
// link there.
func (db *DB) SessionFile(
	ctx context.Context, owner engine.Owner, session, file engine.ID,
) (found engine.File, link engine.SessionFile, err error) {
	link = engine.SessionFile{Session: session, File: file}
	scan := func(row scanner) (f engine.File, err error) {
		err = row.Scan(append(fileFields(&f), &link.Path, &link.Role, &link.ReadOnly)...)
		f.Path = link.Path
		return f, err
	}
	err = db.read(ctx, "find session file", file.String(), func(c *conn) error {
		found, err = one(ctx, c, scan, "SELECT "+fileColumns+`, l.path, l.role, l.read_only
			FROM session_files l JOIN files f ON f.id = l.file JOIN sessions s ON s.id = l.session
			WHERE l.file = $1 AND l.session = $2 AND f.owner = $3 AND s.owner = f.owner
			AND f.expires_us > $4 AND s.expires_us > $4
			ORDER BY l.path LIMIT 1`, file[:], session[:], owner, db.micros())
		return err
	})
	return found, link, err
}

// DeleteSession deletes a session, expired or not, and its links. The files
// stay.
func (db *DB) DeleteSession(ctx context.Context, owner engine.Owner, id engine.ID) error {
	return writing(db.erase).change(ctx, "delete session", id.String(),
		"DELETE FROM sessions WHERE id = $1 AND owner = $2", id[:], owner)
}

// ExpiredSessions returns up to limit sessions that have expired by now, the
// implicit ones too, the oldest first.
func (db *DB) ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]engine.Session, error) {
	return list(ctx, db, "list expired sessions", scanSession, "SELECT "+sessionColumns+
		" FROM sessions WHERE expires_us <= $1 ORDER BY expires_us, id LIMIT $2", now.UnixMicro(), limit)
}

// SetScope replaces the scope of a session that has not expired.
func (db *DB) SetScope(ctx context.Context, owner engine.Owner, id engine.ID, scope string) error {
	return writing(db.write).change(ctx, "update session", id.String(),
		"UPDATE sessions SET scope = $1 WHERE id = $2 AND owner = $3 AND expires_us > $4", scope, id[:], owner, db.micros())
}

// NameSession sets the name of a session that has not expired.
func (db *DB) NameSession(ctx context.Context, owner engine.Owner, id engine.ID, name string) error {
	return writing(db.write).change(ctx, "name session", id.String(),
		"UPDATE sessions SET name = $1 WHERE id = $2 AND owner = $3 AND expires_us > $4", name, id[:], owner, db.micros())
}

// SetLive replaces what the interpreter of a live session that has not expired is started with.
func (db *DB) SetLive(ctx context.Context, owner engine.Owner, id engine.ID, live string) error {
	return writing(db.write).change(ctx, "update session", id.String(),
		"UPDATE sessions SET live = $1 WHERE id = $2 AND owner = $3 AND live != '' AND expires_us > $4", live, id[:], owner,
		db.micros())
}

// OriginSessions returns the sessions of an edge that belong to a node and have not expired, without implicit ones.
func (db *DB) OriginSessions(
	ctx context.Context, origin engine.Origin, holder engine.Epoch, others bool,
) ([]engine.Session, error) {
	is := "="
	if others {
		is = "<>"
	}
	return list(ctx, db, "list sessions of an origin", scanSession, "SELECT "+sessionColumns+
		" FROM sessions WHERE implicit = 0 AND origin = $1 AND holder "+is+" $2 AND expires_us > $3 ORDER BY created_us, id",
		origin, int64(holder), db.micros())
}

// HeldSessions returns every session with a held workspace that belongs to a node,
// including expired sessions.
func (db *DB) HeldSessions(ctx context.Context, holder engine.Epoch) ([]engine.Session, error) {
	return list(ctx, db, "list held sessions", scanSession, "SELECT "+sessionColumns+
		" FROM sessions WHERE kind = 'held' AND holder = $1 ORDER BY id", int64(holder))
}
