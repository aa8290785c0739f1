package cli

import (
	"context"
	"io"
	"os"
	"path"

	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// mcpFiles are the files of live sessions as tools take them.
type mcpFiles struct{ live *live.Service }

// listDepth is deeper than any path.
const listDepth = 1 << 12

func (f mcpFiles) ListFiles(
	ctx context.Context, caller engine.Caller, session engine.ID,
) (files []mcp.Entry, more bool, err error) {
	list, more, err := f.live.ListFiles(ctx, caller, session, "", listDepth)
	for _, e := range list {
		if e.Kind == engine.EntryFile {
			files = append(files, mcp.Entry{Path: e.Path, Size: e.Size})
		}
	}
	return files, more, err
}

func (f mcpFiles) OpenFile(
	ctx context.Context, caller engine.Caller, session engine.ID, name string,
) (mcp.Entry, *os.File, error) {
	e, file, err := f.live.OpenFile(ctx, caller, session, name)
	return mcp.Entry{Path: e.Path, Size: e.Size}, file, err
}

func (f mcpFiles) WriteFile(
	ctx context.Context, caller engine.Caller, session engine.ID, name string, content io.Reader,
) (mcp.Entry, error) {
	if folder := path.Dir(name); folder != "." {
		if _, err := f.live.MakeFolder(ctx, caller, session, folder); err != nil {
			return mcp.Entry{}, err
		}
	}
	e, err := f.live.WriteFile(ctx, caller, session, name, content)
	return mcp.Entry{Path: e.Path, Size: e.Size}, err
}

func (f mcpFiles) RemoveFile(ctx context.Context, caller engine.Caller, session engine.ID, name string) error {
	return f.live.RemoveFile(ctx, caller, session, name, false)
}
