package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/setup"
)

// A migration has two steps. The files come first, each under its digest, so that those
// in the bucket already are skipped. Then all rows are copied in one transaction, so
// that the database is empty or complete.

// sendConcurrency is the number of files that are sent at once.
const sendConcurrency = 8

// claimFile is the file in a data directory with the id that claims its bucket.
const claimFile = "migrate.id"

func (a *app) migrate() *cobra.Command {
	database, blobs := "", ""
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Copies one machine's data into a PostgreSQL database and a bucket",
		Long: `Copies what is kept in the data directory into a PostgreSQL database, a bucket or
both: files, sessions, runs, keys. The settings database and blobs name them, or the
flags. The service must not run meanwhile, on either side.

Every file is read back from the bucket, and every row is compared. One that was
interrupted is started again with the same command: what is there already is not sent
again. The data directory stays as it is; folders and their undo, conversations with
providers and installed packages are of this machine and are not copied.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("to-database") {
				a.Config.Database = config.Secret(database)
			}
			if cmd.Flags().Changed("to-blobs") {
				a.Config.Blobs = blobs
			}
			if a.Config.Database == "" && a.Config.Blobs == "" {
				return command.Fail(command.ExitUsage,
					"name them with --to-database URL and --to-blobs URL, or with AIRLOCK_DATABASE and "+
						"AIRLOCK_BLOBS", "neither a database nor a bucket to copy to was named")
			}
			if a.socketAnswers(cmd.Context()) {
				return command.Fail(command.ExitConflict, "stop it, and start none until the copy is complete",
					"a service holds %s", a.Config.Data)
			}
			if os.Geteuid() == 0 {
				return a.asServiceUser(nil, nil, "migrate")
			}
			r, err := a.runMigration(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(r)
		},
	}
	cmd.Flags().StringVar(&database, "to-database", "", "`URL` of the database; "+
		"AIRLOCK_DATABASE keeps a password out of the list of processes")
	cmd.Flags().StringVar(&blobs, "to-blobs", "", "`URL` of the bucket")
	return a.WithFlags(cmd)
}

// migrateReport is what migrate prints. A field is null if its copy was not asked for.
type migrateReport struct {
	Files *movedFiles `json:"files"`
	Rows  *movedRows  `json:"rows"`

	data string
}

type movedFiles struct {
	Sent  int   `json:"sent"`
	There int   `json:"there"` // in the bucket already
	Lost  int   `json:"lost"`  // missing or damaged in the data directory
	Bytes int64 `json:"bytes"` // of those sent
}

type movedRows struct {
	Rows   int  `json:"rows"`
	Copied bool `json:"copied"` // false: all were in the database already
}

func (r migrateReport) WriteText(p *command.Page) {
	if f := r.Files; f != nil {
		p.Line("%s files sent (%s), %s were there already; all were read back and compared.", humanize.Comma(int64(f.Sent)),
			humanize.IBytes(uint64(f.Bytes)), humanize.Comma(int64(f.There)))
		if f.Lost > 0 {
			p.Line("%s files are absent or damaged in %s: they stay what they are, not found.", humanize.Comma(int64(f.Lost)),
				command.Printable(r.data))
		}
	}
	switch rows := r.Rows; {
	case rows == nil:
	case rows.Copied:
		p.Line("%s rows copied and compared.", humanize.Comma(int64(rows.Rows)))
	default:
		p.Line("All %s rows were there already; they are the same.", humanize.Comma(int64(rows.Rows)))
	}
	p.Line("Start the service with these settings now. %s is as it was: keep it until the service",
		command.Printable(r.data))
	p.Line("has what you expect.")
}

func (a *app) runMigration(ctx context.Context) (r migrateReport, err error) {
	r.data = a.Config.Data
	from, err := a.openSource(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	var to *index.DB
	if a.Config.Database != "" {
		if to, err = a.openTarget(ctx, from.index); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
	}
	progress := setup.NewProgress(a.Streams.Err, a.PageOn(a.Streams.Err).Colour)
	if a.Config.Blobs != "" {
		if r.Files, err = a.moveFiles(ctx, from, to, progress); err != nil {
			return r, err
		}
	}
	if to == nil {
		return r, nil
	}
	progress.Step("Rows")
	r.Rows = &movedRows{}
	r.Rows.Rows, r.Rows.Copied, err = from.index.CopyTo(ctx, to, func(done, total int) {
		if done%1000 == 0 || done == total {
			progress.Update(done, total, "rows")
		}
	})
	if errors.Is(err, index.ErrOther) {
		return r, otherData(err)
	}
	if err == nil {
		progress.Done(humanize.Comma(int64(r.Rows.Rows)) + " compared")
	}
	return r, err
}

func otherData(err error) error {
	return &command.Failure{Code: command.ExitConflict, Word: "other_data", Err: err,
		Hint: "name an empty database; if a service has run on this one since it was copied, the copy was complete"}
}

// openSource opens and locks the data directory, as a service does.
func (a *app) openSource(ctx context.Context) (*storage, error) {
	path := filepath.Join(a.Config.Data, "index.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, command.Fail(command.ExitFailed, "--data DIR names another directory", "%s holds nothing to copy",
			a.Config.Data)
	}
	db, err := index.Open(ctx, path, a.Log)
	if err != nil {
		return nil, dataError(a.Config.Data, err)
	}
	files, err := blob.Open(filepath.Join(a.Config.Data, "files"))
	if err != nil {
		return nil, errors.Join(dataError(a.Config.Data, err), db.Close())
	}
	return &storage{index: db, blobs: files}, nil
}

// openTarget opens the database, and refuses one with other data before anything is sent.
func (a *app) openTarget(ctx context.Context, from *index.DB) (*index.DB, error) {
	to, err := index.OpenPostgres(ctx, a.Config.Database.Reveal(), "", a.Log)
	if errors.Is(err, index.ErrInUse) {
		return nil, &command.Failure{Code: command.ExitConflict, Word: "database_in_use", Err: err,
			Hint: "stop the service that uses it"}
	}
	if err != nil {
		return nil, &command.Failure{Code: command.ExitUnavailable, Word: "database", Err: err,
			Hint: "`airlock doctor` says what is amiss with AIRLOCK_DATABASE"}
	}
	here, err := from.Rows(ctx)
	there, otherErr := to.Rows(ctx)
	if err = errors.Join(err, otherErr); err == nil && there > 0 && there != here {
		err = otherData(fmt.Errorf("%w: it has %d rows, and %s has %d", index.ErrOther, there, a.Config.Data, here))
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// moveFiles sends the files that the bucket lacks, and verifies all of them.
func (a *app) moveFiles(
	ctx context.Context, from *storage, to *index.DB, progress setup.Progress,
) (*movedFiles, error) {
	there := &storage{index: cmp.Or(to, from.index), metrics: newStorageMetrics()}
	store, err := a.openBucket(ctx, a.Config.Data, there, nil)
	if err != nil {
		return nil, err
	}
	m := &fileMove{from: from.blobs, to: store, progress: progress, report: &movedFiles{}}
	return m.report, errors.Join(a.sendFiles(ctx, m, from.index), store.Close())
}

func (a *app) sendFiles(ctx context.Context, m *fileMove, db *index.DB) error {
	wanted, err := db.Contents(ctx)
	if err != nil {
		return err
	}
	if m.there, err = m.to.List(ctx); err != nil {
		return err
	}
	if err := a.claimBucket(ctx, m, wanted); err != nil {
		return err
	}
	m.total = len(wanted)
	m.progress.Step("Files")
	sending, ctx := errgroup.WithContext(ctx)
	sending.SetLimit(sendConcurrency)
	for _, b := range wanted {
		sending.Go(func() error { return m.file(ctx, b) })
	}
	if err := sending.Wait(); err != nil {
		return err
	}
	m.progress.Done(fmt.Sprintf("%s read back", humanize.Comma(int64(m.total-m.report.Lost))))
	return nil
}

// claimBucket refuses a bucket with files of another service: each service would remove
// the files that only the other one knows.
func (a *app) claimBucket(ctx context.Context, m *fileMove, wanted []engine.Blob) error {
	name := filepath.Join(a.Config.Data, claimFile)
	id, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte(rand.Text())
		err = os.WriteFile(name, id, 0o600)
	}
	if err != nil {
		return dataError(a.Config.Data, err)
	}
	other := len(m.there)
	for _, b := range wanted {
		if _, ok := m.there[b.SHA256]; ok {
			other--
		}
	}
	owner, err := m.to.Owner(ctx)
	if err != nil {
		return err
	}
	if other > 0 && owner != string(id) {
		return &command.Failure{Code: command.ExitConflict, Word: "other_data", Err: fmt.Errorf(
			"the bucket holds %d files that are not of %s", other, a.Config.Data),
			Hint: "name an empty bucket, or another prefix in this one"}
	}
	if owner == "" {
		err = m.to.Claim(ctx, string(id))
	}
	return err
}

// fileMove copies files into a bucket.
type fileMove struct {
	from  engine.BlobReader
	to    *bucket.Store
	there map[engine.Digest]int64 // sizes of files that the bucket had
	total int

	mu       sync.Mutex
	done     int
	progress setup.Progress
	report   *movedFiles
}

// file sends one file, unless the bucket has it undamaged.
func (m *fileMove) file(ctx context.Context, b engine.Blob) error {
	if size, ok := m.there[b.SHA256]; ok && size == b.Size {
		err := m.to.Check(ctx, b)
		if err == nil {
			m.count(func(r *movedFiles) { r.There++ })
			return nil
		}
		if engine.KindOf(err) != engine.ErrNotFound {
			return err
		}
	}
	f, err := m.from.Open(ctx, b.SHA256, b.Size)
	if engine.KindOf(err) == engine.ErrNotFound {
		m.count(func(r *movedFiles) { r.Lost++ })
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := m.to.Send(ctx, b, f); err != nil {
		return err
	}
	if err := m.to.Check(ctx, b); err != nil {
		return err
	}
	m.count(func(r *movedFiles) {
		r.Sent++
		r.Bytes += b.Size
	})
	return nil
}

func (m *fileMove) count(change func(*movedFiles)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m.report)
	m.done++
	m.progress.Update(m.done, m.total, humanize.IBytes(uint64(m.report.Bytes))+" sent")
}
