package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/airlock-run/airlock/internal/engine"
)

// Files of a session's workspace while programs run. A change that is made here is stored before its caller has the
// answer, together with the changes of others who wait; so is what a process has changed, before its end is told.

// flush is a storing of files that callers wait for.
type flush struct {
	paths []string // with what is below them
	done  chan struct{}
	err   error // when done is closed
}

// flush stores the changes at or below paths of the workspace, with those of other callers that ask before it begins.
// After an error the changes may be lost with the workspace.
func (at *session) flush(ctx context.Context, paths ...string) error {
	at.mu.Lock()
	f := at.nextFlush
	first := f == nil
	if first {
		f = &flush{done: make(chan struct{})}
		at.nextFlush = f
	}
	f.paths = append(f.paths, paths...)
	at.mu.Unlock()
	if first && !at.service.background(func() {
		defer close(f.done)
		at.flushing.Lock()
		defer at.flushing.Unlock()
		at.mu.Lock()
		at.nextFlush = nil
		at.mu.Unlock()
		f.err = at.store(f.paths...)
	}) {
		close(f.done) // the service ends, and stores all files of its sessions
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return canceled(ctx)
	}
	if f.err == nil {
		return nil
	}
	return unstored(at.id, f.err)
}

// unstored returns the error of a change that may not be stored.
func unstored(id engine.ID, err error) error {
	return &engine.Error{Op: "store", Kind: engine.ErrUnavailable, ID: id.String(), Err: err,
		Hint: "The change may be lost: look at the file, and try again."}
}

// flushAll stores all changes. A running cell stores them with its own.
func (at *session) flushAll() {
	at.mu.Lock()
	busy := at.current != nil && at.current.cell != nil || at.interpreter == nil
	at.mu.Unlock()
	if !busy {
		_ = at.flush(at.service.life, ".") // store logs why
	}
}

// maxDropped bounds how many files that could not be stored beside cells are told with the next cell.
const maxDropped = 1000

// store stores the files that changed since the last time, all of them or those at or below paths.
func (at *session) store(paths ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	saved, err := at.service.engine.SaveAll(ctx, at.record, paths...)
	at.mu.Lock()
	defer at.mu.Unlock()
	at.stored = at.service.changes.Add(1)
	for _, d := range saved.Dropped {
		if len(at.dropped) < maxDropped && !slices.Contains(at.dropped, d) { // some are told each time
			at.dropped = append(at.dropped, d)
		}
	}
	at.note(&saved, err)
	if it := at.interpreter; it != nil && (err != nil || len(saved.Dropped) > 0) {
		it.unsaved = true // the next cell tells
	}
	if err != nil {
		at.service.log.Error("the files of a live session could not be stored", "session", at.record.ID, "error", err)
	}
	return err
}

// note remembers which files are in the workspace alone, for want of space. The caller holds mu.
func (at *session) note(saved *engine.Saved, err error) {
	at.failed = err
	if at.unstored == nil {
		at.unstored = map[string]string{}
	}
	for i := range saved.Files {
		delete(at.unstored, saved.Files[i].Path)
	}
	for _, path := range saved.Deleted {
		delete(at.unstored, path)
	}
	for _, d := range saved.Dropped {
		switch d.Reason {
		case engine.DropQuotaFull, engine.DropDiskFull, engine.DropTooLarge, engine.DropTotal, engine.DropTooMany,
			engine.DropUnstored, engine.DropSlow:
			if len(at.unstored) < maxDropped {
				at.unstored[d.Path] = d.Reason
			}
		}
	}
}

// dispensable returns an error if files are in the workspace alone.
func (at *session) dispensable() error {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.failed != nil {
		return at.failed
	}
	for path, reason := range at.unstored {
		return &engine.Error{Op: "pause", Kind: engine.ErrFull, ID: path,
			Err:  fmt.Errorf("%d files of the session could not be stored, and would be lost: %s", len(at.unstored), reason),
			Hint: "Make room, and write or remove them; the session continues."}
	}
	return nil
}

// ListFiles returns the entries of a folder, down to a depth, and whether there are more. "" is the
// workspace; see view for absolute paths.
func (s *Service) ListFiles(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, depth int,
) (list []engine.Entry, more bool, err error) {
	err = s.reach(ctx, caller, session, path, refused, func(v *view, p location) error {
		if p.files == nil {
			list, more, err = v.list(ctx, p.path, depth)
		} else {
			list, more, err = p.files.List(ctx, p.path, depth)
		}
		for i := range list {
			list[i] = p.named(path, list[i])
		}
		return err
	})
	return list, more, err
}

// reach gives a caller access to the file that a path names.
func (s *Service) reach(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, how follow, try func(*view, location) error,
) error {
	v, err := s.visit(ctx, caller, session)
	if err != nil {
		return err
	}
	defer v.release()
	return v.reach(ctx, cmp.Or(path, "."), how, func(p location) error { return try(v, p) })
}

// StatFile describes a file, a folder or a link.
func (s *Service) StatFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (found engine.Entry, err error) {
	err = s.reach(ctx, caller, session, path, itself, func(v *view, p location) error {
		e, err := v.stat(ctx, p)
		found = p.named(path, e)
		return err
	})
	return found, err
}

// RealFile describes the target of an absolute path, by its path without links. A target that does
// not exist has a path too, with ErrNotFound.
func (s *Service) RealFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (found engine.Entry, err error) {
	err = s.reach(ctx, caller, session, path, always, func(v *view, p location) error {
		e, err := v.stat(ctx, p)
		e.Path = p.String()
		found = e
		return err
	})
	return found, err
}

// OpenFile opens a regular file, which the caller closes.
func (s *Service) OpenFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (found engine.Entry, f *os.File, err error) {
	err = s.reach(ctx, caller, session, path, refused, func(v *view, p location) error {
		if p.files == nil {
			f, found, err = v.open(ctx, p)
		} else {
			f, found, err = p.files.Open(ctx, p.path)
		}
		found = p.named(path, found)
		return err
	})
	return found, f, err
}

// WriteFile makes or replaces a file: all of it, or nothing. It is refused like an upload when the disk is low,
// where the file could not be stored.
func (s *Service) WriteFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, content io.Reader,
) (engine.Entry, error) {
	if err := s.engine.RoomFor("write file"); err != nil {
		return engine.Entry{}, err
	}
	return s.change(ctx, caller, session, path, always, func(v *view, p location) (engine.Entry, error) {
		return v.writeFile(ctx, p, content)
	})
}

// MakeFolder makes a folder and its missing parents.
func (s *Service) MakeFolder(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (engine.Entry, error) {
	return s.change(ctx, caller, session, path, refused, func(v *view, p location) (engine.Entry, error) {
		return v.makeFolder(ctx, p)
	})
}

// MoveFile renames a file or a folder; between the workspace and /tmp it is copied.
func (s *Service) MoveFile(
	ctx context.Context, caller engine.Caller, session engine.ID, from, to string, replace bool,
) (engine.Entry, error) {
	v, err := s.visit(ctx, caller, session)
	if err != nil {
		return engine.Entry{}, err
	}
	defer v.release()
	source, err := v.parents(ctx, from)
	if err != nil {
		return engine.Entry{}, about(from, err)
	}
	target, err := v.parents(ctx, to)
	if err != nil {
		return engine.Entry{}, about(to, err)
	}
	found, err := v.move(ctx, source, target, replace)
	if err != nil {
		named := to // there is something by that name, or its folder is not there
		if _, gone := v.stat(ctx, source); errors.Is(gone, engine.ErrNotFound) {
			named = from
		}
		err = about(named, err)
	}
	return target.named(to, found), cmp.Or(err, v.flush(ctx, source, target))
}

func (v *view) move(ctx context.Context, source, target location, replace bool) (found engine.Entry, err error) {
	if source.files != nil && source.files == target.files {
		return source.files.Move(ctx, source.path, target.path, replace)
	}
	// Elsewhere, or between two file systems.
	if _, err := v.stat(ctx, target); err == nil && !replace {
		return found, &engine.Error{Op: "move", Kind: engine.ErrConflict, ID: target.String(),
			Err: errors.New("there is something by that name")}
	}
	if err := v.movable(ctx, source); err != nil {
		return found, err
	}
	if err := v.command(ctx, io.Discard, 0, nil, "/bin/mv", "-T", "--", source.String(), target.String()); err != nil {
		return found, unchanged(target, err)
	}
	return v.stat(ctx, target)
}

// RemoveFile removes a file, or a folder with all that is in it if recursive.
func (s *Service) RemoveFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
) error {
	_, err := s.change(ctx, caller, session, path, itself, func(v *view, p location) (engine.Entry, error) {
		return engine.Entry{}, v.remove(ctx, p, recursive)
	})
	return err
}

// change changes what a path names, and stores the change.
func (s *Service) change(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, how follow,
	do func(*view, location) (engine.Entry, error),
) (found engine.Entry, err error) {
	v, err := s.visit(ctx, caller, session)
	if err != nil {
		return found, err
	}
	defer v.release()
	var at location
	err = v.reach(ctx, cmp.Or(path, "."), how, func(p location) error {
		e, err := do(v, p)
		at, found = p, p.named(path, e)
		return err
	})
	return found, cmp.Or(err, v.flush(ctx, at)) // of a failed change too: a part of it may be done
}

// WatchFiles yields the changes in a folder, and below it if recursive, until ctx ends or the
// sandbox does. It sees all changes made after it returns.
func (s *Service) WatchFiles(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
) (iter.Seq[engine.FileEvent], error) {
	v, err := s.visit(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	var at location
	err = v.reach(ctx, cmp.Or(path, "."), always, func(p location) error {
		if at = p; p.files == nil {
			return &engine.Error{Op: "watch", Kind: engine.ErrForbidden, ID: p.path, Err: &ReadOnlyError{p.path, true}}
		}
		return nil
	})
	if err != nil {
		v.release()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, events, failed := make(chan struct{}), make(chan []engine.FileEvent), make(chan error, 1)
	s.work.Go(func() {
		defer v.release()
		defer close(events)
		s.work.Go(func() {
			select {
			case <-v.gone:
				cancel()
			case <-ctx.Done():
			}
		})
		defer cancel()
		failed <- at.files.Watch(ctx, at.path, recursive, func() { close(ready) }, func(list []engine.FileEvent) {
			select {
			case events <- list: // otherwise the kernel queues them, up to its limit
			case <-ctx.Done():
			}
		})
	})
	select {
	case <-ready:
	case err := <-failed:
		cancel()
		if err == nil {
			err = canceled(ctx)
		}
		return nil, err
	}
	return func(yield func(engine.FileEvent) bool) {
		defer cancel()
		for list := range events {
			for _, e := range list {
				e.Path = at.named(path, engine.Entry{Path: e.Path}).Path
				if e.From != "" {
					e.From = at.named(path, engine.Entry{Path: e.From}).Path
				}
				if !yield(e) {
					return
				}
			}
		}
	}, nil
}
