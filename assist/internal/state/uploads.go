package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/airlock-run/airlock/assist/provider"
)

// Uploads is the provider.UploadStore in the database.
type Uploads struct {
	db *DB
}

var _ provider.UploadStore = (*Uploads)(nil)

// Uploads returns the store of uploads to providers.
func (db *DB) Uploads() *Uploads { return &Uploads{db} }

func uploadKey(k provider.UploadKey) string {
	text, _ := json.Marshal(k) // of strings: never fails
	return string(text)
}

// Uploads implements provider.UploadStore.
func (u *Uploads) Uploads(ctx context.Context, key provider.UploadKey) ([]provider.CachedUpload, error) {
	return values(documents[provider.CachedUpload](ctx, u.db.reader, "an upload",
		"SELECT upload FROM uploads WHERE key = ? ORDER BY id", uploadKey(key)))
}

// PutUpload implements provider.UploadStore.
func (u *Uploads) PutUpload(ctx context.Context, c provider.CachedUpload) error {
	return u.db.put(ctx, c, `INSERT INTO uploads (key, id, upload) VALUES (?, ?, ?)
		ON CONFLICT (key, id) DO UPDATE SET upload = excluded.upload`, uploadKey(c.Key), c.File.Ref.ID)
}

// RemoveUpload implements provider.UploadStore.
func (u *Uploads) RemoveUpload(ctx context.Context, key provider.UploadKey, id string) error {
	return u.db.remove(ctx, nil, "DELETE FROM uploads WHERE key = ? AND id = ?", uploadKey(key), id)
}

// AddCounts adds the counts of a process to the shared counts.
func (u *Uploads) AddCounts(ctx context.Context, rows []provider.Counts) error {
	return u.db.write(ctx, func(tx *sql.Tx) error {
		for _, row := range rows {
			sum, err := document[provider.Counts](ctx, tx, "the counts of a provider",
				"SELECT counts FROM provider_counts WHERE provider = ? AND model = ?", row.Provider, row.Model)
			if errors.Is(err, sql.ErrNoRows) {
				sum, err = &provider.Counts{Provider: row.Provider, Model: row.Model}, nil
			}
			if err != nil {
				return err
			}
			sum.Add(row)
			after, err := json.Marshal(sum)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO provider_counts (provider, model, counts) VALUES (?, ?, ?)
				ON CONFLICT (provider, model) DO UPDATE SET counts = excluded.counts`, row.Provider, row.Model, string(after)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Counts returns the shared counts of all processes.
func (u *Uploads) Counts(ctx context.Context) ([]provider.Counts, error) {
	return values(documents[provider.Counts](ctx, u.db.reader, "the counts of a provider",
		"SELECT counts FROM provider_counts ORDER BY provider, model"))
}
