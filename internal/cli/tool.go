package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/local"
	"github.com/airlock-run/airlock/pytool"
)

// toolRunner implements local.Runner with the engine of this process, for any of its
// owners. Commands use a serviceRunner; both run code alike.
type toolRunner struct {
	engine *engine.Service
	caller engine.Caller
}

var _ local.Runner = (*toolRunner)(nil)

// toolEntry is the file name of the tool's code, as tracebacks show it.
const toolEntry = "__main__.py"

// toolFileTTL is how long staged files are kept after their last use.
const toolFileTTL = time.Hour

// Health implements pytool.Runner.
func (r *toolRunner) Health(ctx context.Context) pytool.Health {
	h := pytool.Health{Connected: true, Version: "in process"}
	if err := r.engine.Ready(ctx); err != nil {
		h.Error = plain(err)
	}
	return h
}

// Upload implements pytool.Runner.
func (r *toolRunner) Upload(ctx context.Context, name string, size int64, content io.Reader) (string, error) {
	file, err := r.engine.PutFile(ctx, r.caller, engine.Upload{Name: name, TTL: toolFileTTL}, content)
	switch {
	case err != nil:
		return "", err
	case file.Size != size:
		return "", fmt.Errorf("the file has %d bytes, not %d", file.Size, size)
	}
	return file.ID.String(), nil
}

// Execute implements pytool.Runner.
func (r *toolRunner) Execute(
	ctx context.Context, req pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	ask := engine.RunRequest{Language: "python", Code: req.Code, Profile: engine.Profile{
		Entry: toolEntry, EchoLast: true, FileTTL: toolFileTTL, Limits: engine.Limits{Timeout: req.Timeout},
	}}
	for _, f := range req.Files {
		id, err := engine.ParseID(f.ID)
		if err != nil {
			return pytool.Outcome{}, pytool.ErrFileGone
		}
		ask.Files = append(ask.Files, engine.FileRef{ID: id, Path: f.Path})
	}
	run, err := r.engine.Start(ctx, r.caller, ask)
	if errors.Is(err, engine.ErrNotFound) {
		return pytool.Outcome{}, fmt.Errorf("%w: %w", pytool.ErrFileGone, err)
	}
	if err != nil {
		return pytool.Outcome{}, errors.New(plain(err))
	}
	events, err := r.engine.Watch(ctx, r.caller, run.ID, 0)
	if err != nil {
		return pytool.Outcome{}, errors.New(plain(err))
	}
	for e := range events {
		switch e.Type {
		case engine.EventOutput:
			output(pytool.Stream(e.Stream), e.Data)
		case engine.EventResult:
			o, err := outcomeOf(e.Run.Status, e.Run.Message, e.Run.ExitCode, output)
			for _, f := range e.Run.Files {
				o.Files = append(o.Files, pytool.OutputFile{Path: f.Path, ID: f.ID.String()})
			}
			return o, err
		}
	}
	left := context.WithoutCancel(ctx)
	_ = r.engine.CancelRun(left, r.caller, run.ID) // it is over, or it never was
	return pytool.Outcome{}, context.Cause(ctx)
}

// outcomeOf says how a run ended, here or at a service, as the tool wants it:
// without its files.
func outcomeOf(
	status engine.Status, message string, code *int, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	if status == engine.StatusInterrupted || status == engine.StatusCancelled {
		return pytool.Outcome{}, errors.New(message)
	}
	if message != "" {
		output(pytool.Stderr, "["+message+"]\n")
	}
	if status == engine.StatusTimeout {
		return pytool.Outcome{TimedOut: true}, nil
	}
	return pytool.Outcome{ExitCode: code}, nil
}

// Download implements pytool.Runner.
func (r *toolRunner) Download(ctx context.Context, id string) (io.ReadCloser, error) {
	body, err := openStored(ctx, r.engine, r.caller, id)
	return body, gone(err)
}

// Files implements local.Runner.
func (r *toolRunner) Files(ctx context.Context) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		query := engine.FileQuery{Page: engine.Page{Limit: 100}}
		for {
			files, err := r.engine.ListFiles(ctx, r.caller, query)
			if err != nil {
				yield(provider.FileInfo{}, err)
				return
			}
			for _, f := range files {
				if !yield(runnerFile(f.ID.String(), f.Name, f.MIME, f.SHA256.String(), f.Size, f.CreatedAt, f.ExpiresAt,
					f.Path != ""), nil) {
					return
				}
			}
			if len(files) < query.Page.Limit {
				return
			}
			query.Page.After = files[len(files)-1].ID
		}
	}
}

// Delete implements pytool.Runner.
func (r *toolRunner) Delete(ctx context.Context, id string) error {
	parsed, err := engine.ParseID(id)
	if err != nil {
		return gone(err)
	}
	return gone(r.engine.DeleteFile(ctx, r.caller, parsed))
}

func openStored(ctx context.Context, e *engine.Service, caller engine.Caller, id string) (io.ReadCloser, error) {
	parsed, err := engine.ParseID(id)
	if err != nil {
		return nil, err
	}
	_, content, err := e.OpenFile(ctx, caller, parsed)
	if err != nil {
		return nil, err
	}
	return content, nil
}

// plain says an error of the engine to a model: what to do, if that is known.
func plain(err error) string {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Hint != "" {
		return e.Hint
	}
	return err.Error()
}
