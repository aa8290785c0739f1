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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sqlite"
	"github.com/airlock-run/airlock/internal/volume"
)

// A backup is a tar archive, compressed by zstd. Its first entry is the header. Snapshots
// of the databases follow, then the files. A file that is deleted meanwhile is missing,
// and counts as lost after a restore.

var assistantDatabase, checkAssistant, assistantFiles = assist.Data()

// databases are the databases of a data directory, with what tells whether one is whole.
var databases = []string{"index.db", assistantDatabase}

var checks = map[string]func(ctx context.Context, path string) error{"index.db": index.Check,
	assistantDatabase: checkAssistant}

// keptInBackup are the other names in a data directory that a backup has: files, contents of
// journals, outputs of conversations, folders of other computers, keys of providers and switches
// of the page. Settings and whatever setup or a running service makes are not in one, and restore
// takes nothing else, so that a backup by another hand sets nothing.
var keptInBackup = append([]string{"files", switchesFile}, assistantFiles...)

// backupEntry is the name of the first entry, and backupFormat the newest format, which has volumes: with folders,
// links and modes. A backup without volumes has the one before.
const (
	backupEntry  = "airlock-backup.json"
	backupFormat = 2
)

// volumesInBackup is the folder of volumes in a backup, as in a data directory.
const volumesInBackup = "volumes"

// backupHead is the content of the first entry.
type backupHead struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that wrote it
	Created time.Time `json:"created"`
}

type backupReport struct {
	File  string `json:"file"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"` // before compression
	// LeftOut are the names in a backup that a data directory of this version does not have.
	LeftOut []string `json:"left_out,omitempty"`
}

func (a *app) printBackup(verb string, r backupReport) error {
	line, values := "%s %d files, %s: %s", []any{verb, r.Files, humanize.IBytes(uint64(r.Bytes)),
		command.Printable(r.File)}
	if len(r.LeftOut) > 0 {
		line += "\nLeft out, since it is no data: %s"
		values = append(values, command.Printable(strings.Join(r.LeftOut, ", ")))
	}
	return a.PrintLine(r, line, values...)
}

func (a *app) backup() *cobra.Command {
	return a.WithFlags(&cobra.Command{
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
					r.File = args[0]
					err = a.printBackup("backed up", r)
				}
			}
			return errors.Join(err, done(err == nil))
		},
	})
}

// onThisMachine returns an error if the storage is a database or a bucket.
func (a *app) onThisMachine() error {
	if a.Config.Database == "" && a.Config.Blobs == "" {
		return nil
	}
	return command.Fail(command.ExitUsage,
		"back up the database with pg_dump first and the bucket after it, so that every file that the "+
			"database knows is there", "what this service keeps is in a database or a bucket, not in the data directory")
}

// backupTarget opens the new file. done closes it, and removes it unless keep is set.
func (a *app) backupTarget(name string) (to io.Writer, done func(keep bool) error, err error) {
	if name == "-" {
		return a.Streams.Out, func(bool) error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, command.Fail(command.ExitConflict, "choose a new name", "%s exists already", name)
	}
	if err != nil {
		return nil, nil, command.Fail(command.ExitFailed, "", "%w", err)
	}
	return f, func(keep bool) error {
		err := errors.Join(f.Sync(), f.Close())
		if !keep || err != nil {
			os.Remove(name)
		}
		return err
	}, nil
}

// asServiceUser runs this program again as the service's user, which owns the data: root
// must neither trust the names in it nor leave files of its own.
func (a *app) asServiceUser(in io.Reader, out io.Writer, args ...string) error {
	who, err := a.ServiceUser()
	if err != nil {
		return err
	}
	if a.JSON {
		end := slices.Index(args, "--") // the flags end here
		if end < 0 {
			end = len(args)
		}
		args = slices.Insert(args, end, "--json")
	}
	cmd := a.AsUser(who, args...)
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
	format := backupFormat
	at := filepath.Join(a.Config.Data, volumesInBackup)
	if _, err := os.Lstat(at); err != nil {
		format--
	}
	head, err := json.Marshal(backupHead{Format: format, Version: readVersion(a.release).Version,
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
		from, copied := filepath.Join(a.Config.Data, name), filepath.Join(temp, name)
		f, err := os.Open(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // SQLite's error would not say why
			return dataError(a.Config.Data, err)
		}
		f.Close()
		found = true
		if err := sqlite.Snapshot(ctx, from, copied); err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		if err := b.add(os.DirFS(temp), name); err != nil {
			return err
		}
	}
	if !found {
		return command.Fail(command.ExitFailed, "--data DIR names another directory", "%s holds nothing to back up",
			a.Config.Data)
	}
	if format == backupFormat {
		if err := b.addVolumes(ctx, at); err != nil {
			return err
		}
	}
	data := os.DirFS(a.Config.Data)
	return fs.WalkDir(data, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted meanwhile
		case err != nil:
			return err
		case name != "." && !inBackup(name) && entry.IsDir():
			return fs.SkipDir
		case !inBackup(name) || !entry.Type().IsRegular():
			return nil
		}
		return b.add(data, name)
	})
}

// inBackup reports whether a file or folder is in backups, besides the databases.
func inBackup(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains(keptInBackup, top) && name != "files/tmp" && !strings.HasPrefix(name, "files/tmp/")
}

type backupWriter struct {
	tar    *tar.Writer
	report *backupReport
}

// addVolumes writes the volumes, to which programs may write meanwhile.
func (b *backupWriter) addVolumes(ctx context.Context, at string) error {
	volumes, err := volume.Open(at)
	if err != nil {
		return err
	}
	defer volumes.Close()
	files, bytes, err := volumes.Pack(ctx, b.tar, volumesInBackup)
	b.report.Files += files
	b.report.Bytes += bytes
	return err
}

// add writes one file, unless it was deleted meanwhile.
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
	n, err := io.Copy(b.tar, io.LimitReader(f, info.Size())) // the file may grow
	b.report.Files++
	b.report.Bytes += n
	return err
}

// restoreFolder is the folder in the data directory where a backup is unpacked.
const restoreFolder = "airlock.restore"

func (a *app) restore() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "restore FILE",
		Short: "Puts back what backup has written, into a data directory without data",
		Long: `Puts back what airlock backup has written, into a data directory that has no data
yet; the packages that setup has installed there stay. All of it is there at the end,
or none. FILE - is standard input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.onThisMachine(); err != nil {
				return err
			}
			if a.socketAnswers(cmd.Context()) {
				return command.Fail(command.ExitConflict, "stop it, or name another directory with --data", "a service holds %s",
					a.Config.Data)
			}
			from := a.Streams.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return command.Unreadable(args[0], err)
				}
				defer f.Close()
				from = f
			}
			if os.Geteuid() == 0 {
				return a.asServiceUser(from, nil, "restore", "-")
			}
			if err := makeData(a.Config.Data); err != nil {
				return err
			}
			r, err := a.readBackup(cmd.Context(), from)
			if err != nil {
				return err
			}
			r.File = a.Config.Data
			return a.printBackup("restored", r)
		},
	})
}

func (a *app) readBackup(ctx context.Context, from io.Reader) (r backupReport, err error) {
	for _, name := range databases {
		if _, err := os.Lstat(filepath.Join(a.Config.Data, name)); err == nil {
			return r, command.Fail(command.ExitConflict, "name an empty one with --data, or move what is there away",
				"%s holds data already",
				a.Config.Data)
		}
	}
	root, err := os.OpenRoot(a.Config.Data)
	if err != nil {
		return r, dataError(a.Config.Data, err)
	}
	defer root.Close()
	defer func() {
		if _, writing := errors.AsType[*fs.PathError](err); writing {
			err = dataError(a.Config.Data, err)
		}
	}()
	if err := root.RemoveAll(restoreFolder); err != nil { // left by an interrupted restore
		return r, err
	}
	defer func() { err = errors.Join(err, root.RemoveAll(restoreFolder)) }()
	plain, err := zstd.NewReader(from)
	if err != nil {
		return r, notABackup(err)
	}
	defer plain.Close()
	if err := unpackBackup(ctx, tar.NewReader(plain), root, &r); err != nil {
		return r, err
	}
	if err := checkBackup(ctx, root); err != nil {
		return r, err
	}
	return r, publishBackup(root)
}

func notABackup(err error) error {
	return command.Fail(command.ExitFailed, "name a whole file that airlock backup has written",
		"this is not a backup, or only a part of one: %w", err)
}

// unpackBackup writes the entries below restoreFolder.
func unpackBackup(ctx context.Context, entries *tar.Reader, root *os.Root, r *backupReport) error {
	first, err := entries.Next()
	if err != nil {
		return notABackup(err)
	}
	var head backupHead
	if first.Name != backupEntry {
		return notABackup(errors.New("it begins with " + command.Printable(first.Name)))
	}
	if err := json.NewDecoder(io.LimitReader(entries, 1<<16)).Decode(&head); err != nil {
		return notABackup(err)
	}
	if head.Format > backupFormat {
		return command.Fail(command.ExitFailed, "install that version",
			"this backup was written by the newer version %s, in a format that this one does not know",
			command.Printable(head.Version))
	}
	volumes := &volume.Unpacking{Root: root}
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return volumes.End()
		}
		if err != nil {
			return notABackup(err)
		}
		if name, ok := strings.CutPrefix(entry.Name, volumesInBackup+"/"); ok {
			n, err := volumes.Add(path.Join(restoreFolder, volumesInBackup), name, entry, entries)
			if err := unpacked(err); err != nil {
				return err
			}
			if entry.Typeflag == tar.TypeReg {
				r.Files++
				r.Bytes += n
			}
			continue
		}
		if entry.Typeflag != tar.TypeReg || !fs.ValidPath(entry.Name) {
			return notABackup(errors.New("nothing of this kind is in one: " + command.Printable(entry.Name)))
		}
		if !slices.Contains(databases, entry.Name) && !inBackup(entry.Name) {
			if top, _, _ := strings.Cut(entry.Name, "/"); len(r.LeftOut) < mostLeftOut && !slices.Contains(r.LeftOut, top) {
				r.LeftOut = append(r.LeftOut, top)
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unpackFile(entries, root, path.Join(restoreFolder, entry.Name))
		if err := unpacked(err); err != nil {
			return err
		}
		r.Files++
		r.Bytes += n
	}
}

// unpacked explains the error of writing an entry.
func unpacked(err error) error {
	if _, writing := errors.AsType[*fs.PathError](err); err != nil && !writing {
		return notABackup(err) // it ends or is damaged within a file
	}
	return err
}

// mostLeftOut bounds the list of names that are not restored.
const mostLeftOut = 20

// checkBackup returns an error unless the unpacked databases are whole, so that nothing of a
// damaged backup is put into place.
func checkBackup(ctx context.Context, root *os.Root) error {
	found := false
	for _, name := range databases {
		at := filepath.Join(root.Name(), restoreFolder, name)
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found = true
		if err := checks[name](ctx, at); err != nil {
			return command.Fail(command.ExitFailed, "restore another backup; nothing was changed",
				"%s in the backup cannot be used: %w", name,
				err)
		}
	}
	if !found {
		return notABackup(errors.New("it has no database"))
	}
	return nil
}

func unpackFile(from io.Reader, root *os.Root, name string) (n int64, err error) {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(f, from)
	return n, errors.Join(err, f.Close())
}

// publishBackup moves the unpacked files into place, the databases last: a directory
// without them has no data.
func publishBackup(root *os.Root) error {
	folder, err := root.Open(restoreFolder)
	if err != nil {
		return notABackup(errors.New("there is nothing in it"))
	}
	defer folder.Close()
	if err := unix.Syncfs(int(folder.Fd())); err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	var last []string
	for _, name := range names {
		if slices.Contains(databases, name) {
			last = append(last, name)
			continue
		}
		if err := root.RemoveAll(name); err != nil { // setup makes an empty folder for files
			return err
		}
		if err := root.Rename(path.Join(restoreFolder, name), name); err != nil {
			return err
		}
	}
	for _, name := range last {
		if err := root.Rename(path.Join(restoreFolder, name), name); err != nil {
			return err
		}
	}
	return unix.Syncfs(int(folder.Fd()))
}
