// Package sqlite opens the SQLite databases of a data directory: the settings of
// a connection, the schema's versions, and errors that name the cure.
//
// Each database has a [Schema]: numbered scripts, of which a released one is never
// edited. A database that is damaged, or that a newer program has written, is
// refused and left as it is.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"modernc.org/sqlite" // the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNewer is returned for a database that a newer version of the program has
	// written.
	ErrNewer = errors.New("database is newer than this program")
	// ErrDamaged is returned for a database, or a row, that cannot be read as one.
	ErrDamaged = errors.New("database is damaged")
)

// Open returns a pool of connections to an existing database. It connects when a
// connection is first used. Every setting that a connection has of its own is in
// settings (pragmas) or here.
func Open(path string, connections int, settings ...string) (*sql.DB, error) {
	lock := "immediate"
	if slices.Contains(settings, "query_only(1)") {
		lock = "deferred"
	}
	settings = append([]string{
		"foreign_keys(1)", "trusted_schema(0)", "cell_size_check(1)",
		"temp_store(2)", // in memory: a full disk has no room for it either
	}, settings...)
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{
		"_pragma": settings, "mode": {"rw"}, "_txlock": {lock}, "_dqs": {"0"}, "_error_rc": {"1"},
	}.Encode()}
	pool, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// Snapshot copies a database as it is at one moment to a new file, while others write
// to it. The copy has the versions of the original, and can shrink.
func Snapshot(ctx context.Context, path, to string) (err error) {
	pool, err := Open(path, 1, "busy_timeout(30000)", "auto_vacuum(incremental)") // of the copy
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	_, err = pool.ExecContext(ctx, "VACUUM INTO ?", to)
	return err
}

// Code returns SQLite's extended result code of an error, 0 if it has none.
func Code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// IsFull reports whether SQLite found no room on the disk. The index of the log is
// a file of its own, whose lack of room has its own code.
func IsFull(err error) bool {
	code := Code(err)
	return code&0xff == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR_SHMSIZE
}

// Querier is a connection, a pool or a transaction.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Schema is what a database should be.
type Schema struct {
	Application int      // marks the file as ours
	Steps       []string // step n makes version n out of version n-1
	Loss        string   // what starting empty would lose, such as "every stored file"
}

// ReadSteps returns the scripts 0001_*.sql, 0002_*.sql, ... of a folder.
func ReadSteps(files fs.FS, folder string) ([]string, error) {
	names, err := fs.Glob(files, folder+"/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var steps []string
	for i, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: number %d is expected", name, i+1)
		}
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(script))
	}
	return steps, nil
}

// Damaged returns ErrDamaged with its cause and cure.
func (s Schema) Damaged(path string, cause error) error {
	return fmt.Errorf(
		"%w: %s: %w: put back a backup of it; or, to start empty and lose %s, move it away together with %s-wal",
		ErrDamaged, path, printable{cause}, s.Loss, filepath.Base(path))
}

// printable is an error that may have bytes of a damaged file in its text.
type printable struct{ error }

func (p printable) Error() string {
	quoted := strconv.QuoteToGraphic(p.error.Error())
	text := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if len(text) > mostCause {
		text = strings.ToValidUTF8(text[:mostCause], "") + "..."
	}
	return text
}

func (p printable) Unwrap() error { return p.error }

// mostCause bounds the text about a damage.
const mostCause = 300

// Unreadable tells damage from other faults of a file, such as its permissions.
func (s Schema) Unreadable(path string, err error) error {
	switch Code(err) & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return s.Damaged(path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Version returns the version of a database, 0 for an empty one. It refuses one
// that is newer than the schema, or of another application.
func (s Schema) Version(ctx context.Context, q Querier, path string) (version int, err error) {
	var application, tables int
	for query, into := range map[string]*int{
		"PRAGMA user_version": &version, "PRAGMA application_id": &application, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := q.QueryRowContext(ctx, query).Scan(into); err != nil {
			return 0, s.Unreadable(path, err)
		}
	}
	switch {
	case application != s.Application && tables+version > 0:
		return 0, s.Damaged(path, errors.New("it is a database of something else"))
	case version > len(s.Steps):
		return 0, fmt.Errorf("%w: %s has version %d, this program knows versions up to %d: "+
			"install the newer program again, or put back a backup from before the upgrade", ErrNewer, path, version,
			len(s.Steps))
	}
	return version, nil
}

// Check returns an error unless a database, which nothing else uses, is whole and of this
// schema or an earlier version of it. It changes nothing.
func (s Schema) Check(ctx context.Context, path string) (err error) {
	pool, err := Open(path, 1, "query_only(1)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	version, err := s.Version(ctx, pool, path)
	if err == nil && version == 0 {
		err = s.Damaged(path, errors.New("it is empty"))
	}
	if err != nil {
		return err
	}
	return s.QuickCheck(ctx, pool, path)
}

// QuickCheck reads a whole database to find out whether it is damaged.
func (s Schema) QuickCheck(ctx context.Context, q Querier, path string) error {
	var verdict string
	if err := q.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return s.Unreadable(path, err)
	}
	if verdict != "ok" {
		return s.Damaged(path, errors.New(verdict))
	}
	return nil
}

// Upgrade brings a database to the newest version, each step in a transaction of
// its own, in which exec runs a script that ends in a version.
func (s Schema) Upgrade(version int, exec func(to int, script string) error) error {
	for version++; version <= len(s.Steps); version++ {
		script := fmt.Sprintf("%s\n;PRAGMA application_id = %d; PRAGMA user_version = %d;", s.Steps[version-1], s.Application,
			version)
		if err := exec(version, script); err != nil {
			return fmt.Errorf("bring the database to version %d: %w", version, err)
		}
	}
	return nil
}

// WriteAhead switches a database to a write-ahead log.
func (s Schema) WriteAhead(ctx context.Context, q Querier, path string) error {
	var mode string
	if err := q.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return s.Unreadable(path, err)
	}
	if mode != "wal" {
		return fmt.Errorf("%s: its file system cannot hold a write-ahead log (journal mode %q): "+
			"use a data directory on a local disk", path, mode)
	}
	return nil
}
