package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/assist/workspace/workspacetest"
	"github.com/airlock-run/airlock/internal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t testing.TB, dir string) *DB {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
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

func TestJournal(t *testing.T) {
	workspacetest.TestStore(t, func(t *testing.T, dir string) workspace.Store { return openAt(t, dir).Journal() })
}

// TestOpenTogether opens a new database many times at once, as processes do
// that are started together, and writes through each.
func TestOpenTogether(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			db, err := Open(t.Context(), dir, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			for n := range 5 {
				now := time.Now()
				r := &workspace.Record{ID: fmt.Sprintf("%d-%d", i, n), Workspace: "w", State: workspace.Committed, Created: now,
					Updated: now}
				if err := db.Journal().Save(t.Context(), r, workspace.Bytes([]byte(r.ID))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := openAt(t, dir).Journal().List(t.Context(), "w", 0)
	if err != nil || len(all) != 40 {
		t.Errorf("%d records, %v; want 40", len(all), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  error
	}{
		{"newer", func(t *testing.T, path string) { execute(t, path, "PRAGMA user_version = 99") }, sqlite.ErrNewer},
		{"of something else", func(t *testing.T, path string) { execute(t, path, "PRAGMA application_id = 7") },
			sqlite.ErrDamaged},
		{"no database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("no database at all ", 500)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, sqlite.ErrDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			db, err := Open(t.Context(), dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, filepath.Join(dir, Name))
			if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, tc.want) {
				t.Errorf("%v; want %v", err, tc.want)
			}
		})
	}
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	openAt(t, dir)
	for _, name := range []string{".", Name, "contents", "locks"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v; others must not read it", name, info.Mode(), err)
		}
	}
}

// TestCommitNeedsItsReports: a transaction does not become Committed if its reports cannot
// be queued in the same step.
func TestCommitNeedsItsReports(t *testing.T) {
	db := openAt(t, t.TempDir())
	attached := json.RawMessage(`["no attachment"]`)
	save := func(state workspace.State) error {
		return db.Journal().Save(t.Context(), &workspace.Record{ID: "a", Workspace: "w", State: state,
			Created: time.Now(), Updated: time.Now(), Attached: attached})
	}
	for _, s := range []workspace.State{workspace.Staging, workspace.Committing, workspace.Published} {
		if err := save(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := save(workspace.Committed); err == nil {
		t.Error("a commit whose reports cannot be read was kept")
	}
	if r, err := db.Journal().Load(t.Context(), "a"); err != nil || r.State != workspace.Published {
		t.Errorf("the record is %v, %v; want published", r.State, err)
	}
	attached = nil
	for range 2 {
		if err := save(workspace.Committed); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	db := openAt(t, dir)
	good, small, large := workspace.Bytes([]byte("good")), workspace.Bytes([]byte("small")),
		workspace.Bytes([]byte(strings.Repeat("large", 100_000)))
	r := &workspace.Record{ID: "a", Workspace: "w", State: workspace.Committed, Created: time.Now(), Updated: time.Now()}
	if err := db.Journal().Save(t.Context(), r, good, small, large); err != nil {
		t.Fatal(err)
	}
	if damaged, err := db.Journal().Verify(t.Context()); err != nil || len(damaged) > 0 {
		t.Fatalf("%v, %v", damaged, err)
	}
	h := small.Hash()
	if _, err := db.writer.ExecContext(t.Context(), "UPDATE contents SET data = CAST('smell' AS BLOB) WHERE hash = ?",
		h[:]); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "contents", large.Hash().String()+".zst")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := db.Journal().Verify(t.Context())
	if err != nil || len(damaged) != 2 || slices.Contains(damaged, good.Hash()) {
		t.Errorf("%v, %v; want the two that were damaged", damaged, err)
	}
}

// benchmarkCommit is a durable commit through the journal, as the program does
// it; the median is printed.
func benchmarkCommit(b *testing.B, files int) {
	db := openAt(b, b.TempDir())
	dir := b.TempDir()
	old := strings.Repeat("the quick brown fox jumps over the lazy dog\n", 230)
	var names []string
	for i := range files {
		name := fmt.Sprintf("dir%d/file%03d.txt", i%10, i)
		names = append(names, name)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(old), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	w, err := workspace.Open(b.Context(), dir, workspace.Options{Store: db.Journal()})
	if err != nil {
		b.Fatal(err)
	}
	var times []time.Duration
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		var changes []workspace.Change
		for _, name := range names {
			changes = append(changes, workspace.Change{Verb: workspace.Write, Path: name,
				Content: workspace.Bytes(fmt.Appendf(nil, "round %d of %s\n%s", round, name, old))})
		}
		p, err := w.Plan(b.Context(), workspace.Origin{}, changes...)
		if err != nil {
			b.Fatal(err)
		}
		a, err := p.Approve()
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		start := time.Now()
		if _, err := w.Commit(b.Context(), p, a, workspace.CommitOptions{}); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/median")
}

func BenchmarkCommit3(b *testing.B)   { benchmarkCommit(b, 3) }
func BenchmarkCommit100(b *testing.B) { benchmarkCommit(b, 100) }

// TestLargeHistory: what an undo takes does not grow with the history.
func TestLargeHistory(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w, err := workspace.Open(t.Context(), t.TempDir(), workspace.Options{Store: db.Journal()})
	if err != nil {
		t.Fatal(err)
	}
	var changes []workspace.Change
	for i := range 110 {
		changes = append(changes, workspace.Change{Verb: workspace.Write, Path: fmt.Sprintf("dir/file%d.txt", i),
			Content: workspace.Bytes([]byte("text\n"))})
	}
	p, err := w.Plan(t.Context(), workspace.Origin{}, changes...)
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Approve()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), p, a, workspace.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	// The processor's time: a busy machine stretches the other.
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	undo := func() time.Duration {
		best := time.Hour
		for range 7 {
			start := used()
			if p, err := w.UndoLatest(t.Context()); err != nil || len(p.Files) != 110 {
				t.Fatalf("%v, %+v", err, p)
			}
			best = min(best, used()-start)
		}
		return best
	}
	short := undo()
	_, record, err := w.Transaction(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		older := *record
		older.ID, older.Created = fmt.Sprintf("%024d", i), record.Created.Add(-time.Duration(i+1)*time.Second)
		if err := db.Journal().Save(t.Context(), &older); err != nil {
			t.Fatal(err)
		}
	}
	long := undo()
	t.Logf("undo of 110 files: %v after 1 transaction, %v after 401", short, long)
	if long > 4*short {
		t.Errorf("it grows from %v to %v", short, long)
	}
}
