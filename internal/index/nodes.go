package index

import (
	"context"
	"errors"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

var _ engine.NodeIndex = (*DB)(nil)

const (
	nodeColumns = `epoch, name, role, address, version, slots, memory, languages, packages, running, queued, held, used,
		disk_free, memory_free, draining, dead, since_us`

	// isLost is the SQL condition on an epoch whose node is dead or unknown.
	isLost = " NOT IN (SELECT epoch FROM nodes WHERE dead = 0)"
)

func scanNode(row scanner) (n engine.Node, err error) {
	var languages, packages string
	err = row.Scan(&n.Epoch, &n.Name, &n.Role, &n.Address, &n.Version, &n.Slots, &n.Memory, &languages, &packages,
		&n.Load.Running, &n.Load.Queued, &n.Load.Held, &n.Load.Memory, &n.Load.DiskFree, &n.Load.MemoryFree,
		&n.Draining, &n.Dead, timeColumn{&n.Since}, durationColumn{&n.Silent}, &n.Revoked)
	n.Languages, n.Packages = strings.Fields(languages), strings.Fields(packages)
	return n, err
}

// AddNode records a node, whose first beat is now.
func (db *DB) AddNode(ctx context.Context, n engine.Node) error {
	l := n.Load
	_, err := writing(db.writeNoSync).exec(ctx, "add node", n.Name, "INSERT INTO nodes ("+nodeColumns+`, beat_us)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, `+db.clock+", "+db.clock+")",
		int64(n.Epoch), n.Name, n.Role, n.Address, n.Version, n.Slots, n.Memory, strings.Join(n.Languages, " "),
		strings.Join(n.Packages, " "), l.Running, l.Queued, l.Held, l.Memory, l.DiskFree, l.MemoryFree,
		n.Draining)
	return err
}

// Beat records that a node is alive: engine.ErrNotFound when it was declared dead.
func (db *DB) Beat(ctx context.Context, epoch engine.Epoch, l engine.Load, draining bool) (drain bool, err error) {
	n := engine.Node{Epoch: epoch, Load: l, Draining: draining}
	err = db.writeNoSync(ctx, "beat", "", func(ctx context.Context, c *conn) error {
		return beat(ctx, c, db.clock, &n, "", &drain)
	})
	return drain, err
}

// beat records that a node is alive which fulfils a condition, with its arguments.
func beat(ctx context.Context, c *conn, clock string, n *engine.Node, where string, drain *bool, more ...any) error {
	l := &n.Load
	return c.row(ctx, []any{drain}, `UPDATE nodes SET beat_us = `+clock+`,
		running = $1, queued = $2, held = $3, used = $4, disk_free = $5, memory_free = $6, draining = $7
		WHERE epoch = $8 AND dead = 0`+where+` RETURNING drain`,
		append([]any{l.Running, l.Queued, l.Held, l.Memory, l.DiskFree, l.MemoryFree, n.Draining, int64(n.Epoch)},
			more...)...)
}

// Nodes returns all nodes by name.
func (db *DB) Nodes(ctx context.Context) ([]engine.Node, error) {
	return list(ctx, db, "list nodes", scanNode, "SELECT "+nodeColumns+", "+db.clock+
		" - beat_us, CASE WHEN role = 'worker' AND name IN (SELECT name FROM worker_names WHERE state = 'revoked') "+
		"THEN 1 ELSE 0 END FROM nodes ORDER BY name, epoch")
}

// GiveUp marks a node as dead that has been silent for engine.DeadAfter.
func (db *DB) GiveUp(ctx context.Context, epoch engine.Epoch) (dead bool, err error) {
	n, err := writing(db.write).exec(ctx, "give a node up", "",
		"UPDATE nodes SET dead = 1 WHERE epoch = $1 AND dead = 0 AND beat_us < "+db.clock+" - $2",
		int64(epoch), engine.DeadAfter.Microseconds())
	return n > 0, err
}

// RemoveNode deletes a node.
func (db *DB) RemoveNode(ctx context.Context, epoch engine.Epoch) error {
	_, err := writing(db.write).exec(ctx, "remove node", "", "DELETE FROM nodes WHERE epoch = $1", int64(epoch))
	return err
}

// DrainNode asks the nodes of a name to take nothing new, or revokes that.
func (db *DB) DrainNode(ctx context.Context, name string, drain bool) error {
	return writing(db.write).change(ctx, "drain node", name, "UPDATE nodes SET drain = $1 WHERE name = $2 AND dead = 0",
		drain, name)
}

// ClaimSession gives a session a new place, unless another node has, or holds it.
func (db *DB) ClaimSession(
	ctx context.Context, id engine.ID, from int64, to engine.Place,
) (engine.Place, error) {
	err := db.write(ctx, "claim session", id.String(), func(ctx context.Context, c *conn) error {
		err := c.row(ctx, []any{&to.Generation}, `UPDATE sessions SET holder = $1, worker = $2, generation = generation + 1
			WHERE id = $3 AND generation = $4 AND (holder = $1 OR holder`+isLost+") RETURNING generation",
			int64(to.Holder), int64(to.Worker), id[:], from)
		if errors.Is(err, engine.ErrNotFound) {
			return engine.ErrConflict
		}
		return err
	})
	return to, err
}

// Agree returns the agreed value of a name: the first value that any node proposed.
func (db *DB) Agree(ctx context.Context, name, value string) (agreed string, err error) {
	err = db.write(ctx, "agree", name, func(ctx context.Context, c *conn) error {
		if _, err := c.exec(ctx, "INSERT INTO cluster (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name,
			value); err != nil {
			return err
		}
		return c.row(ctx, []any{&agreed}, "SELECT value FROM cluster WHERE name = $1", name)
	})
	return agreed, err
}

// checkPlace returns an error when a run's session has another place by now. The run's
// files must not be added to the session then.
func checkPlace(ctx context.Context, c *conn, run *engine.Run) error {
	var generation int64
	err := c.row(ctx, []any{&generation}, "SELECT generation FROM sessions WHERE id = $1", run.Session[:])
	if err == nil && generation != run.Generation {
		err = &engine.Error{Op: "save files", Kind: engine.ErrConflict, ID: run.Session.String(),
			Err: errors.New("the session was taken over by another node")}
	}
	return err
}
