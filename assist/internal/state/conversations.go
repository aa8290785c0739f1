package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// Conversations is the conversation.Archive in the database.
type Conversations struct {
	db *DB
}

var _ conversation.Archive = (*Conversations)(nil)

// keepConversations is how long a conversation is remembered after its last
// use.
const keepConversations = 90 * 24 * time.Hour

// Conversations returns the store of conversations with models.
func (db *DB) Conversations() *Conversations { return &Conversations{db} }

// PutConversation implements conversation.Archive. Conversations of long ago
// make room.
func (s *Conversations) PutConversation(
	ctx context.Context, c *conversation.Conversation, turns ...*conversation.Turn,
) error {
	head := *c
	head.Turns = nil
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	return s.db.write(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO conversations (id, owner, updated, conversation) VALUES (?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, conversation = excluded.conversation WHERE owner = excluded.owner`,
			c.ID, c.Owner, c.Updated.UnixMicro(), string(text))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, conversationGone(c.ID)) // it is another owner's
		}
		for _, t := range turns {
			if err := putTurn(ctx, tx, c.ID, t); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM conversations WHERE owner = ? AND updated < ?", c.Owner,
			time.Now().Add(-keepConversations).UnixMicro())
		return err
	})
}

func conversationGone(id string) error {
	return fmt.Errorf("the conversation %q: %w", id, conversation.ErrNotFound)
}

func putTurn(ctx context.Context, tx *sql.Tx, id string, t *conversation.Turn) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	exchange, err := json.Marshal(t.Exchange)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO turns (conversation, number, turn, exchange) VALUES (?, ?, ?, ?)
		ON CONFLICT (conversation, number) DO UPDATE SET turn = excluded.turn, exchange = excluded.exchange`, id, t.Number, string(text), string(exchange))
	return err
}

// Conversation implements conversation.Archive.
func (s *Conversations) Conversation(ctx context.Context, owner, id string) (c *conversation.Conversation, err error) {
	err = s.db.read(ctx, func(tx *sql.Tx) error {
		c, err = document[conversation.Conversation](ctx, tx, "a conversation",
			"SELECT conversation FROM conversations WHERE owner = ? AND id = ?", owner, id)
		if errors.Is(err, sql.ErrNoRows) {
			return conversationGone(id)
		}
		if err != nil {
			return err
		}
		c.Owner = owner
		return readTurns(ctx, tx, c)
	})
	return c, err
}

func readTurns(ctx context.Context, tx *sql.Tx, c *conversation.Conversation) (err error) {
	c.Turns, err = rowsOf(ctx, tx, func(row scanner) (*conversation.Turn, error) {
		var text, exchange string
		if err := row.Scan(&text, &exchange); err != nil {
			return nil, err
		}
		t, err := decode[conversation.Turn]("a turn of a conversation", text)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(exchange), &t.Exchange); err != nil {
			return nil, fmt.Errorf("%w: a turn of a conversation: %w", sqlite.ErrDamaged, err)
		}
		return t, nil
	}, "SELECT turn, exchange FROM turns WHERE conversation = ? ORDER BY number", c.ID)
	return err
}

// mostConversations bounds a page of the list.
const mostConversations = 200

// Conversations implements conversation.Archive.
func (s *Conversations) Conversations(
	ctx context.Context, owner string, p conversation.Page,
) (list []*conversation.Conversation, err error) {
	if p.Limit <= 0 {
		p.Limit = 50
	}
	query, args := "SELECT conversation FROM conversations WHERE owner = ?", []any{owner}
	if p.Before != "" {
		query += " AND (updated, id) < (SELECT updated, id FROM conversations WHERE owner = ? AND id = ?)"
		args = append(args, owner, p.Before)
	}
	query += " ORDER BY updated DESC, id DESC LIMIT ?"
	list, err = documents[conversation.Conversation](ctx, s.db.reader, "a conversation", query,
		append(args, min(p.Limit, mostConversations))...)
	for _, c := range list {
		c.Owner = owner
	}
	return list, err
}

// DropConversation implements conversation.Archive.
func (s *Conversations) DropConversation(ctx context.Context, owner, id string) error {
	return s.db.remove(ctx, conversationGone(id), "DELETE FROM conversations WHERE owner = ? AND id = ?", owner, id)
}
