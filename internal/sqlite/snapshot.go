package sqlite

import (
	"context"
	"errors"
)

// Snapshot copies a database as it is at one moment to a new file, while others write
// to it. The copy has the versions of the original.
func Snapshot(ctx context.Context, path, to string) (err error) {
	pool, err := Open(path, 1, "busy_timeout(30000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	_, err = pool.ExecContext(ctx, "VACUUM INTO ?", to)
	return err
}
