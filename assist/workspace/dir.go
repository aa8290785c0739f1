package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Dir is a Store in a directory: a file for each record, a ContentDir, and lock
// files. The directory must be on a local disk and outside of every workspace that
// the store serves.
type Dir struct {
	root     *os.Root
	contents *ContentDir
}

var _ Store = (*Dir)(nil)

// OpenDir opens a store, and makes its directory if it is missing.
func OpenDir(dir string) (*Dir, error) {
	for _, sub := range []string{"records", "locks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open workspace store: %w", err)
		}
	}
	contents, err := OpenContentDir(filepath.Join(dir, "contents"))
	if err != nil {
		return nil, fmt.Errorf("open workspace store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(err, contents.Close())
	}
	return &Dir{root: root, contents: contents}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return errors.Join(d.contents.Close(), d.root.Close()) }

// Lock implements Store.
func (d *Dir) Lock(ctx context.Context, workspace string) (func() error, error) {
	return LockFile(ctx, filepath.Join(d.root.Name(), "locks", workspace))
}

// sharing locks the contents against a Prune, or, exclusive, for one.
func (d *Dir) sharing(ctx context.Context, exclusive bool) (func() error, error) {
	return lockFile(ctx, filepath.Join(d.root.Name(), "locks", "contents"), exclusive)
}

// Save implements Store.
func (d *Dir) Save(ctx context.Context, r *Record, contents ...*Content) (err error) {
	unlock, err := d.sharing(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if _, err := d.contents.Put(ctx, contents...); err != nil {
		return fmt.Errorf("keep contents: %w", err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := "records/" + r.ID
	f, err := d.root.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.root.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(d.root, "records")
}

// Load implements Store.
func (d *Dir) Load(_ context.Context, id string) (*Record, error) {
	if !validID(id) {
		return nil, fmt.Errorf("transaction %q: %w", id, ErrNotFound)
	}
	text, err := d.root.ReadFile("records/" + id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("transaction %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("transaction %s: %w: %w", id, ErrDamaged, err)
	}
	return r, nil
}

// List implements Store.
func (d *Dir) List(ctx context.Context, workspace string, limit int, states ...State) ([]*Record, error) {
	all, err := d.records(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r *Record) bool {
		return r.Workspace != workspace || len(states) > 0 && !slices.Contains(states, r.State)
	})
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all, nil
}

// records returns every record, the newest first.
func (d *Dir) records(ctx context.Context) ([]*Record, error) {
	entries, err := fs.ReadDir(d.root.FS(), "records")
	if err != nil {
		return nil, err
	}
	var all []*Record
	for _, e := range entries {
		if !validID(e.Name()) {
			continue
		}
		r, err := d.Load(ctx, e.Name())
		if errors.Is(err, ErrNotFound) {
			continue // pruned meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Record) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return all, nil
}

// Open implements Store.
func (d *Dir) Open(_ context.Context, h Hash) (io.ReadCloser, error) { return d.contents.Open(h) }

// Prune implements Store.
func (d *Dir) Prune(ctx context.Context, keep Keep) (err error) {
	unlock, err := d.sharing(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	records, err := d.records(ctx)
	if err != nil {
		return err
	}
	sizes := map[Hash]int64{}
	if err := d.contents.List(func(h Hash, n int64) error { sizes[h] = n; return nil }); err != nil {
		return err
	}
	needed := map[Hash]bool{}
	var total int64
	for _, r := range records {
		own := total
		for _, h := range r.Hashes() {
			if !needed[h] {
				own += sizes[h]
			}
		}
		old := keep.Age > 0 && time.Since(r.Updated) > keep.Age
		if r.State.AtRest() && (old || keep.Bytes > 0 && own > keep.Bytes) {
			if err := d.root.Remove("records/" + r.ID); err != nil {
				return err
			}
			continue
		}
		total = own
		for _, h := range r.Hashes() {
			needed[h] = true
		}
	}
	for h := range sizes {
		if !needed[h] {
			if err := d.contents.Remove(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// LockFile locks a file, waiting until it is free or the context ends. The kernel
// unlocks the files of a process that ends. The file stays, with the pid of its
// last holder; the holder may remove it before it unlocks.
func LockFile(ctx context.Context, path string) (unlock func() error, err error) {
	return lockFile(ctx, path, true)
}

func lockFile(ctx context.Context, path string, exclusive bool) (func() error, error) {
	f, err := openLocked(ctx, path, exclusive)
	if err != nil {
		return nil, err
	}
	if exclusive {
		if err := f.Truncate(0); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The pid is for a message only: a full disk has no room for it.
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f.Close, nil
}

// openLocked opens a file and locks it. If the last holder removed the file
// meanwhile, openLocked locks the file that has the path now.
func openLocked(ctx context.Context, path string, exclusive bool) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f, exclusive); err != nil {
			defer f.Close()
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %s has held it until the time ran out: wait for that command to end, or end it", ErrBusy,
					holder(f))
			}
			return nil, err
		}
		ours, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		switch there, err := os.Stat(path); {
		case err == nil && os.SameFile(ours, there):
			return f, nil
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return nil, errors.Join(err, f.Close())
		}
		f.Close()
	}
}

// flock locks a file. It polls, since a context cannot interrupt the system call.
func flock(ctx context.Context, f *os.File, exclusive bool) error {
	wait := time.Millisecond
	for {
		held, err := tryFlock(f, exclusive)
		if held || err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait = min(wait*2, 50*time.Millisecond)
	}
}

// holder returns the process that has written its pid into the lock file.
func holder(f *os.File) string {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid <= 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// parallel runs do for 0 to n-1, a few at a time, and waits for all of them.
func parallel(n int, do func(i int) error) error {
	const width = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for first := range min(n, width) {
		wg.Go(func() {
			for i := first; i < n; i += width {
				errs[i] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
