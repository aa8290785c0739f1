// Package workspace changes files in a folder safely, on behalf of a party
// that is not trusted to: an AI model, or a program that it wrote.
//
// A workspace is a folder. Changes become a Proposal: rules decide which paths
// may be written at all, and every file is shown as it is and as it would be.
// A person, or a Policy, approves all of it or single files or hunks; the
// approval is bound to the exact bytes that were shown. Commit then applies it
// as one transaction:
//
//   - All or nothing. After Commit, and after a crash and the next Open, every
//     approved file is in its new state, or every one is in its old state.
//   - No byte that another process wrote is lost. A file that changed since
//     the proposal was made is never replaced: the commit reverses itself and
//     reports it. Rebase offers a three-way merge.
//   - Undo reverts changes, as a whole or by file or hunk. It
//     keeps later edits, or reports why it cannot. Undo is
//     a transaction like any other, so Redo works too. Git is not needed.
//
// While a commit publishes its files, for some milliseconds, other processes
// can see some of them new and others old.
//
// Files are reached by open directories and single names, never through a
// symbolic link, so that swapping directories cannot lead a write out of the
// folder. What a workspace remembers is in a Store outside of the folder; Dir
// is one in a directory.
//
// A Workspace works on Linux and other Unix systems. Where a file system can
// let two files change places in one step (ext4, xfs, btrfs, tmpfs and most
// others on Linux), a file that is updated exists at every moment; elsewhere
// it is absent for a moment. Windows cannot open a name in an open directory
// without following links: there Open and LockFile return an error that is
// errors.ErrUnsupported, and what needs no folder works.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits are the sizes above which a file or a proposal is refused. A zero field
// takes the default.
type Limits struct {
	Files       int   // of one proposal: 200
	TextBytes   int64 // of one text file: 10 MiB
	BinaryBytes int64 // of one other file: 100 MiB
	BatchBytes  int64 // of all files of one proposal: 256 MiB
	NewDirs     int   // directories that would be made: 100
}

func (l Limits) orDefault() Limits {
	return Limits{
		Files:       cmp.Or(max(l.Files, 0), 200),
		TextBytes:   cmp.Or(max(l.TextBytes, 0), 10<<20),
		BinaryBytes: cmp.Or(max(l.BinaryBytes, 0), 100<<20),
		BatchBytes:  cmp.Or(max(l.BatchBytes, 0), 256<<20),
		NewDirs:     cmp.Or(max(l.NewDirs, 0), 100),
	}
}

// Options configure Open. Store is required.
type Options struct {
	Store  Store
	Limits Limits
	// Protected are directories that are never written to although they may be inside of
	// the folder, such as the store's.
	Protected []string
	// Keep is how much history stays; the default is 30 days and 1 GiB.
	Keep *Keep
	Log  *slog.Logger // nil: nothing is logged
}

// Workspace is a folder that is changed in transactions. Its methods may be
// called at once from many goroutines and many processes; commits into one
// folder happen one after the other.
type Workspace struct {
	root      string // absolute, without links
	id        string
	store     Store
	limits    Limits
	protected []string // relative to root
	keep      Keep
	log       *slog.Logger

	// at is called at each step of a commit. Tests end the process there.
	at func(step string)
	// noExchange treats the file system as unable to exchange files.
	noExchange bool
}

// Open opens the folder root as a workspace. A transaction that a dead process
// left unfinished is finished or reversed first.
func Open(ctx context.Context, root string, options Options) (*Workspace, error) {
	if options.Store == nil {
		return nil, errors.New("open workspace: no store was given")
	}
	w, err := open(root, options)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	if _, err := w.Recover(ctx); err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", w.root, err)
	}
	if err := w.store.Prune(ctx, w.keep); err != nil {
		w.log.WarnContext(ctx, "old transactions could not be cleared away", "root", w.root, "error", err)
	}
	return w, nil
}

func open(root string, options Options) (*Workspace, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: root, Err: errors.New("it is not a directory")}
	}
	sum := Sum([]byte(root))
	w := &Workspace{root: root, id: sum.String()[:32], store: options.Store, limits: options.Limits.orDefault(),
		keep: Keep{Age: 30 * 24 * time.Hour, Bytes: 1 << 30}, log: options.Log, at: func(string) {}}
	if options.Keep != nil {
		w.keep = *options.Keep
	}
	w.log = cmp.Or(w.log, slog.New(slog.DiscardHandler))
	for _, dir := range options.Protected {
		if rel, inside := w.within(dir); inside {
			w.protected = append(w.protected, rel)
		}
	}
	if dir, ok := options.Store.(*Dir); ok {
		rel, inside := w.within(dir.root.Name())
		if _, is := w.protects(rel); inside && !is {
			return nil, fmt.Errorf("the store %s is inside of the folder %s, where replies could change the history: "+
				"put it elsewhere, or name it in Options.Protected", dir.root.Name(), root)
		}
	}
	return w, nil
}

// within returns the path of a directory relative to the folder, and whether it is inside of it.
func (w *Workspace) within(dir string) (rel string, inside bool) {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	rel, err := filepath.Rel(w.root, dir)
	return filepath.ToSlash(rel), err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// protects returns the protected directory that a path is in.
func (w *Workspace) protects(path string) (dir string, is bool) {
	i := slices.IndexFunc(w.protected, func(dir string) bool { return dir == "." || below(path, dir) })
	if i < 0 {
		return "", false
	}
	return w.protected[i], true
}

// Root returns the folder, as an absolute path without symbolic links.
func (w *Workspace) Root() string { return w.root }

// ID names the workspace in its store. It is made from the root's path.
func (w *Workspace) ID() string { return w.id }

// longestWait is how long a commit waits for another commit into the same folder.
const longestWait = 30 * time.Second

// hold locks the workspace in its store, and the folder itself against processes with
// another store or another name of the folder.
func (w *Workspace) hold(ctx context.Context) (release func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	unlock, err := w.store.Lock(ctx, w.id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.root, err)
	}
	d, err := openFolder(w.root)
	if err != nil {
		return nil, errors.Join(explain(err), unlock())
	}
	if err := d.lock(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: another program commits into %s, perhaps under another name of it: try again", ErrBusy, w.root)
		}
		return nil, errors.Join(err, d.close(), unlock())
	}
	return func() error { return errors.Join(d.close(), unlock()) }, nil
}
