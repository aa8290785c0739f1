package index

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

var fileTests = map[string]func(bench){
	"file round trip": func(b bench) {
		file := b.addFile(func(f *engine.File) {
			f.Name, f.Path = "übung 'x'\"; DROP TABLE files; --.csv", "a/b/ü.csv"
			f.Run, f.Origin = engine.NewID(), engine.OriginOnyx
		})
		got, err := b.File(b.Context(), "ada", file.ID)
		b.want(err, "")
		b.same("file", got, file)
		b.want(b.AddFile(b.Context(), file), engine.ErrConflict)
	},
	"foreign, expired, deleted and unknown files answer alike": func(b bench) {
		alive, deleted := b.addFile(nil), b.addFile(nil)
		expired := b.addFile(func(f *engine.File) { f.ExpiresAt = start })
		b.want(b.DeleteFile(b.Context(), "ada", deleted.ID), "")
		for _, id := range []engine.ID{expired.ID, deleted.ID, engine.NewID(), {}} {
			_, err := b.File(b.Context(), "ada", id)
			b.want(err, engine.ErrNotFound)
			b.same("text", err.Error(), "get file "+id.String()+": not_found")
			b.want(b.DeleteFile(b.Context(), "ada", id), engine.ErrNotFound)
		}
		_, err := b.File(b.Context(), "bob", alive.ID)
		b.same("text", err.Error(), "get file "+alive.ID.String()+": not_found")
		b.want(b.DeleteFile(b.Context(), "bob", alive.ID), engine.ErrNotFound)
		_, err = b.File(b.Context(), "ada", alive.ID)
		b.want(err, "")
		files, err := b.Files(b.Context(), engine.FileQuery{Owner: "bob"})
		b.want(err, "")
		b.same("bob's files", files, nil)
		_, err = b.Files(b.Context(), engine.FileQuery{Owner: "bob", Page: engine.Page{After: alive.ID}})
		b.want(err, engine.ErrNotFound)
	},
	"a file is gone from its expiry on": func(b bench) {
		file := b.addFile(nil)
		session := b.addSession(func(s *engine.Session) { s.ExpiresAt = start.Add(24 * time.Hour) },
			engine.SessionFile{File: file.ID, Path: "a", Role: engine.RoleInput})
		b.clock.move(time.Hour - time.Microsecond)
		_, err := b.File(b.Context(), "ada", file.ID)
		b.want(err, "")
		b.same("places", len(b.sessionPaths(session.ID)), 1)
		b.clock.move(time.Microsecond)
		_, err = b.File(b.Context(), "ada", file.ID)
		b.want(err, engine.ErrNotFound)
		b.same("places", len(b.sessionPaths(session.ID)), 0)
		files, err := b.Files(b.Context(), engine.FileQuery{Owner: "ada"})
		b.want(err, "")
		b.same("files", files, nil)
	},
	"pages of files": func(b bench) {
		var want []engine.ID
		for i := range 25 {
			if i%3 == 0 {
				b.clock.move(time.Second) // three files of each instant
			}
			file := b.addFile(func(f *engine.File) { f.TTL = 100 * time.Hour; f.ExpiresAt = start.Add(f.TTL) })
			b.addFile(func(f *engine.File) { f.Owner = "bob" })
			b.addFile(func(f *engine.File) { f.Origin = engine.OriginOnyx })
			want = append(want, file.ID)
			slices.SortFunc(want[i/3*3:], func(a, b engine.ID) int { return bytes.Compare(a[:], b[:]) })
		}
		slices.Reverse(want)
		var got []engine.ID
		query := engine.FileQuery{Owner: "ada", Origin: engine.OriginNative, Page: engine.Page{Limit: 4}}
		for {
			page, err := b.Files(b.Context(), query)
			b.want(err, "")
			if len(page) == 0 {
				break
			}
			for _, f := range page {
				got = append(got, f.ID)
			}
			query.Page.After = page[len(page)-1].ID
			b.addFile(nil) // a newer one does not move the pages
			b.clock.move(time.Millisecond)
		}
		b.same("ids", got, want)

		all, err := b.Files(b.Context(), engine.FileQuery{Owner: "ada"})
		b.want(err, "")
		b.same("files of every origin", len(all), 57)
		query.Page.After = engine.NewID()
		_, err = b.Files(b.Context(), query)
		b.want(err, engine.ErrNotFound)
	},
	"a list without a limit has 100 items": func(b bench) {
		for range 103 {
			b.addFile(nil)
		}
		files, err := b.Files(b.Context(), engine.FileQuery{Owner: "ada"})
		b.want(err, "")
		b.same("files", len(files), 100)
	},
	"touches": func(b bench) {
		one, two, three := b.addFile(nil), b.addFile(nil), b.addFile(nil)
		now := b.clock.move(10 * time.Minute)
		b.want(b.Touch(b.Context(), map[engine.ID]time.Time{one.ID: now, two.ID: now, engine.NewID(): now}), "")
		b.want(b.Touch(b.Context(), map[engine.ID]time.Time{two.ID: start}), "") // never backwards
		b.want(b.Touch(b.Context(), nil), "")
		for _, want := range []struct {
			id  engine.ID
			end time.Time
		}{{one.ID, now.Add(time.Hour)}, {two.ID, now.Add(time.Hour)}, {three.ID, start.Add(time.Hour)}} {
			file, err := b.File(b.Context(), "ada", want.id)
			b.want(err, "")
			b.same("expiry", file.ExpiresAt, want.end)
		}
	},
	"expiry clears rows and places": func(b bench) {
		var places []engine.SessionFile
		for i := range 5 {
			file := b.addFile(func(f *engine.File) { f.ExpiresAt = start.Add(time.Duration(i) * time.Minute) })
			places = append(places, engine.SessionFile{File: file.ID, Path: string(rune('a' + i)), Role: engine.RoleInput})
		}
		session := b.addSession(nil, places[1:]...)
		n, err := b.ExpireFiles(b.Context(), start.Add(3*time.Minute), 3)
		b.want(err, "")
		b.same("gone", n, 3)
		n, err = b.ExpireFiles(b.Context(), start.Add(3*time.Minute), 3)
		b.want(err, "")
		b.same("gone", n, 1)
		n, err = b.ExpireFiles(b.Context(), start.Add(3*time.Minute), 3)
		b.want(err, "")
		b.same("gone", n, 0)
		b.same("places", b.sessionPaths(session.ID), map[string]engine.ID{"e": places[4].File})
		digests, err := b.Digests(b.Context())
		b.want(err, "")
		b.same("digests", len(digests), 1)
	},
	"references to contents": func(b bench) {
		one := b.addFile(nil)
		two := b.addFile(func(f *engine.File) { f.SHA256 = one.SHA256; f.Owner = "bob" })
		expired := b.addFile(func(f *engine.File) { f.ExpiresAt = start }) // its row is still there
		unknown := engine.Digest{9}
		free, err := b.Unreferenced(b.Context(), []engine.Digest{one.SHA256, unknown, expired.SHA256})
		b.want(err, "")
		b.same("free", free, []engine.Digest{unknown})
		b.want(b.DeleteFile(b.Context(), "ada", one.ID), "")
		free, err = b.Unreferenced(b.Context(), []engine.Digest{one.SHA256})
		b.want(err, "")
		b.same("free while the other owner has it", free, nil)
		digests, err := b.Digests(b.Context())
		b.want(err, "")
		b.same("digests", digests, map[engine.Digest]bool{one.SHA256: true, expired.SHA256: true})
		b.want(b.DeleteFile(b.Context(), "bob", two.ID), "")
		free, err = b.Unreferenced(b.Context(), []engine.Digest{one.SHA256})
		b.want(err, "")
		b.same("free", free, []engine.Digest{one.SHA256})
	},
}

// A list reads an index and sorts nothing, however long the table is.
func TestQueryPlans(t *testing.T) {
	db := openAt(t, newPath(t))
	for text, index := range map[string]string{
		"SELECT " + fileColumns + " FROM files f WHERE f.owner = $1 AND ($2 = '' OR f.origin = $2) AND f.expires_us > $3" +
			pageOfFiles: "files_owner",
		"SELECT " + sessionColumns + ` FROM sessions WHERE owner = $1 AND implicit = 0 AND ($2 = '' OR origin = $2)
			AND expires_us > $3 AND (created_us, id) < ($4, $5) ORDER BY created_us DESC, id DESC LIMIT $6`: "sessions_owner",
		"SELECT id FROM runs WHERE status IN ('queued', 'running')":                                       "runs_open",
		"SELECT id FROM runs WHERE finished_us < $1 ORDER BY finished_us LIMIT $2":                        "runs_finished",
		"SELECT id FROM files WHERE expires_us <= $1 ORDER BY expires_us LIMIT $2":                        "files_expiry",
		"SELECT 1 FROM files WHERE sha256 = $1":                                                           "files_content",
		"SELECT " + fileColumns + " FROM files f WHERE f.run = $1 AND f.owner = $2 ORDER BY f.path, f.id": "files_run",
		"SELECT " + sessionColumns + " FROM sessions WHERE kind = 'held' ORDER BY id":                     "sessions_held",
		"SELECT id FROM runs WHERE owner = $1 AND request_key = $2":                                       "runs_request",
		"SELECT " + runColumns + " FROM runs WHERE session = $1 ORDER BY created_us DESC, id DESC":        "runs_session",
		"SELECT " + runColumns + " FROM runs WHERE owner = $1 ORDER BY created_us DESC, id DESC":          "runs_owner",
	} {
		plan := queryPlan(t, db, text)
		if !bytes.Contains([]byte(plan), []byte(index)) || bytes.Contains([]byte(plan), []byte("B-TREE")) &&
			index != "files_run" {
			t.Errorf("%s\nis answered by: %s", text, plan)
		}
	}
}

func queryPlan(t *testing.T, db *DB, text string) string {
	t.Helper()
	var plan string
	err := db.read(t.Context(), "explain", "", func(c *conn) error {
		n := 0
		for strings.Contains(text, "$"+strconv.Itoa(n+1)) {
			n++
		}
		_, err := rows(t.Context(), c, func(row scanner) (string, error) {
			var id, parent, unused int
			var detail string
			err := row.Scan(&id, &parent, &unused, &detail)
			plan += detail + "; "
			return detail, err
		}, "EXPLAIN QUERY PLAN "+text, make([]any, n)...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
