package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
)

// Projects is the changes.Store in the database: the folders of projects,
// and the replies that were handed in.
type Projects struct {
	db *DB
}

var _ changes.Store = (*Projects)(nil)

// keepReplies is how long a reply is remembered.
const keepReplies = 90 * 24 * time.Hour

// Projects returns the store of links and replies.
func (db *DB) Projects() *Projects { return &Projects{db} }

// Links implements changes.Store.
func (s *Projects) Links(ctx context.Context, owner string) ([]changes.Link, error) {
	return rowsOf(ctx, s.db.reader, scanLink,
		"SELECT owner, project, root, api, created FROM links WHERE owner = ? ORDER BY project", owner)
}

// Link implements changes.Store.
func (s *Projects) Link(ctx context.Context, owner, project string) (changes.Link, error) {
	l, err := scanLink(s.db.reader.QueryRowContext(
		ctx, "SELECT owner, project, root, api, created FROM links WHERE owner = ? AND project = ?", owner, project))
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("a folder of the project %q: %w", project, conversation.ErrNotFound)
	}
	return l, err
}

func scanLink(row scanner) (l changes.Link, err error) {
	var created int64
	err = row.Scan(&l.Owner, &l.Project, &l.Root, &l.API, &created)
	l.Created = time.UnixMicro(created).UTC()
	return l, err
}

// PutLink implements changes.Store.
func (s *Projects) PutLink(ctx context.Context, l changes.Link) error {
	return s.db.exec(ctx, `INSERT INTO links (owner, project, root, api, created) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (owner, project) DO UPDATE SET root = excluded.root, api = excluded.api, created = excluded.created`,
		l.Owner, l.Project, l.Root, l.API, l.Created.UnixMicro())
}

// DropLink implements changes.Store.
func (s *Projects) DropLink(ctx context.Context, owner, project string) error {
	missing := fmt.Errorf("a folder of the project %q: %w", project, conversation.ErrNotFound)
	return s.db.remove(ctx, missing, "DELETE FROM links WHERE owner = ? AND project = ?", owner, project)
}

// PutReplyRecord implements changes.Store. Replies of long ago make room.
func (s *Projects) PutReplyRecord(ctx context.Context, h *changes.ReplyRecord) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	write := s.db.write
	if h.Kind == "undo" || h.Done && h.Result.State != changes.ShownOnly {
		write = s.db.erase // it undoes a change, or ends an earlier reply
	}
	return write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO replies (id, owner, created, handled) VALUES (?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET handled = excluded.handled`, h.ID, h.Owner, h.Created.UnixMicro(), string(text))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM replies WHERE owner = ? AND created < ?", h.Owner,
			time.Now().Add(-keepReplies).UnixMicro())
		return err
	})
}

// ReplyRecord implements changes.Store.
func (s *Projects) ReplyRecord(ctx context.Context, owner, id string) (*changes.ReplyRecord, error) {
	h, err := document[changes.ReplyRecord](ctx, s.db.reader, "a reply",
		"SELECT handled FROM replies WHERE owner = ? AND id = ?", owner, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("the reply %q: %w", id, conversation.ErrNotFound)
	}
	return h, err
}

// Recent returns the newest replies of an owner, the newest first: either
// resolved replies or waiting replies.
func (s *Projects) Recent(
	ctx context.Context, owner string, settled bool, limit int,
) ([]*changes.ReplyRecord, error) {
	return documents[changes.ReplyRecord](ctx, s.db.reader, "a reply", `SELECT handled FROM replies
		WHERE owner = ? AND coalesce(json_extract(handled, '$.done'), 0) = ? ORDER BY created DESC, id LIMIT ?`, owner, settled, limit)
}
