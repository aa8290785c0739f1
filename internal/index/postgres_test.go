package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/postgrestest"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// columns lists the columns of every table, those of SQLite alone and of the other
// one's keeping left out.
func columns(t *testing.T, db *DB, query string) (all []string) {
	t.Helper()
	err := db.store.look(t.Context(), func(c *conn) (err error) {
		all, err = rows(t.Context(), c, func(row scanner) (name string, err error) {
			var table, column string
			err = row.Scan(&table, &column)
			return table + "." + column, err
		}, query)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// Both stores have the same tables, so that the statements mean the same.
func TestSameTables(t *testing.T) {
	lite := columns(t, openAt(t, newPath(t)),
		`SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c
			WHERE m.type = 'table' AND m.name NOT LIKE 'run_text%'`)
	post := columns(t, openPostgres(t, newPostgres(t)), `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name <> 'airlock_schema' AND table_name <> 'run_text' AND column_name <> 'rowid'`)
	if diff := cmp.Diff(lite, post); diff != "" || len(lite) < 50 {
		t.Errorf("SQLite - PostgreSQL +\n%s", diff)
	}
}

// Of processes that start at once, one makes the tables.
func TestOpenedAtOnce(t *testing.T) {
	address := newPostgres(t)
	var opening sync.WaitGroup
	for range 5 {
		opening.Go(func() { openPostgres(t, address, WithReplicas()) })
	}
	opening.Wait()
}

func TestPostgresRefused(t *testing.T) {
	address := newPostgres(t)
	db := openPostgres(t, address)
	err := db.store.write(t.Context(), synced, func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, "INSERT INTO airlock_schema VALUES (999)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ address, says string }{
		"a newer version": {address, "install the newer program again"},
		"no address":      {"postgres://%zz", "address of the database"},
		"nobody there":    {"postgres://u:secret@127.0.0.1:1/x", "127.0.0.1"},
		"no database":     {strings.Replace(address, "?", "x?", 1), "does not exist"},
		"no such user":    {strings.Replace(address, "postgres@", "stranger:secret@", 1), "stranger"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenPostgres(t.Context(), test.address, "", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
			if errors.Is(err, sqlite.ErrNewer) != (name == "a newer version") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What was made before a start was cut off is not made again.
func TestPostgresGoesOn(t *testing.T) {
	settings, err := pgx.ParseConfig(newPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{pool: stdlib.OpenDB(*settings)}
	defer s.close()
	migrate := func(steps ...string) (version int, err error) {
		err = s.on(t.Context(), func(c *conn) (err error) {
			for range steps {
				if version, err = migrateOne(t.Context(), c, steps, slog.New(slog.DiscardHandler), nil); err != nil {
					return err
				}
			}
			return nil
		})
		return version, err
	}
	const one, two = "CREATE TABLE one (n BIGINT)", "CREATE TABLE two (n BIGINT)"
	if _, err := migrate(one, two+"; INSERT INTO nowhere VALUES (1)"); err == nil ||
		!strings.Contains(err.Error(), "version 2") {
		t.Fatalf("a broken step: %v", err)
	}
	if version, err := migrate(one, two); err != nil || version != 2 {
		t.Errorf("after the broken step: version %d, %v", version, err)
	}
}

// Two replicas that get the same request begin one run.
func TestSameRequestTwice(t *testing.T) {
	address := newPostgres(t)
	replicas := []*DB{openPostgres(t, address, WithReplicas()), openPostgres(t, address, WithReplicas())}
	for i := range 20 {
		key := fmt.Sprint("key-", i)
		var mu sync.Mutex
		begun := map[engine.ID]bool{}
		var asking sync.WaitGroup
		for n := range 4 {
			asking.Go(func() {
				run := newRun("ada")
				earlier, err := replicas[n%2].StartRun(t.Context(), run, nil, key, engine.Digest{1})
				if err != nil {
					t.Error(err)
				}
				if earlier.IsZero() {
					earlier = run.ID
				}
				mu.Lock()
				defer mu.Unlock()
				begun[earlier] = true
			})
		}
		asking.Wait()
		if len(begun) != 1 {
			t.Fatalf("%d runs began", len(begun))
		}
	}
}

// Two replicas do not give one owner more than the quota.
func TestQuotaOfReplicas(t *testing.T) {
	address := newPostgres(t)
	quota := WithQuota(engine.Quota{Files: 10})
	replicas := []*DB{openPostgres(t, address, quota, WithReplicas()), openPostgres(t, address, quota, WithReplicas())}
	var mu sync.Mutex
	stored := 0
	var storing sync.WaitGroup
	for n := range 40 {
		storing.Go(func() {
			err := replicas[n%2].AddFile(t.Context(), newFile("ada"))
			if err != nil && engine.KindOf(err) != engine.ErrFull {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				stored++
			}
		})
	}
	storing.Wait()
	if u, err := replicas[0].Usage(t.Context(), "ada"); err != nil || stored != 10 || u.Files != 10 {
		t.Errorf("%d were stored, %+v, %v", stored, u, err)
	}
}

// A text that PostgreSQL cannot hold is kept as far as it can.
func TestOddTexts(t *testing.T) {
	b := bench{T: t, Index: openPostgres(t, emptyPostgres(t)), clock: &clock{now: start}}
	run := newRun("ada")
	_, err := b.StartRun(t.Context(), run, nil, "k\x00\xff", engine.Digest{})
	b.want(err, "")
	end(run, engine.StatusError)
	run.Message = "a\x00b\xff"
	b.want(b.FinishRun(t.Context(), run, nil, nil), "")
	got, err := b.Run(t.Context(), "ada", run.ID)
	b.want(err, "")
	b.same("message", got.Message, "a\ufffdb\ufffd")
	again, err := b.EarlierRun(t.Context(), "ada", "k\x00\xff", engine.Digest{})
	b.want(err, "")
	b.same("run", again, run.ID)
}

// A server that goes away is said, and used again once it is back.
func TestServerGoesAway(t *testing.T) {
	newPostgres(t) // or skip
	server, err := postgrestest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	db := openPostgres(t, server.URL("postgres"))
	file := newFile("ada")
	if err := db.AddFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.AddFile(t.Context(), newFile("ada")); engine.KindOf(err) != engine.ErrUnavailable {
			t.Errorf("%v", err)
		}
		if _, err := db.File(t.Context(), "ada", file.ID); engine.KindOf(err) != engine.ErrUnavailable {
			t.Errorf("%v", err)
		}
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.AddFile(t.Context(), newFile("ada")); err != nil {
		t.Errorf("%v", err)
	}
}

// One replica at a time does something with a blob.
func TestLock(t *testing.T) {
	onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
		db := open()
		inside, most := 0, 0
		var working sync.WaitGroup
		for range 8 {
			working.Go(func() {
				for range 5 {
					if err := db.Lock(t.Context(), engine.Digest{7}, func() error {
						inside++ // the race detector sees it without the lock
						most = max(most, inside)
						inside--
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		working.Wait()
		if most != 1 {
			t.Errorf("%d at once", most)
		}
		err := db.Lock(t.Context(), engine.Digest{7}, func() error { return engine.ErrFull })
		if engine.KindOf(err) != engine.ErrFull {
			t.Errorf("%v", err)
		}
	})
}

// Two services that do not know of each other do not share a database.
func TestSecondService(t *testing.T) {
	address := newPostgres(t)
	first := openPostgres(t, address)
	if _, err := OpenPostgres(t.Context(), address, "", slog.New(slog.DiscardHandler)); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openPostgres(t, address)
	if _, err := OpenPostgres(t.Context(), address, "", slog.New(slog.DiscardHandler), WithReplicas()); !errors.Is(err,
		ErrInUse) {
		t.Errorf("a replica beside one that is alone: %v", err)
	}
}

// Exclusive use, as for a copy into the database, is refused beside replicas.
func TestAloneBesideReplicas(t *testing.T) {
	address := newPostgres(t)
	openPostgres(t, address, WithReplicas())
	openPostgres(t, address, WithReplicas())
	if _, err := OpenPostgres(t.Context(), address, "", slog.New(slog.DiscardHandler)); !errors.Is(err, ErrInUse) {
		t.Errorf("%v", err)
	}
}
