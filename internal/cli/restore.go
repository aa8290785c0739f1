package cli

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// restoreFolder is where a backup is unpacked before it counts, in the data directory.
const restoreFolder = "airlock.restore"

func (a *app) restore() *cobra.Command {
	cmd := &cobra.Command{
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
				return fail(exitConflict, "stop it, or name another directory with --data", "a service holds %s", a.cfg.Data)
			}
			from := a.streams.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fail(exitFailed, "", "%w", err)
				}
				defer f.Close()
				from = f
			}
			if os.Geteuid() == 0 {
				return a.asServiceUser(from, nil, "restore", "-")
			}
			if err := makeData(a.cfg.Data); err != nil {
				return err
			}
			r, err := a.readBackup(cmd.Context(), from)
			if err != nil {
				return err
			}
			r.File, r.verb = a.cfg.Data, "restored"
			a.out.result(r)
			return nil
		},
	}
	a.addJSON(cmd)
	return cmd
}

func (a *app) readBackup(ctx context.Context, from io.Reader) (r backupReport, err error) {
	for _, name := range databases {
		if _, err := os.Lstat(filepath.Join(a.cfg.Data, name)); err == nil {
			return r, fail(exitConflict, "name an empty one with --data, or move what is there away", "%s holds data already",
				a.cfg.Data)
		}
	}
	root, err := os.OpenRoot(a.cfg.Data)
	if err != nil {
		return r, dataError(a.cfg.Data, err)
	}
	defer root.Close()
	if err := root.RemoveAll(restoreFolder); err != nil { // of one that was interrupted
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
	return r, publishBackup(root)
}

func notABackup(err error) error {
	return fail(exitFailed, "name a whole file that airlock backup has written",
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
		return notABackup(errors.New("it begins with " + printable(first.Name)))
	}
	if err := json.NewDecoder(io.LimitReader(entries, 1<<16)).Decode(&head); err != nil {
		return notABackup(err)
	}
	if head.Format > backupFormat {
		return fail(exitFailed, "install that version",
			"this backup was written by the newer version %s, in a format that this one does not know", printable(head.Version))
	}
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return notABackup(err)
		}
		top, _, _ := strings.Cut(entry.Name, "/")
		database := entry.Name == databases[0] || entry.Name == databases[1]
		if entry.Typeflag != tar.TypeReg || !fs.ValidPath(entry.Name) || leftOutOfBackup(top) && !database {
			return notABackup(errors.New("nothing of this kind is in one: " + printable(entry.Name)))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unpackFile(entries, root, path.Join(restoreFolder, entry.Name))
		if err != nil {
			return err
		}
		r.Files++
		r.Bytes += n
	}
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

// publishBackup moves what was unpacked to its places, the databases last: a directory
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
		if name == databases[0] || name == databases[1] {
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
