package state

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/assist/workspace"
)

// Journal is the workspace.Store in the database. Small contents are rows, so
// that they become durable together with the record that needs them; large
// ones are files.
type Journal struct {
	db *DB
}

var _ workspace.Store = (*Journal)(nil)

// largest is the size up to which a content is a row.
const largest = 256 << 10

// Journal returns the journal of workspaces.
func (db *DB) Journal() *Journal { return &Journal{db} }

// Lock implements workspace.Store.
func (j *Journal) Lock(ctx context.Context, id string) (func() error, error) {
	return workspace.LockFile(ctx, filepath.Join(j.db.dir, "locks", "workspace-"+id))
}

// row is a content as it is stored.
type row struct {
	hash   workspace.Hash
	stored int64
	packed bool
	data   []byte // nil for a file
}

// Save implements workspace.Store. On a full disk an undo, and the end of a commit that
// has begun, may use the reserve: the first frees space, the second leaves no folder
// between two states.
func (j *Journal) Save(ctx context.Context, r *workspace.Record, contents ...*workspace.Content) error {
	record, err := json.Marshal(r)
	if err != nil {
		return err
	}
	save := func() error { return full(j.storeAndSave(ctx, r, record, contents)) }
	begins := r.State == workspace.Proposed || r.State == workspace.Staging || r.State == workspace.Committing
	if begins && r.Origin.Kind != "undo" {
		return save()
	}
	return j.db.makeRoom(ctx, save)
}

func (j *Journal) storeAndSave(
	ctx context.Context, r *workspace.Record, record []byte, contents []*workspace.Content,
) error {
	for {
		rows := make([]row, 0, len(contents))
		for _, c := range contents {
			stored, err := j.store(ctx, c)
			if err != nil {
				return fmt.Errorf("keep contents of transaction %s: %w", r.ID, err)
			}
			rows = append(rows, stored)
		}
		err := j.db.write(ctx, func(tx *sql.Tx) error { return j.save(ctx, tx, r, record, rows) })
		if !errors.Is(err, errPruned) {
			return err
		}
	}
}

// errPruned means that a file was removed before its row was written: it has to be
// stored again.
var errPruned = errors.New("a content was cleared away meanwhile")

// store makes a row for a content, and a file for a large content. The file
// is durable before its row is; Prune removes a file that never got a row.
func (j *Journal) store(ctx context.Context, c *workspace.Content) (stored row, err error) {
	stored.hash = c.Hash()
	if c.Size() > largest {
		sizes, err := j.db.contents.Put(ctx, c)
		if err != nil {
			return row{}, err
		}
		stored.stored = sizes[0]
		return stored, nil
	}
	data, err := c.Bytes(ctx, largest)
	if err != nil {
		return row{}, err
	}
	stored.data = data
	if len(data) > 128 {
		if packed := j.db.pack.EncodeAll(data, nil); len(packed) < len(data) {
			stored.data, stored.packed = packed, true
		}
	}
	stored.stored = int64(len(stored.data))
	return stored, nil
}

func (j *Journal) save(ctx context.Context, tx *sql.Tx, r *workspace.Record, record []byte, rows []row) error {
	var before sql.NullString
	err := tx.QueryRowContext(ctx, "SELECT state FROM transactions WHERE id = ?", r.ID).Scan(&before)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO transactions (id, workspace, state, created, updated, record) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, updated = excluded.updated, record = excluded.record`,
		r.ID, r.Workspace, string(r.State), r.Created.UnixMicro(), r.Updated.UnixMicro(), string(record))
	if err != nil {
		return err
	}
	if err := j.saveContents(ctx, tx, rows); err != nil {
		return err
	}
	// A commit that continues needs the same contents as at its decision.
	goesOn := before.String == string(workspace.Committing) && r.State == workspace.Published ||
		before.String == string(workspace.Published) && r.State == workspace.Committed
	if !goesOn || len(rows) > 0 {
		if err := j.saveNeeds(ctx, tx, r); err != nil {
			return err
		}
	}
	if r.State != workspace.Committed || before.String == string(workspace.Committed) {
		return nil
	}
	return queueReports(ctx, tx, r) // in this transaction: they are neither lost nor queued twice
}

func (j *Journal) saveContents(ctx context.Context, tx *sql.Tx, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	insert, err := tx.PrepareContext(ctx,
		"INSERT INTO contents (hash, stored, packed, data) VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, c := range rows {
		if c.data == nil && c.stored > 0 && !j.db.contents.Has(c.hash) {
			return errPruned
		}
		if _, err := insert.ExecContext(ctx, c.hash[:], c.stored, c.packed, c.data); err != nil {
			return err
		}
	}
	return nil
}

// saveNeeds records which contents a record needs. Contents that were never stored, such
// as the bytes of a new binary file, are skipped.
func (j *Journal) saveNeeds(ctx context.Context, tx *sql.Tx, r *workspace.Record) error {
	needs, err := json.Marshal(r.Hashes()) // hexadecimal
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM transaction_contents WHERE txn = ?", r.ID); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO transaction_contents (txn, hash) SELECT ?, hash FROM contents WHERE hash "+
		"IN (SELECT unhex(value) FROM json_each(?))",
		r.ID, string(needs))
	return err
}

// Load implements workspace.Store.
func (j *Journal) Load(ctx context.Context, id string) (*workspace.Record, error) {
	r, err := document[workspace.Record](ctx, j.db.reader, "a transaction", "SELECT record FROM transactions WHERE id = ?",
		id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("transaction %q: %w", id, workspace.ErrNotFound)
	}
	return r, err
}

// List implements workspace.Store.
func (j *Journal) List(
	ctx context.Context, id string, limit int, states ...workspace.State,
) ([]*workspace.Record, error) {
	query, args := "SELECT record FROM transactions WHERE workspace = ?", []any{id}
	if len(states) > 0 {
		query += " AND state IN (?" + strings.Repeat(", ?", len(states)-1) + ")"
		for _, s := range states {
			args = append(args, string(s))
		}
	}
	query += " ORDER BY created DESC, id DESC LIMIT ?"
	if limit <= 0 {
		limit = -1
	}
	return documents[workspace.Record](ctx, j.db.reader, "a transaction", query, append(args, limit)...)
}

// Open implements workspace.Store.
func (j *Journal) Open(ctx context.Context, h workspace.Hash) (io.ReadCloser, error) {
	var c row
	err := j.db.reader.QueryRowContext(ctx, "SELECT stored, packed, data FROM contents WHERE hash = ?", h[:]).Scan(
		&c.stored, &c.packed, &c.data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("content %s: %w", h, workspace.ErrNotFound)
	case err != nil:
		return nil, err
	case c.data == nil && c.stored > 0:
		return j.db.contents.Open(h)
	}
	if c.packed {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		if c.data, err = z.DecodeAll(c.data, nil); err != nil {
			return nil, fmt.Errorf("content %s: %w: %w", h, workspace.ErrDamaged, err)
		}
	}
	return workspace.VerifyReader(io.NopCloser(bytes.NewReader(c.data)), h), nil
}

// Verify reads every content and returns the hashes of damaged contents.
func (j *Journal) Verify(ctx context.Context) (damaged []workspace.Hash, err error) {
	all, err := rowsOf(ctx, j.db.reader, func(row scanner) (h workspace.Hash, err error) {
		var raw []byte
		if err = row.Scan(&raw); err == nil {
			copy(h[:], raw)
		}
		return h, err
	}, "SELECT hash FROM contents WHERE length(hash) = ?", len(workspace.Hash{}))
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		r, err := j.Open(ctx, h)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		switch {
		case errors.Is(err, workspace.ErrDamaged), errors.Is(err, workspace.ErrNotFound):
			damaged = append(damaged, h)
		case err != nil:
			return damaged, err
		}
	}
	return damaged, nil
}
