package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/pytool"
)

// files is the runner's store.
type files struct{ c *Client }

func (f files) failed(op string, err error) error {
	if errors.Is(err, pytool.ErrFileGone) {
		return &provider.Error{Kind: provider.FileNotFound, Provider: provider.Local, Op: op, Err: err}
	}
	return provider.Failed(provider.Local, op, err)
}

// Upload implements provider.FileStore. The runner needs the size: a body without one is
// copied to a temporary file first.
func (f files) Upload(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	op := "keep " + u.Name
	u, err := exchange.Upload(f.c, u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	body, size := u.Reader(), u.Size
	if size < 0 {
		temp, err := os.CreateTemp("", "airlock-upload-*")
		if err != nil {
			return provider.FileInfo{}, f.failed(op, err)
		}
		defer os.Remove(temp.Name())
		defer temp.Close()
		if size, err = io.Copy(temp, body); err == nil {
			_, err = temp.Seek(0, io.SeekStart)
		}
		if err != nil {
			return provider.FileInfo{}, f.failed(op, err)
		}
		body = temp
	}
	id, err := f.c.options.Runner.Upload(ctx, u.Name, size, body)
	if err != nil {
		return provider.FileInfo{}, f.failed(op, err)
	}
	mime := u.MIME
	if mime == "" {
		mime = pytool.TypeOf(u.Name)
	}
	return provider.FileInfo{
		Ref:  provider.FileRef{Provider: provider.Local, Scope: provider.ScopeFile, ID: id},
		Name: u.Name, MIME: mime, Size: size, Created: f.c.options.Clock.Now(),
		Origin: provider.OriginUser, Readable: true, State: provider.StateReady, SHA256: u.SHA256,
	}, nil
}

func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	for info, err := range f.List(ctx, provider.Filter{}) {
		if err != nil {
			return provider.FileInfo{}, err
		}
		if info.Ref.ID == r.ID {
			return info, nil
		}
	}
	return provider.FileInfo{}, f.failed("look for "+r.ID, pytool.ErrFileGone)
}

func (f files) List(ctx context.Context, filter provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		for info, err := range f.c.options.Runner.Files(ctx) {
			if err != nil {
				yield(provider.FileInfo{}, f.failed("list files", err))
				return
			}
			if filter.Name != "" && info.Name != filter.Name || info.Created.Before(filter.CreatedAfter) {
				continue
			}
			info.Ref.Provider, info.Ref.Scope, info.Readable = provider.Local, provider.ScopeFile, true
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (f files) Open(ctx context.Context, r provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	info := provider.FileInfo{Ref: r, Name: r.Path, Size: -1, Readable: true}
	if known, ok := f.c.sessions.find(r); ok {
		info = known
	}
	body, err := f.c.options.Runner.Download(ctx, r.ID)
	if err != nil {
		return nil, info, f.failed("fetch "+r.ID, err)
	}
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		body.Close()
		return nil, info, f.failed("fetch "+r.ID, fmt.Errorf("from byte %d on: %w", offset, err))
	}
	return body, info, nil
}

func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	err := f.c.options.Runner.Delete(ctx, r.ID)
	if err == nil || errors.Is(err, pytool.ErrFileGone) {
		return nil
	}
	// Runners have different errors for a file that does not exist.
	if _, missing := f.Stat(ctx, r); provider.KindOf(missing) == provider.FileNotFound {
		return nil
	}
	return f.failed("delete "+r.ID, err)
}
