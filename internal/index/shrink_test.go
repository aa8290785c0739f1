package index

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// fillAndExpire adds files and has them expire, as the service does it.
func fillAndExpire(t *testing.T, db *DB) {
	t.Helper()
	now := time.Now()
	for i := range 600 {
		file := engine.File{ID: engine.NewID(), Owner: "ada", Name: fmt.Sprintf("%024000d", i), Origin: engine.OriginNative,
			CreatedAt: now, ExpiresAt: now.Add(time.Hour), Size: 1}
		if err := db.AddFile(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	for {
		n, err := db.ExpireFiles(t.Context(), now.Add(2*time.Hour), 20)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// What was deleted is given back to the disk, also of an index that an earlier version has made.
func TestIndexShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	open := func() *DB {
		t.Helper()
		db, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	shut := func(db *DB) {
		t.Helper()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db := open()
	fillAndExpire(t, db)
	shut(db)
	const most = 2 * sparePages * 4096
	if size := sizeOf(t, path); size > most {
		t.Errorf("an index without files has %d bytes", size)
	}

	c, err := connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.conn.ExecContext(context.Background(), "PRAGMA auto_vacuum = none; VACUUM")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	fillAndExpire(t, db)
	shut(db)
	if size := sizeOf(t, path); size > most {
		t.Errorf("an index of an earlier version has %d bytes", size)
	}
}
