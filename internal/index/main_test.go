package index

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/postgrestest"
)

// The test binary runs itself again as a second process, which holds the
// index or writes until it is killed.
const roleVariable = "AIRLOCK_INDEX_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			if err := stopPostgres(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(code)
		}))
	case "hold", "write", "snapshot":
		if err := second(role, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// second is the life of the second process.
func second(role, path string) error {
	ctx := context.Background()
	db, err := Open(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	fmt.Println("open")
	if role == "hold" {
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	if role == "snapshot" {
		return addSnapshots(ctx, db)
	}
	for {
		run, session := newRun("ada"), newSession("ada")
		run.Session, session.Implicit = session.ID, true
		if _, err := db.StartRun(ctx, run, &session, "", engine.Digest{}); err != nil {
			return err
		}
		fmt.Println("started", run.ID)
		end(run, engine.StatusOK)
		run.Stdout = "hello\n"
		run.Files = []engine.File{newFile("ada")}
		if err := db.FinishRun(ctx, run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}, nil); err != nil {
			return err
		}
		fmt.Println("finished", run.ID)
	}
}

// process is a running second process.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startSecond(t *testing.T, role, path string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], path)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(func() { p.kill() })
	if !p.lines.Scan() || p.lines.Text() != "open" {
		t.Fatalf("the second process said %q", p.lines.Text())
	}
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// clock makes no progress until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

var start = time.Date(2030, 1, 2, 3, 4, 5, 678_000, time.UTC)

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

func openAt(t testing.TB, path string, options ...Option) *DB {
	t.Helper()
	db, err := Open(t.Context(), path, slog.New(slog.DiscardHandler), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Each test of what both stores do runs on both.
var (
	postgres = sync.OnceValues(func() (*postgrestest.Server, error) {
		server, err := postgrestest.Start(context.Background())
		if err == nil {
			stopPostgres = server.Stop
		}
		return server, err
	})
	stopPostgres = func() error { return nil }
)

// newPostgres returns the address of an empty database.
func newPostgres(t testing.TB) string {
	t.Helper()
	server, err := postgres()
	if errors.Is(err, postgrestest.ErrMissing) && os.Getenv("AIRLOCK_NO_SKIP") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	address, err := server.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func openPostgres(t testing.TB, address string, options ...Option) *DB {
	t.Helper()
	db, err := OpenPostgres(t.Context(), address, "", slog.New(slog.DiscardHandler), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// emptied are databases with the newest tables that tests have left.
var emptied []string

// emptyPostgres returns the address of a database whose tables are empty, or of a new one:
// to make a database takes a second of processor time.
func emptyPostgres(t *testing.T) (address string) {
	t.Helper()
	if n := len(emptied); n > 0 {
		address, emptied = emptied[n-1], emptied[:n-1]
	} else {
		address = newPostgres(t)
	}
	t.Cleanup(func() { // after the index is closed
		const truncate = `DO $$ BEGIN EXECUTE (SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') ||
			' RESTART IDENTITY CASCADE' FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'airlock_schema'); END $$`
		ctx := context.Background()
		c, err := pgx.Connect(ctx, address)
		if err == nil {
			_, err = c.Exec(ctx, truncate)
			err = errors.Join(err, c.Close(ctx))
		}
		if err != nil {
			t.Errorf("empty a database: %v", err)
			return
		}
		emptied = append(emptied, address)
	})
	return address
}

func onEachStore(t *testing.T, test func(t *testing.T, open func(...Option) *DB)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(options ...Option) *DB { return openAt(t, newPath(t), options...) })
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, func(options ...Option) *DB { return openPostgres(t, emptyPostgres(t), options...) })
	})
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "index.db") }

func newFile(owner engine.Owner) engine.File {
	id := engine.NewID()
	return engine.File{
		ID: id, Owner: owner, Origin: engine.OriginNative, Name: "table.csv", Size: 12, MIME: "text/csv",
		SHA256: engine.Digest(append(id[:], id[:]...)), CreatedAt: start, ExpiresAt: start.Add(time.Hour), TTL: time.Hour,
	}
}

func newSession(owner engine.Owner) engine.Session {
	return engine.Session{ID: engine.NewID(), Owner: owner, Origin: engine.OriginNative, Kind: engine.SessionFiles,
		CreatedAt: start, ExpiresAt: start.Add(time.Hour), TTL: time.Hour, Wall: engine.WallGVisor}
}

func newRun(owner engine.Owner) *engine.Run {
	return &engine.Run{ID: engine.NewID(), Owner: owner, Origin: engine.OriginNative, Language: "python",
		Status: engine.StatusQueued, CreatedAt: start, Wall: engine.WallShared}
}

// end makes a run final.
func end(run *engine.Run, status engine.Status) {
	run.Status = status
	run.StartedAt, run.FinishedAt = run.CreatedAt.Add(time.Second), run.CreatedAt.Add(2*time.Second)
	run.Duration, run.Wall = time.Second, engine.WallGVisor
	for i := range run.Files {
		run.Files[i].Run = run.ID
	}
}
