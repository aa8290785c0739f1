package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Outbox is the assignment.Store in the database.
type Outbox struct {
	db *DB
}

var _ assignment.Store = (*Outbox)(nil)

// Outbox returns the store of reports to projects.
func (db *DB) Outbox() *Outbox { return &Outbox{db} }

// Change implements assignment.Store. On a full disk a change may use the reserve
// unless it adds a post: to drop one, and to note that one was sent, must work.
func (o *Outbox) Change(ctx context.Context, id assignment.LaneID, do func(*assignment.Lane) error) error {
	adds := false
	change := func() error {
		return o.db.write(ctx, func(tx *sql.Tx) error {
			return changeLane(ctx, tx, id, func(l *assignment.Lane) error {
				posts := len(l.Posts)
				err := do(l)
				adds = len(l.Posts) > posts
				return err
			})
		})
	}
	err := change()
	if !errors.Is(err, ErrFull) || adds {
		return err
	}
	return o.db.makeRoom(ctx, change)
}

// changeLane changes a lane within a transaction.
func changeLane(ctx context.Context, tx *sql.Tx, id assignment.LaneID, do func(*assignment.Lane) error) error {
	lane := &assignment.Lane{LaneID: id}
	var text string
	err := tx.QueryRowContext(ctx, "SELECT lane FROM lanes WHERE api = ? AND project = ? AND assignment = ?", id.API,
		id.Project, id.Assignment).Scan(&text)
	if err == nil {
		lane, err = decode[assignment.Lane]("the posts of an assignment", text)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := do(lane); err != nil {
		return err
	}
	after, err := json.Marshal(lane)
	if err != nil || string(after) == text {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO lanes (api, project, assignment, waiting, lane) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (api, project, assignment) DO UPDATE SET waiting = excluded.waiting, lane = excluded.lane`,
		id.API, id.Project, id.Assignment, lane.Waiting(), string(after))
	return err
}

// Load implements assignment.Store.
func (o *Outbox) Load(ctx context.Context, q assignment.Query) ([]assignment.Lane, error) {
	query, args := "SELECT lane FROM lanes WHERE true", []any{}
	if q.API != "" {
		query, args = query+" AND api = ?", append(args, q.API)
	}
	if q.Project != "" {
		query, args = query+" AND project = ?", append(args, q.Project)
	}
	if q.Waiting {
		query += " AND waiting = 1"
	}
	query += " ORDER BY api, project, assignment"
	return values(documents[assignment.Lane](ctx, o.db.reader, "the posts of an assignment", query, args...))
}

// queueReports queues the reports of a transaction's reply, when the transaction is
// committed.
func queueReports(ctx context.Context, tx *sql.Tx, r *workspace.Record) error {
	if len(r.Attached) == 0 {
		return nil
	}
	var attached assignment.Attachment
	if err := json.Unmarshal(r.Attached, &attached); err != nil {
		return fmt.Errorf("what is attached to transaction %s: %w", r.ID, err)
	}
	for _, lane := range attached.Reports.Lanes() {
		posts := attached.Reports.In(lane)
		for i := range posts {
			posts[i].Transaction = r.ID
		}
		err := changeLane(ctx, tx, lane, func(l *assignment.Lane) error {
			l.Add(posts, time.Now().UTC())
			return nil
		})
		if err != nil {
			return fmt.Errorf("queue what transaction %s reports: %w", r.ID, err)
		}
	}
	return nil
}
