package index

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const killedFiles = 300

// addSnapshots is the life of a second process that records snapshots until it is killed.
func addSnapshots(ctx context.Context, db *DB) error {
	session := newSession("ada")
	session.CreatedAt, session.ExpiresAt = start, start.Add(time.Hour)
	var files []engine.SessionFile
	for n := range killedFiles {
		file := newFile("ada")
		file.CreatedAt, file.ExpiresAt = start, start.Add(time.Hour)
		if err := db.AddFile(ctx, file); err != nil {
			return err
		}
		files = append(files, engine.SessionFile{Session: session.ID, File: file.ID, Path: fmt.Sprint(n),
			Role: engine.RoleOutput})
	}
	if err := db.AddSession(ctx, session, files); err != nil {
		return err
	}
	for {
		made, err := db.AddSnapshot(ctx, engine.Snapshot{ID: engine.NewID(), Owner: "ada", Origin: engine.OriginNative,
			Session: session.ID, CreatedAt: start, ExpiresAt: start.Add(time.Hour), TTL: time.Hour})
		if err != nil {
			return err
		}
		fmt.Println(made.ID)
	}
}

// A snapshot that was being made at kill -9 is there with all of its files, or not at all.
func testKillInSnapshot(t *testing.T) {
	path := newPath(t)
	acknowledged := 0
	for lines := range 6 {
		p := startSecond(t, "snapshot", path)
		for range lines {
			if !p.lines.Scan() {
				t.Fatalf("the writer ended: %v", p.lines.Err())
			}
			acknowledged++
		}
		p.kill() // while it makes the next
	}
	db := openAt(t, path, WithClock((&clock{now: start}).Now))
	all, err := db.Snapshots(t.Context(), engine.SnapshotQuery{Owner: "ada", Page: engine.Page{Limit: 1000}})
	if err != nil || len(all) < acknowledged {
		t.Fatalf("%d snapshots, %d were acknowledged: %v", len(all), acknowledged, err)
	}
	for _, made := range all {
		session := newSession("ada")
		if err := db.AddCopies(t.Context(), engine.CopySource{Snapshot: made.ID}, []engine.Session{session},
			time.Hour); err != nil {
			t.Fatal(err)
		}
		_, files, err := db.SessionFiles(t.Context(), "ada", session.ID)
		if err != nil || made.Files != killedFiles || len(files) != killedFiles {
			t.Errorf("a snapshot of %d files has %d: %v", made.Files, len(files), err)
		}
	}
	orphans, err := writing(db.write).exec(t.Context(), "test", "",
		"DELETE FROM snapshot_files WHERE snapshot NOT IN (SELECT id FROM snapshots)")
	if err != nil || orphans > 0 {
		t.Errorf("%d files of no snapshot, %v", orphans, err)
	}
}
