package index

import (
	"context"

	"github.com/airlock-run/airlock/internal/engine"
)

const volumeColumns = "id, owner, name, bytes, files, created_us"

func scanVolume(row scanner) (v engine.Volume, err error) {
	err = row.Scan(idColumn{&v.ID}, &v.Owner, &v.Name, &v.Bytes, &v.Files, timeColumn{&v.CreatedAt})
	return v, err
}

// AddVolume records a volume: engine.ErrConflict if its owner has one of that name, and engine.ErrFull if it is one
// file more than the owner may keep.
func (db *DB) AddVolume(ctx context.Context, v engine.Volume) error {
	const op = "add volume"
	return db.write(ctx, op, v.Name, func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, "INSERT INTO volumes ("+volumeColumns+", written) VALUES ($1, $2, $3, $4, $5, $6, 0)",
			v.ID[:], v.Owner, v.Name, v.Bytes, v.Files, v.CreatedAt.UnixMicro())
		if err != nil {
			return err
		}
		return db.checkFiles(ctx, c, op, v.Owner)
	})
}

// Volume returns a volume of an owner.
func (db *DB) Volume(ctx context.Context, owner engine.Owner, name string) (engine.Volume, error) {
	return find(ctx, db, "get volume", name, scanVolume,
		"SELECT "+volumeColumns+" FROM volumes WHERE owner = $1 AND name = $2", owner, name)
}

// Volumes returns the volumes of an owner, by name.
func (db *DB) Volumes(ctx context.Context, owner engine.Owner) ([]engine.Volume, error) {
	return list(ctx, db, "list volumes", scanVolume,
		"SELECT "+volumeColumns+" FROM volumes WHERE owner = $1 ORDER BY name", owner)
}

// WrittenVolumes returns the volumes that a program changed when they were last measured.
func (db *DB) WrittenVolumes(ctx context.Context) ([]engine.Volume, error) {
	return list(ctx, db, "list written volumes", scanVolume, "SELECT "+volumeColumns+" FROM volumes WHERE written = 1")
}

// SetVolume records the size of a volume, and whether a program changes it. It does not wait for the disk, which the
// program may keep busy.
func (db *DB) SetVolume(ctx context.Context, id engine.ID, bytes int64, files int, written bool) error {
	return writing(db.writeNoSync).change(ctx, "measure volume", id.String(),
		"UPDATE volumes SET bytes = $1, files = $2, written = CAST($3 AS BIGINT) WHERE id = $4",
		bytes, files, written, id[:])
}

// DeleteVolume removes the record of a volume.
func (db *DB) DeleteVolume(ctx context.Context, id engine.ID) error {
	return writing(db.erase).change(ctx, "delete volume", id.String(), "DELETE FROM volumes WHERE id = $1", id[:])
}
