package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// filled is an index with something of everything.
func filled(t *testing.T, runs int) bench {
	t.Helper()
	b := bench{T: t, clock: &clock{now: start}}
	b.Index = openAt(t, newPath(t), WithClock(b.clock.Now))
	for i := range runs {
		owner := engine.Owner(fmt.Sprint("owner-", i%3))
		file, session := newFile(owner), newSession(owner)
		b.want(b.AddFile(t.Context(), file), "")
		b.want(b.AddSession(t.Context(), session, []engine.SessionFile{{Session: session.ID, File: file.ID,
			Path: "in/table ü.csv", Role: engine.RoleInput}}), "")
		run := newRun(owner)
		run.Session = session.ID
		run.Source = &engine.Source{Language: "python", Code: "print(1)\x00"}
		_, err := b.StartRun(t.Context(), run, nil, fmt.Sprint("key-", i), engine.Digest{byte(i)})
		b.want(err, "")
		if i == 0 {
			continue // it is not over
		}
		end(run, engine.StatusOK)
		run.Stdout, run.Message = strings.Repeat("\x00\xffwords\n", 1+i%2*3000), "a\x00b\xff"
		run.Files = []engine.File{newFile(owner)}
		b.finish(run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}})
	}
	b.want(b.AddKey(t.Context(), engine.Key{ID: "k", Owner: "owner-1", CreatedAt: start}), "")
	b.want(b.db().SetWorker(t.Context(), "stolen", engine.WorkerRevoked), "")
	return b
}

func (b bench) db() *DB { return b.Index.(*DB) }

func silently(int, int) {}

func TestCopyTo(t *testing.T) {
	b := filled(t, 40)
	target := openPostgres(t, emptyPostgres(t), WithClock(b.clock.Now))
	last := 0
	total, copied, err := b.db().CopyTo(t.Context(), target, func(done, _ int) { last = done })
	if err != nil || !copied || total != last || total < 40*6 {
		t.Fatalf("%d rows of %d, copied %v: %v", last, total, copied, err)
	}
	for _, owner := range []engine.Owner{"owner-0", "owner-1", "owner-2"} {
		all := engine.RunQuery{Owner: owner, Page: engine.Page{Limit: 100}, Output: 1 << 20, Source: true}
		want, err := b.Runs(t.Context(), all)
		b.want(err, "")
		got, err := target.Runs(t.Context(), all)
		b.want(err, "")
		for i := range want {
			want[i].Message = strings.ToValidUTF8(strings.ReplaceAll(want[i].Message, "\x00", "\ufffd"), "\ufffd")
		}
		b.same("runs", got, want)
		for _, run := range want {
			log, err := b.RunLog(t.Context(), owner, run.ID)
			theirs, otherErr := target.RunLog(t.Context(), owner, run.ID)
			b.same("output", theirs, log)
			b.same("its error", engine.KindOf(otherErr), engine.KindOf(err))
		}
		use, err := b.Usage(t.Context(), owner)
		b.want(err, "")
		same, err := target.Usage(t.Context(), owner)
		b.want(err, "")
		b.same("usage", same, use)
	}
	workers, err := b.db().WorkerNames(t.Context())
	b.want(err, "")
	theirs, err := target.WorkerNames(t.Context())
	b.want(err, "")
	b.same("workers", theirs, workers)
	b.same("number of workers", len(workers), 1)
	// The account continues, and copied runs are found by their words.
	b.want(target.AddFile(t.Context(), newFile("owner-9")), "")
	use, err := target.Usage(t.Context(), "owner-9")
	b.want(err, "")
	b.same("usage of a new owner", use.Files, 1)
	n, err := target.IndexRuns(t.Context(), 1000)
	b.want(err, "")
	b.same("runs with words", n, 39)
	waiting := -1
	b.want(target.store.look(t.Context(), func(c *conn) error {
		return c.row(t.Context(), []any{&waiting}, "SELECT gin_clean_pending_list('run_text_words')")
	}), "")
	b.same("pages of words that a search would go through one by one", waiting, 0)
	found, err := target.Runs(t.Context(), engine.RunQuery{Owner: "owner-1", Text: "words", Page: engine.Page{Limit: 100}})
	b.want(err, "")
	b.same("runs found", len(found), 13)
}

// A second time nothing is copied, and a database with anything else is left alone.
func TestCopyToAgain(t *testing.T) {
	b := filled(t, 5)
	target := openPostgres(t, emptyPostgres(t), WithClock(b.clock.Now))
	for _, want := range []bool{true, false, false} {
		if _, copied, err := b.db().CopyTo(t.Context(), target, silently); err != nil || copied != want {
			t.Fatalf("copied %v: %v", copied, err)
		}
	}
	for name, change := range map[string]string{
		"a value": "UPDATE files SET name = 'other' WHERE id = (SELECT min(id::text)::bytea FROM files)",
		"one row": "DELETE FROM keys",
		"account": "UPDATE usage SET bytes = bytes + 1",
	} {
		t.Run(name, func(t *testing.T) {
			target := openPostgres(t, emptyPostgres(t), WithClock(b.clock.Now))
			if _, _, err := b.db().CopyTo(t.Context(), target, silently); err != nil {
				t.Fatal(err)
			}
			statement(t, target, change)
			if _, copied, err := b.db().CopyTo(t.Context(), target, silently); !errors.Is(err, ErrOther) || copied {
				t.Errorf("copied %v: %v", copied, err)
			}
		})
	}
}

func statement(t *testing.T, db *DB, text string) {
	t.Helper()
	err := db.store.write(t.Context(), synced, func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, text)
		if n == 0 && strings.HasPrefix(text, "UPDATE") {
			t.Error("nothing was changed")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What was cut off leaves nothing behind, nor does what arrives otherwise than it was sent.
func TestCopyToUndone(t *testing.T) {
	b := filled(t, 20)
	target := openPostgres(t, emptyPostgres(t), WithClock(b.clock.Now))
	ctx, cancel := context.WithCancel(t.Context())
	_, copied, err := b.db().CopyTo(ctx, target, func(done, total int) {
		if done == total/2 {
			cancel()
		}
	})
	if err == nil || copied {
		t.Fatalf("copied %v: %v", copied, err)
	}
	statement(t, target, `CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN new.name := 'other'; RETURN new; END $$`)
	statement(t, target, "CREATE TRIGGER liar BEFORE INSERT ON files FOR EACH ROW EXECUTE FUNCTION lie()")
	if _, copied, err := b.db().CopyTo(t.Context(), target, silently); err == nil || copied ||
		!strings.Contains(err.Error(), "not what was sent") {
		t.Errorf("copied %v: %v", copied, err)
	}
	statement(t, target, "DROP TRIGGER liar ON files")
	if _, copied, err := b.db().CopyTo(t.Context(), target, silently); err != nil || !copied {
		t.Errorf("copied %v: %v", copied, err)
	}
}

// Every table is copied, or made from copied tables.
func TestEveryTableIsCopied(t *testing.T) {
	made := []string{"usage", "nodes", "cluster", "made"} // those after the first are about this index and its nodes
	for _, table := range movedTables {
		made = append(made, table.name)
	}
	for _, column := range columns(t, openAt(t, newPath(t)), `SELECT m.name, c.name FROM sqlite_schema m,
			pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'run_text%'`) {
		if table, _, _ := strings.Cut(column, "."); !slices.Contains(made, table) {
			t.Errorf("the rows of %s stay behind", table)
		}
	}
}
