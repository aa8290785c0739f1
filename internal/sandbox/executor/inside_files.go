package executor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Files returns the files of a held workspace; see engine.Files.
func (s *Sandbox) Files(held engine.ID) engine.Files { return files{s, held.String(), false} }

// Tmp returns the files in /tmp of the sandbox in a held workspace; see engine.Inside.
func (s *Sandbox) Tmp(held engine.ID) engine.Files { return files{s, held.String(), true} }

type files struct {
	sandbox *Sandbox
	held    string
	tmp     bool
}

// filesTime bounds an operation. Removing takes the longest.
const filesTime = removeTime + endTime

// sendOperation sends an operation. The caller must call end.
func (f files) sendOperation(ctx context.Context, r filesRequest) (l *Link, end func(), err error) {
	r.Held, r.Tmp = f.held, f.tmp
	if len(r.Path) > maxPathLength || len(r.To) > maxPathLength {
		return nil, nil, engine.Invalid("path", "longer than %d bytes", maxPathLength)
	}
	l, stop, err := f.sandbox.openRequest(ctx, request{Files: &r})
	if err != nil {
		return nil, nil, err
	}
	l.SetReadDeadline(time.Now().Add(filesTime))
	return l, func() { stop(); l.Close() }, nil
}

// entry receives an answer with one entry and a number of open files.
func (l *Link) entry(ctx context.Context, op filesOp, want int) (engine.Entry, []*os.File, error) {
	a, got, err := l.next(ctx, string(op), want)
	if err == nil && len(a.Entries) != 1 {
		CloseAll(got...)
		err = lost(errors.New("an entry is missing"))
	}
	if err != nil {
		return engine.Entry{}, nil, err
	}
	return a.Entries[0].engine(), got, nil
}

// one performs an operation whose answer is an entry and a number of open files.
func (f files) one(ctx context.Context, r filesRequest, want int) (engine.Entry, []*os.File, error) {
	l, end, err := f.sendOperation(ctx, r)
	if err != nil {
		return engine.Entry{}, nil, err
	}
	defer end()
	return l.entry(ctx, r.Op, want)
}

func (e entry) engine() engine.Entry {
	return engine.Entry{Path: string(e.Path), Target: string(e.Target), Kind: e.Kind, Size: e.Size,
		Mode: fs.FileMode(e.Mode), Modified: e.Modified}
}

func (f files) List(ctx context.Context, path string, depth int) (entries []engine.Entry, more bool, err error) {
	l, end, err := f.sendOperation(ctx, filesRequest{Op: opList, Path: []byte(path), Depth: depth})
	if err != nil {
		return nil, false, err
	}
	defer end()
	for {
		a, _, err := l.next(ctx, string(opList), 0)
		if err != nil {
			return nil, false, err
		}
		for _, e := range a.Entries {
			entries = append(entries, e.engine())
		}
		if a.Accepted {
			slices.SortFunc(entries, func(a, b engine.Entry) int { return cmp.Compare(a.Path, b.Path) })
			return entries, a.More, nil
		}
		if len(entries) > maxListed {
			return nil, false, lost(errors.New("a list without an end"))
		}
	}
}

func (f files) Stat(ctx context.Context, path string) (engine.Entry, error) {
	e, _, err := f.one(ctx, filesRequest{Op: opStat, Path: []byte(path)}, 0)
	return e, err
}

func (f files) Open(ctx context.Context, path string) (*os.File, engine.Entry, error) {
	e, got, err := f.one(ctx, filesRequest{Op: opOpen, Path: []byte(path)}, 1)
	if err != nil {
		return nil, e, err
	}
	return got[0], e, nil
}

func (f files) Write(ctx context.Context, path string, content io.Reader) (engine.Entry, error) {
	l, end, err := f.sendOperation(ctx, filesRequest{Op: opWrite, Path: []byte(path)})
	if err != nil {
		return engine.Entry{}, err
	}
	defer end()
	_, got, err := l.next(ctx, string(opWrite), 1)
	if err != nil {
		return engine.Entry{}, err
	}
	defer got[0].Close()
	l.SetReadDeadline(time.Time{}) // the content has no deadline
	if _, err := io.Copy(onlyWriter{got[0]}, content); err != nil {
		kind := engine.KindOf(err)
		if errors.Is(err, unix.ENOSPC) {
			kind = engine.ErrTooLarge
		} else if kind == engine.ErrInternal {
			kind = engine.ErrCanceled // its sender has stopped
		}
		return engine.Entry{}, &engine.Error{Op: string(opWrite), Kind: kind, Err: err}
	}
	if ctx.Err() != nil {
		return engine.Entry{}, &engine.Error{Op: string(opWrite), Kind: engine.ErrCanceled, Err: ctx.Err()}
	}
	l.SetReadDeadline(time.Now().Add(filesTime))
	_ = l.Send(filesControl{Commit: true}) // if it fails, the answer says why
	e, _, err := l.entry(ctx, opWrite, 0)
	return e, err
}

// onlyWriter hides a file's ReadFrom, which would report a read error of the source as
// a write error.
type onlyWriter struct{ io.Writer }

func (f files) MakeFolder(ctx context.Context, path string) (engine.Entry, error) {
	e, _, err := f.one(ctx, filesRequest{Op: opMakeFolder, Path: []byte(path)}, 0)
	return e, err
}

func (f files) Move(ctx context.Context, from, to string, replace bool) (engine.Entry, error) {
	e, _, err := f.one(ctx, filesRequest{Op: opMove, Path: []byte(from), To: []byte(to), Replace: replace}, 0)
	return e, err
}

func (f files) Remove(ctx context.Context, path string, recursive bool) error {
	l, end, err := f.sendOperation(ctx, filesRequest{Op: opRemove, Path: []byte(path), Recursive: recursive})
	if err != nil {
		return err
	}
	defer end()
	_, _, err = l.next(ctx, string(opRemove), 0)
	return err
}

func (f files) Watch(
	ctx context.Context, path string, recursive bool, ready func(), seen func([]engine.FileEvent),
) error {
	l, end, err := f.sendOperation(ctx, filesRequest{Op: opWatch, Path: []byte(path), Recursive: recursive})
	if err != nil {
		return err
	}
	defer end()
	if _, _, err := l.next(ctx, string(opWatch), 0); err != nil {
		return err
	}
	l.SetReadDeadline(time.Time{})
	ready()
	for {
		a, _, err := l.next(ctx, string(opWatch), 0)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var list []engine.FileEvent
		for _, e := range a.Events {
			list = append(list, engine.FileEvent{Kind: e.Kind, Path: string(e.Path), From: string(e.From), Folder: e.Folder})
		}
		seen(list)
	}
}
