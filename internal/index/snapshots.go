package index

import (
	"context"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const snapshotColumns = "id, owner, origin, name, session, kind, live, files, bytes, " +
	"created_us, expires_us, ttl_us, wall"

// snapshotRead are the columns that scanSnapshot reads.
const snapshotRead = snapshotColumns + ", EXISTS (SELECT 1 FROM snapshot_files m WHERE m.snapshot = snapshots.id AND " +
	"m.path = '" + engine.MemoryMark + "')"

func scanSnapshot(row scanner) (s engine.Snapshot, err error) {
	err = row.Scan(idColumn{&s.ID}, &s.Owner, &s.Origin, &s.Name, idColumn{&s.Session}, &s.Kind, &s.Live, &s.Files,
		&s.Bytes, timeColumn{&s.CreatedAt}, timeColumn{&s.ExpiresAt}, durationColumn{&s.TTL}, &s.Wall, &s.Memory)
	if s.Live != "" {
		s.Kind = engine.SessionLive
	}
	return s, err
}

// AddSnapshot records a snapshot with the files that its session has, which it counts, and with its stored memory if
// the snapshot is to have that and the session has it: engine.ErrFull if that is more than the owner may keep.
func (db *DB) AddSnapshot(ctx context.Context, s engine.Snapshot) (engine.Snapshot, error) {
	const op = "add snapshot"
	err := db.write(ctx, op, s.ID.String(), func(ctx context.Context, c *conn) error {
		now := db.micros()
		session, err := one(ctx, c, scanSession, liveSession, s.Session[:], s.Owner, now)
		if err != nil {
			return err
		}
		kind := session.Kind
		if s.Kind, s.Live, s.Wall = kind, session.Live, session.Wall; kind == engine.SessionLive {
			kind = engine.SessionFiles
		}
		without := engine.MemoryMark
		if s.Memory {
			without = ""
		}
		err = c.row(ctx, []any{&s.Files, &s.Bytes, &s.Memory}, `SELECT count(CASE WHEN l.path <> $4 THEN 1 END),
			CAST(coalesce(sum(f.size), 0) AS BIGINT), count(CASE WHEN l.path = $4 THEN 1 END) > 0
			FROM session_files l JOIN files f ON f.id = l.file
			WHERE l.session = $1 AND f.owner = $2 AND f.expires_us > $3 AND l.path <> $5`, s.Session[:], s.Owner, now,
			engine.MemoryMark, without)
		if err != nil {
			return err
		}
		_, err = c.exec(ctx, "INSERT INTO snapshots ("+snapshotColumns+
			") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
			s.ID[:], s.Owner, s.Origin, s.Name, s.Session[:], kind, s.Live, s.Files, s.Bytes, s.CreatedAt.UnixMicro(),
			s.ExpiresAt.UnixMicro(), s.TTL.Microseconds(), s.Wall)
		if err != nil {
			return err
		}
		_, err = c.exec(ctx, `INSERT INTO snapshot_files (snapshot, path, name, size, mime, sha256, role, read_only)
			SELECT n.id, l.path, f.name, f.size, f.mime, f.sha256, l.role, l.read_only
			FROM snapshots n JOIN session_files l ON l.session = n.session JOIN files f ON f.id = l.file
			WHERE n.id = $1 AND f.owner = n.owner AND f.expires_us > $2 AND l.path <> $3`, s.ID[:], now, without)
		if err != nil {
			return err
		}
		return db.checkFiles(ctx, c, op, s.Owner)
	})
	return s, err
}

const lastingSnapshot = "SELECT " + snapshotRead + " FROM snapshots WHERE owner = $1 AND id = $2 AND expires_us > $3"

// Snapshot returns a snapshot that has not expired.
func (db *DB) Snapshot(ctx context.Context, owner engine.Owner, id engine.ID) (engine.Snapshot, error) {
	return find(ctx, db, "get snapshot", id.String(), scanSnapshot, lastingSnapshot, owner, id[:], db.micros())
}

// Snapshots returns one page of an owner's snapshots that have not expired.
func (db *DB) Snapshots(ctx context.Context, q engine.SnapshotQuery) (found []engine.Snapshot, err error) {
	err = db.read(ctx, "list snapshots", "", func(c *conn) error {
		from, err := findCursor(ctx, c, "SELECT created_us FROM snapshots WHERE id = $1 AND owner = $2", q.Owner, q.Page)
		if err != nil {
			return err
		}
		every := 0
		if q.Session.IsZero() {
			every = 1
		}
		found, err = rows(ctx, c, scanSnapshot, "SELECT "+snapshotRead+` FROM snapshots
			WHERE owner = $1 AND ($2 = '' OR name = $2) AND expires_us > $3 AND (CAST($4 AS BIGINT) = 1 OR session = $5)
			AND (created_us, id) < ($6, $7) ORDER BY created_us DESC, id DESC LIMIT $8`,
			q.Owner, q.Name, db.micros(), every, q.Session[:], from.created, from.id[:], from.limit)
		return err
	})
	return found, err
}

// DeleteSnapshot deletes a snapshot, and returns the digests of its files.
func (db *DB) DeleteSnapshot(
	ctx context.Context, owner engine.Owner, id engine.ID,
) (digests []engine.Digest, err error) {
	err = db.erase(ctx, "delete snapshot", id.String(), func(ctx context.Context, c *conn) error {
		digests, err = rows(ctx, c, func(row scanner) (d engine.Digest, err error) {
			return d, row.Scan(digestColumn{&d})
		}, "SELECT DISTINCT sha256 FROM snapshot_files WHERE snapshot = $1", id[:])
		if err != nil {
			return err
		}
		return changed(c.exec(ctx, "DELETE FROM snapshots WHERE id = $1 AND owner = $2 AND expires_us > $3",
			id[:], owner, db.micros()))
	})
	if err != nil {
		return nil, err
	}
	return digests, nil
}

// ExpireSnapshots deletes up to limit snapshots that have expired by now.
func (db *DB) ExpireSnapshots(ctx context.Context, now time.Time, limit int) (int, error) {
	return writing(db.erase).exec(ctx, "expire snapshots", "",
		"DELETE FROM snapshots WHERE id IN (SELECT id FROM snapshots WHERE expires_us <= $1 ORDER BY expires_us LIMIT $2)",
		now.UnixMicro(), limit)
}

// copied is a file that a copy of a session is to have.
type copied struct {
	file engine.File
	link engine.SessionFile
}

func scanCopied(row scanner) (c copied, err error) {
	err = row.Scan(&c.link.Path, &c.file.Name, &c.file.Size, &c.file.MIME, digestColumn{&c.file.SHA256}, &c.link.Role,
		&c.link.ReadOnly)
	return c, err
}

// AddCopies records sessions, each with files of its own that have the contents of those of a session or a
// snapshot. All are recorded or none: engine.ErrFull if that is more than the owner may keep. It is a use of the
// snapshot.
func (db *DB) AddCopies(
	ctx context.Context, source engine.CopySource, sessions []engine.Session, ttl time.Duration,
) error {
	const op = "copy session"
	return db.write(ctx, op, source.ID().String(), func(ctx context.Context, c *conn) error {
		owner, now := sessions[0].Owner, db.micros()
		var files []copied
		var err error
		if id := source.Snapshot; !id.IsZero() {
			if err = changed(c.exec(ctx, "UPDATE snapshots SET "+touched+" WHERE id = $2 AND owner = $3 AND expires_us > $1",
				now, id[:], owner)); err != nil {
				return err
			}
			files, err = rows(ctx, c, scanCopied, `SELECT path, name, size, mime, sha256, role, read_only FROM snapshot_files
				WHERE snapshot = $1 ORDER BY path`, id[:])
		} else {
			id = source.Session
			if _, err = one(ctx, c, scanSession, liveSession, id[:], owner, now); err != nil {
				return err
			}
			files, err = rows(ctx, c, scanCopied, `SELECT l.path, f.name, f.size, f.mime, f.sha256, l.role, l.read_only
				FROM session_files l JOIN files f ON f.id = l.file
				WHERE l.session = $1 AND f.owner = $2 AND f.expires_us > $3 ORDER BY l.path`, id[:], owner, now)
		}
		if err != nil {
			return err
		}
		if !source.Memory {
			files = slices.DeleteFunc(files, func(c copied) bool { return c.link.Path == engine.MemoryMark })
		}
		for i := range sessions {
			if err := addCopy(ctx, c, &sessions[i], files, ttl); err != nil {
				return err
			}
		}
		if err := db.checkFiles(ctx, c, op, owner); err != nil {
			return err
		}
		return checkQuota(ctx, c, op, owner, engine.Quota{Sessions: db.quota.Sessions})
	})
}

// addCopy records a session with files of its own.
func addCopy(ctx context.Context, c *conn, s *engine.Session, files []copied, ttl time.Duration) error {
	if err := insertSession(ctx, c, s); err != nil {
		return err
	}
	for _, each := range files {
		f, link := each.file, each.link
		f.ID, f.Owner, f.Origin, f.Path = engine.NewID(), s.Owner, s.Origin, link.Path
		f.CreatedAt, f.ExpiresAt, f.TTL = s.CreatedAt, s.CreatedAt.Add(ttl), ttl
		if err := insertFile(ctx, c, f); err != nil {
			return err
		}
		if _, err := c.exec(ctx, "INSERT INTO session_files (session, path, file, role, read_only) "+
			"VALUES ($1, $2, $3, $4, CAST($5 AS BIGINT))", s.ID[:], link.Path, f.ID[:], link.Role, link.ReadOnly); err != nil {
			return err
		}
	}
	return nil
}
