package cli

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/sqlite"
)

// A backup is a tar archive, compressed by zstd. Its first entry says what it is, then
// come copies of the databases at one moment, then the files. A file that is deleted
// in between is missing in it, and after a restore it is as any lost file is.

// databases of a data directory.
var databases = []string{"index.db", "state.db"}

// backupEntry is the name of the first entry, and backupFormat the newest format.
const (
	backupEntry  = "airlock-backup.json"
	backupFormat = 1
)

// backupHead is the first entry.
type backupHead struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that wrote it
	Created time.Time `json:"created"`
}

type backupReport struct {
	File  string `json:"file"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"` // before compression

	verb string
}

func (r backupReport) text(p *page) {
	p.line("%s %d files, %s: %s", r.verb, r.Files, humanize.IBytes(uint64(r.Bytes)), printable(r.File))
}

func (a *app) backup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Writes all that is kept into one file, while the service runs",
		Long: `Writes all that is kept in the data directory into one new file: files, runs,
sessions, keys (their hashes), conversations, journals. The service may go on. The
packages that setup installs are not in it. FILE - is standard output.

The file holds what users have uploaded; keep it as safe as the data directory.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.onThisMachine(); err != nil {
				return err
			}
			to, done, err := a.backupTarget(args[0])
			if err != nil {
				return err
			}
			if os.Geteuid() == 0 {
				err = a.asServiceUser(nil, to, "backup", "-")
			} else {
				var r backupReport
				if r, err = a.writeBackup(cmd.Context(), to); err == nil && args[0] != "-" {
					r.File, r.verb = args[0], "backed up"
					a.out.result(r)
				}
			}
			return errors.Join(err, done(err == nil))
		},
	}
	a.addJSON(cmd)
	return cmd
}

// onThisMachine refuses what is kept elsewhere.
func (a *app) onThisMachine() error {
	if a.cfg.Database == "" && a.cfg.Blobs == "" {
		return nil
	}
	return fail(exitUsage, "back up the database with pg_dump first and the bucket after it, so that every file that the "+
		"database knows is there", "what this service keeps is in a database or a bucket, not in the data directory")
}

// backupTarget opens the new file. What done is told is whether to keep it.
func (a *app) backupTarget(name string) (to io.Writer, done func(keep bool) error, err error) {
	if name == "-" {
		return a.streams.Out, func(bool) error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, fail(exitConflict, "choose a new name", "%s exists already", name)
	}
	if err != nil {
		return nil, nil, fail(exitFailed, "", "%w", err)
	}
	return f, func(keep bool) error {
		err := errors.Join(f.Sync(), f.Close())
		if !keep || err != nil {
			os.Remove(name)
		}
		return err
	}, nil
}

// asServiceUser runs a command of this program again as the user that owns what the
// service keeps: root must neither trust the names in there nor leave files of its own.
func (a *app) asServiceUser(in io.Reader, out io.Writer, args ...string) error {
	who, err := a.serviceUser()
	if err != nil {
		return err
	}
	if a.json {
		end := slices.Index(args, "--") // of the flags
		if end < 0 {
			end = len(args)
		}
		args = slices.Insert(args, end, "--json")
	}
	cmd := a.asUser(who, args...)
	if cmd.Stdin = in; out != nil {
		cmd.Stdout = out
	}
	return childError(cmd.Run())
}

// writeBackup writes the archive.
func (a *app) writeBackup(ctx context.Context, to io.Writer) (r backupReport, err error) {
	temp, err := os.MkdirTemp("", "airlock-backup-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(temp)
	compressed, err := zstd.NewWriter(to)
	if err != nil {
		return r, err
	}
	b := &backupWriter{tar: tar.NewWriter(compressed), report: &r}
	err = a.fillBackup(ctx, b, temp)
	return r, errors.Join(err, b.tar.Close(), compressed.Close())
}

func (a *app) fillBackup(ctx context.Context, b *backupWriter, temp string) error {
	head, err := json.Marshal(backupHead{Format: backupFormat, Version: readVersion(a.release).Version,
		Created: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := b.tar.WriteHeader(&tar.Header{Name: backupEntry, Mode: 0o600, Size: int64(len(head))}); err != nil {
		return err
	}
	if _, err := b.tar.Write(head); err != nil {
		return err
	}
	found := false
	for _, name := range databases {
		from, copied := filepath.Join(a.cfg.Data, name), filepath.Join(temp, name)
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found = true
		if err := sqlite.Snapshot(ctx, from, copied); err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		if err := b.add(os.DirFS(temp), name); err != nil {
			return err
		}
	}
	if !found {
		return fail(exitFailed, "--data DIR names another directory", "%s holds nothing to back up", a.cfg.Data)
	}
	data := os.DirFS(a.cfg.Data)
	return fs.WalkDir(data, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted since
		case err != nil:
			return err
		case leftOutOfBackup(name) && entry.IsDir():
			return fs.SkipDir
		case leftOutOfBackup(name) || !entry.Type().IsRegular():
			return nil
		}
		return b.add(data, name)
	})
}

// leftOutOfBackup tells what setup makes again, what only a running service needs, and
// the databases, of which there are copies.
func leftOutOfBackup(name string) bool {
	switch name {
	case "runtimes", "locks", "reserve", "files/tmp", "lending", restoreFolder:
		return true
	}
	for _, database := range databases {
		if strings.HasPrefix(name, database) {
			return true
		}
	}
	return !strings.Contains(name, "/") && (strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".sock"))
}

type backupWriter struct {
	tar    *tar.Writer
	report *backupReport
}

// add writes one file, unless it was deleted since.
func (b *backupWriter) add(from fs.FS, name string) error {
	f, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(),
		ModTime: info.ModTime()}); err != nil {
		return err
	}
	n, err := io.Copy(b.tar, io.LimitReader(f, info.Size())) // what is appended meanwhile is of a later moment
	b.report.Files++
	b.report.Bytes += n
	return err
}
