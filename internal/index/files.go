package index

import (
	"cmp"
	"context"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	fileColumns = "f.id, f.owner, f.origin, f.name, f.path, f.size, f.mime, f.sha256, f.run, f.created_us, " +
		"f.expires_us, f.ttl_us"

	// A touch never moves an expiry backwards. It revives what expired since
	// the use that it records, for then it was alive.
	touchFile = "UPDATE files SET " + touched + " WHERE id = $2"

	// touched moves an expiry to at least a lifetime after the instant $1.
	touched = "expires_us = CASE WHEN expires_us < $1 + ttl_us THEN $1 + ttl_us ELSE expires_us END"

	// The end of a page's WHERE, and its order: a stable one, because ids differ.
	pageOfFiles = " AND (f.created_us, f.id) < ($4, $5) ORDER BY f.created_us DESC, f.id DESC LIMIT $6"
)

func scanFile(row scanner) (f engine.File, err error) {
	err = row.Scan(fileFields(&f)...)
	return f, err
}

func fileFields(f *engine.File) []any {
	return []any{idColumn{&f.ID}, &f.Owner, &f.Origin, &f.Name, &f.Path, &f.Size, &f.MIME, digestColumn{&f.SHA256},
		idColumn{&f.Run}, timeColumn{&f.CreatedAt}, timeColumn{&f.ExpiresAt}, durationColumn{&f.TTL}}
}

func insertFile(ctx context.Context, c *conn, f engine.File) error {
	_, err := c.exec(ctx, `INSERT INTO files
		(id, owner, origin, name, path, size, mime, sha256, run, created_us, expires_us, ttl_us) VALUES
		($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		f.ID[:], f.Owner, f.Origin, f.Name, f.Path, f.Size, f.MIME, f.SHA256[:], orNull(f.Run),
		f.CreatedAt.UnixMicro(), f.ExpiresAt.UnixMicro(), f.TTL.Microseconds())
	return err
}

// AddFile records a file, engine.ErrFull if that is more than its owner may
// keep.
func (db *DB) AddFile(ctx context.Context, file engine.File) error {
	const op = "add file"
	return db.write(ctx, op, file.ID.String(), func(ctx context.Context, c *conn) error {
		if err := insertFile(ctx, c, file); err != nil {
			return err
		}
		return db.checkFiles(ctx, c, op, file.Owner)
	})
}

// File returns a file that has not expired.
func (db *DB) File(ctx context.Context, owner engine.Owner, id engine.ID) (engine.File, error) {
	const op = "get file"
	if err := cmp.Or(db.store.usable(), ctx.Err()); err != nil {
		return engine.File{}, failed(op, id.String(), err)
	}
	file, ok, generation := db.files.get(owner, id, db.now())
	if ok {
		return file, nil
	}
	file, err := find(ctx, db, op, id.String(), scanFile, "SELECT "+fileColumns+
		" FROM files f WHERE f.id = $1 AND f.owner = $2 AND f.expires_us > $3", id[:], owner, db.micros())
	if err == nil {
		db.files.keep(file, generation)
	}
	return file, err
}

// OwnerOf returns the owner of a file with that origin that has not expired.
func (db *DB) OwnerOf(ctx context.Context, origin engine.Origin, id engine.ID) (owner engine.Owner, err error) {
	const op = "get file"
	if err := cmp.Or(db.store.usable(), ctx.Err()); err != nil {
		return "", failed(op, id.String(), err)
	}
	scan := func(s scanner) (owner engine.Owner, err error) { return owner, s.Scan(&owner) }
	return find(ctx, db, op, id.String(), scan, "SELECT f.owner FROM files f WHERE f.id = $1 AND f.origin = $2 AND "+
		"f.expires_us > $3", id[:], origin, db.micros())
}

// Files returns one page of an owner's files that have not expired.
func (db *DB) Files(ctx context.Context, q engine.FileQuery) (files []engine.File, err error) {
	err = db.read(ctx, "list files", "", func(c *conn) error {
		from, err := findCursor(ctx, c, "SELECT created_us FROM files WHERE id = $1 AND owner = $2", q.Owner, q.Page)
		if err != nil {
			return err
		}
		files, err = rows(ctx, c, scanFile, "SELECT "+fileColumns+
			" FROM files f WHERE f.owner = $1 AND ($2 = '' OR f.origin = $2) AND f.expires_us > $3"+pageOfFiles,
			q.Owner, q.Origin, db.micros(), from.created, from.id[:], from.limit)
		return err
	})
	return files, err
}

// DeleteFile deletes a file and its links to sessions.
func (db *DB) DeleteFile(ctx context.Context, owner engine.Owner, id engine.ID) error {
	defer db.files.forget(id)
	return writing(db.erase).change(ctx, "delete file", id.String(),
		"DELETE FROM files WHERE id = $1 AND owner = $2 AND expires_us > $3", id[:], owner, db.micros())
}

// Touch moves the expiry of files and sessions to the time of use + TTL, never
// backwards. It skips IDs that do not exist.
func (db *DB) Touch(ctx context.Context, uses map[engine.ID]time.Time) error {
	if len(uses) == 0 {
		return nil
	}
	defer func() {
		for id := range uses {
			db.files.forget(id)
		}
	}()
	return db.erase(ctx, "touch", "", func(ctx context.Context, c *conn) error {
		for id, use := range uses {
			for _, text := range []string{touchFile, touchSession} {
				if n, err := c.exec(ctx, text, use.UnixMicro(), id[:]); err != nil {
					return err
				} else if n > 0 {
					break
				}
			}
		}
		return nil
	})
}

// ExpireFiles deletes up to limit files that have expired by now.
func (db *DB) ExpireFiles(ctx context.Context, now time.Time, limit int) (int, error) {
	defer db.files.clear()
	return writing(db.erase).exec(ctx, "expire files", "",
		"DELETE FROM files WHERE id IN (SELECT id FROM files WHERE expires_us <= $1 ORDER BY expires_us LIMIT $2)",
		now.UnixMicro(), limit)
}

// Unreferenced returns the digests that no file has, nor a file of a snapshot. An
// expired file counts while it still has its row.
func (db *DB) Unreferenced(ctx context.Context, digests []engine.Digest) (free []engine.Digest, err error) {
	if err := db.store.whole(ctx); err != nil {
		return nil, failed("find unreferenced files", "", err)
	}
	err = db.read(ctx, "find unreferenced files", "", func(c *conn) error {
		for _, d := range digests {
			var used bool
			if err := c.row(ctx, []any{&used}, "SELECT EXISTS (SELECT 1 FROM files WHERE sha256 = $1) "+
				"OR EXISTS (SELECT 1 FROM snapshot_files WHERE sha256 = $1)", d[:]); err != nil {
				return err
			}
			if !used {
				free = append(free, d)
			}
		}
		return nil
	})
	return free, err
}

// Digests returns the digests of all files, including expired files and those of snapshots.
func (db *DB) Digests(ctx context.Context) (map[engine.Digest]bool, error) {
	const op = "list digests"
	if err := db.store.whole(ctx); err != nil {
		return nil, failed(op, "", err)
	}
	used := map[engine.Digest]bool{}
	_, err := list(ctx, db, op, func(row scanner) (struct{}, error) {
		var d engine.Digest
		err := row.Scan(digestColumn{&d})
		used[d] = true
		return struct{}{}, err
	}, "SELECT sha256 FROM files UNION SELECT sha256 FROM snapshot_files")
	return used, err
}
