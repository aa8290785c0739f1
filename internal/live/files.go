package live

import (
	"context"
	"io"
	"iter"
	"os"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Files of a session's workspace while things run in it. What is changed here becomes
// the session's as what a cell changes does.

// visit lets a caller at the files of a session. An interpreter that is there may
// stand still; if there is none, one is started, with the workspace.
func (s *Service) visit(ctx context.Context, caller engine.Caller, session engine.ID) (engine.Files, *entry, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, nil, err
	}
	files := s.engine.Inside().Files(session)
	at.mu.Lock()
	if it := at.interpreter; it != nil && it.began && it.ending == "" {
		it.guests, it.visited = it.guests+1, true
		at.mu.Unlock()
		return files, &entry{session: at.record, gone: it.gone, it: it}, nil
	}
	at.mu.Unlock()
	e, err := s.enter(ctx, caller, session)
	return files, e, err
}

// saveAfter is how long after a change files are stored, if no cell runs.
const saveAfter = 500 * time.Millisecond

// changed has what was changed stored, soon.
func (at *session) changed() {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.saving == nil {
		at.saving = time.AfterFunc(saveAfter, func() { at.service.background(at.saveFiles) })
	}
}

// saveFiles stores what was changed beside cells. A cell that runs stores it with its
// own.
func (at *session) saveFiles() {
	at.mu.Lock()
	at.saving = nil
	busy := at.current != nil && at.current.cell != nil || at.interpreter == nil
	at.mu.Unlock()
	if busy {
		return
	}
	at.store()
}

// store stores what was changed since files were last stored.
func (at *session) store() {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if _, err := at.service.engine.SaveSession(ctx, at.record, at.settings.Limits); err != nil &&
		engine.KindOf(err) != engine.ErrNotFound {
		at.service.log.Error("the files of a live session could not be stored", "session", at.record.ID, "error", err)
	}
}

// ListFiles returns what is in a folder, down to a depth, and whether there is more.
// "" is the workspace.
func (s *Service) ListFiles(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, depth int,
) (list []engine.Entry, more bool, err error) {
	files, e, err := s.visit(ctx, caller, session)
	if err != nil {
		return nil, false, err
	}
	defer e.leave()
	return files.List(ctx, orWorkspace(path), depth)
}

func orWorkspace(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// StatFile describes a file, a folder or a link.
func (s *Service) StatFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (engine.Entry, error) {
	files, e, err := s.visit(ctx, caller, session)
	if err != nil {
		return engine.Entry{}, err
	}
	defer e.leave()
	return files.Stat(ctx, orWorkspace(path))
}

// OpenFile opens a regular file, which the caller closes.
func (s *Service) OpenFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (engine.Entry, *os.File, error) {
	files, e, err := s.visit(ctx, caller, session)
	if err != nil {
		return engine.Entry{}, nil, err
	}
	defer e.leave()
	f, found, err := files.Open(ctx, path)
	return found, f, err
}

// WriteFile makes or replaces a file: all of it, or nothing.
func (s *Service) WriteFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, content io.Reader,
) (engine.Entry, error) {
	return s.change(ctx, caller, session, func(f engine.Files) (
		engine.Entry, error) {
		return f.Write(ctx, path, content)
	})
}

// MakeFolder makes a folder, with missing ones above it.
func (s *Service) MakeFolder(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (engine.Entry, error) {
	return s.change(ctx, caller, session, func(f engine.Files) (engine.Entry, error) { return f.MakeFolder(ctx, path) })
}

// MoveFile renames a file or a folder.
func (s *Service) MoveFile(
	ctx context.Context, caller engine.Caller, session engine.ID, from, to string, replace bool,
) (engine.Entry, error) {
	return s.change(ctx, caller, session, func(f engine.Files) (
		engine.Entry, error) {
		return f.Move(ctx, from, to, replace)
	})
}

// RemoveFile removes a file, or a folder with all that is in it if recursive.
func (s *Service) RemoveFile(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
) error {
	_, err := s.change(ctx, caller, session, func(f engine.Files) (
		engine.Entry, error) {
		return engine.Entry{}, f.Remove(ctx, path, recursive)
	})
	return err
}

func (s *Service) change(
	ctx context.Context, caller engine.Caller, session engine.ID, do func(engine.Files) (engine.Entry, error),
) (engine.Entry, error) {
	files, e, err := s.visit(ctx, caller, session)
	if err != nil {
		return engine.Entry{}, err
	}
	defer e.leave()
	found, err := do(files)
	e.it.at.changed()
	return found, err
}

// WatchFiles yields what changes in a folder, and below it if recursive, until ctx
// ends or the session's sandbox does. When it returns all further changes are seen.
func (s *Service) WatchFiles(
	ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
) (iter.Seq[engine.FileEvent], error) {
	files, e, err := s.visit(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, events, failed := make(chan struct{}), make(chan []engine.FileEvent), make(chan error, 1)
	s.work.Go(func() {
		defer e.leave()
		defer close(events)
		s.work.Go(func() {
			select {
			case <-e.gone:
				cancel()
			case <-ctx.Done():
			}
		})
		defer cancel()
		failed <- files.Watch(ctx, orWorkspace(path), recursive, func() { close(ready) }, func(list []engine.FileEvent) {
			select {
			case events <- list: // else the kernel keeps them, as many as it likes
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
				if !yield(e) {
					return
				}
			}
		}
	}, nil
}
