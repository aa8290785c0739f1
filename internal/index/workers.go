package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/internal/engine"
)

// mostPending bounds the names that wait for approval: workers choose them.
const mostPending = 1000

// AdmitWorker returns engine.ErrForbidden for the name of a worker that is revoked, or that nobody has approved if
// that is needed. Such a name is remembered as pending.
func (db *DB) AdmitWorker(ctx context.Context, name string, approval bool) error {
	var state engine.WorkerState
	err := db.look(ctx, "admit worker", name, func(c *conn) error {
		err := c.row(ctx, []any{&state}, "SELECT state FROM worker_names WHERE name = $1", name)
		if errors.Is(err, engine.ErrNotFound) {
			err = nil
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case state == engine.WorkerRevoked:
		return refuseWorker("the worker %s was revoked: `airlock nodes approve %[1]s` would let it in again", name)
	case !approval || state == engine.WorkerApproved:
		return nil
	case state == "":
		if _, err := writing(db.write).exec(ctx, "note worker", name, `INSERT INTO worker_names (name, state, at_us)
			SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), `+db.clock+` WHERE (SELECT count(*) FROM worker_names
			WHERE state = $2) < `+fmt.Sprint(mostPending)+" ON CONFLICT (name) DO NOTHING",
			name, engine.WorkerPending); err != nil {
			return err
		}
	}
	return refuseWorker("the worker %s waits for approval: `airlock nodes approve %[1]s`", name)
}

func refuseWorker(text, name string) error {
	return &engine.Error{Op: "admit worker", Kind: engine.ErrForbidden, ID: name, Err: fmt.Errorf(text, name)}
}

// BeatWorker records that a worker is alive: engine.ErrNotFound when no worker of that name has the epoch, or it was
// declared dead.
func (db *DB) BeatWorker(ctx context.Context, n engine.Node) (drain bool, err error) {
	err = db.writeNoSync(ctx, "beat", "", func(ctx context.Context, c *conn) error {
		return beat(ctx, c, db.clock, &n, " AND role = 'worker' AND name = $9", &drain, n.Name)
	})
	return drain, err
}

// RemoveWorker deletes a worker, if it has that name.
func (db *DB) RemoveWorker(ctx context.Context, name string, epoch engine.Epoch) error {
	_, err := writing(db.write).exec(ctx, "remove worker", name,
		"DELETE FROM nodes WHERE epoch = $1 AND name = $2 AND role = 'worker'", int64(epoch), name)
	return err
}

// SetWorker approves or revokes the workers of a name. Those that are revoked are dead at once.
func (db *DB) SetWorker(ctx context.Context, name string, state engine.WorkerState) error {
	return db.write(ctx, "set worker", name, func(ctx context.Context, c *conn) error {
		if _, err := c.exec(ctx, "INSERT INTO worker_names (name, state, at_us) VALUES ($1, $2, "+db.clock+
			") ON CONFLICT (name) DO UPDATE SET state = excluded.state, at_us = excluded.at_us", name, state); err != nil {
			return err
		}
		if state != engine.WorkerRevoked {
			return nil
		}
		_, err := c.exec(ctx, "UPDATE nodes SET dead = 1 WHERE name = $1 AND role = 'worker'", name)
		return err
	})
}

// WorkerNames returns the names of workers about which something was said, or is to be.
func (db *DB) WorkerNames(ctx context.Context) ([]engine.WorkerName, error) {
	return list(ctx, db, "list workers", func(row scanner) (w engine.WorkerName, err error) {
		err = row.Scan(&w.Name, &w.State, timeColumn{&w.At})
		return w, err
	}, "SELECT name, state, at_us FROM worker_names ORDER BY name")
}
