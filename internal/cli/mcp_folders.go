package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// projectFolders returns the folders whose files the agent may hand to programs without --files: those that it
// says it works in, else the one that it was started in. A folder that holds the whole home directory is none, and
// neither is any with a service on another machine: their files would leave this one.
func (d *mcpServer) projectFolders(roots []string) []string {
	if d.Config.Server != "" && !strings.HasPrefix(d.Config.Server, "unix://") {
		return nil
	}
	if len(roots) == 0 {
		if here, err := os.Getwd(); err == nil {
			roots = []string{here}
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil // nothing tells which folders are too large
	}
	return slices.DeleteFunc(slices.Clone(roots), func(folder string) bool { return !isProject(folder, home) })
}

// isProject reports whether a folder is one below the home directory, or beside it.
func isProject(folder, home string) bool {
	real, err := filepath.EvalSymlinks(folder)
	if err != nil || !filepath.IsAbs(real) {
		return false
	}
	if home, err = filepath.EvalSymlinks(home); err != nil {
		return false
	}
	info, err := os.Stat(real)
	return err == nil && info.IsDir() && filepath.Dir(real) != real && !within(real, home)
}

// sharedFile is a file that an agent has named, below a folder.
type sharedFile struct {
	folder, name string
}

// find finds the file that an agent means: below --files, else below the project's folders, where hidden files are
// left out. They hold keys more often than data.
func (d *mcpServer) find(name string, roots []string) (sharedFile, error) {
	folders, hidden := []string{d.options.files}, true
	if d.options.files == "" {
		folders, hidden = d.projectFolders(roots), false
	}
	if len(folders) == 0 {
		return sharedFile{}, fmt.Errorf("files: %q is no id of a file, and no folder is shared: the person starts "+
			"`airlock mcp` with --files DIR, or the agent in the project's folder", name)
	}
	var refused error
	for _, folder := range folders {
		clean := name
		if rel, err := filepath.Rel(folder, name); err == nil && filepath.IsAbs(name) && within(folder, name) {
			clean = rel // agents know where they work
		}
		clean, err := engine.CleanPath(filepath.ToSlash(clean))
		if err != nil {
			refused = cmp.Or(refused, fmt.Errorf("files: %q is no name of a file below %s", name, folder))
			continue
		}
		if !hidden && hasHidden(folder, clean) {
			refused = fmt.Errorf("files: %q is hidden: only --files shares such files", name)
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(clean))); err == nil || len(folders) == 1 {
			return sharedFile{folder, clean}, nil
		}
	}
	return sharedFile{}, cmp.Or(refused, fmt.Errorf("files: there is no file %q below %s", name,
		strings.Join(folders, ", ")))
}

// hasHidden reports whether a file is hidden, by its name or by what its name leads to.
func hasHidden(folder, name string) bool {
	names := []string{name}
	real, err := filepath.EvalSymlinks(filepath.Join(folder, filepath.FromSlash(name)))
	if top, topErr := filepath.EvalSymlinks(folder); err == nil && topErr == nil {
		if rel, err := filepath.Rel(top, real); err == nil {
			names = append(names, filepath.ToSlash(rel))
		}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
	})
}

// Without -o files of programs are kept for the person in a folder of the user's cache, one for each connection.
const (
	madeTime  = 7 * 24 * time.Hour // after which a connection's files are removed
	madeBytes = 1 << 30            // of all connections, and of one
)

// madeFolder returns a new name for the files of this connection, and makes room for them.
func madeFolder(now time.Time) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	made := filepath.Join(cache, "airlock", "made")
	if err := os.MkdirAll(made, 0o700); err != nil {
		return "", err
	}
	if err := prune(made, now); err != nil {
		return "", err
	}
	return filepath.Join(made, fmt.Sprintf("%s-%d", now.Format("20060102-150405"), os.Getpid())), nil
}

// prune removes what is old, and the oldest of what is too much.
func prune(made string, now time.Time) error {
	entries, err := os.ReadDir(made) // their names begin with the time
	if err != nil {
		return err
	}
	slices.Reverse(entries)
	var total int64
	for _, entry := range entries {
		folder := filepath.Join(made, entry.Name())
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removes it
		}
		if err != nil {
			return err
		}
		_ = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it counts as nothing
			}
			if of, err := e.Info(); err == nil {
				total += of.Size()
			}
			return nil
		})
		if total > madeBytes || now.Sub(info.ModTime()) > madeTime {
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileURL returns the address of a file on this machine.
func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}
