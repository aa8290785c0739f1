package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/local"
	"github.com/airlock-run/airlock/pytool"
)

// serviceRunner implements local.Runner with a service: a remote one, that of this
// machine, or one in this process. Models run code in this way only.
type serviceRunner struct {
	client *client.Client
}

var _ local.Runner = serviceRunner{}

// toolEntry is the file name of the tool's code, as tracebacks show it.
const toolEntry = "__main__.py"

// toolFileTTL is how long staged files are kept after their last use.
const toolFileTTL = time.Hour

// Health implements pytool.Runner.
func (r serviceRunner) Health(ctx context.Context) pytool.Health {
	health, err := r.client.Health(ctx)
	if err != nil {
		text := err.Error()
		refused, connected := errors.AsType[*client.Error](err)
		if connected {
			text = cmp.Or(refused.Hint, text)
		}
		return pytool.Health{Connected: connected, Error: text}
	}
	return pytool.Health{Connected: true, Version: health.Version}
}

// Upload implements pytool.Runner.
func (r serviceRunner) Upload(ctx context.Context, name string, size int64, content io.Reader) (string, error) {
	file, err := r.client.Upload(ctx, name, content, toolFileTTL)
	switch {
	case err != nil:
		return "", gone(err)
	case file.Size != size:
		return "", fmt.Errorf("the file has %d bytes, not %d", file.Size, size)
	}
	return file.ID, nil
}

// Execute implements pytool.Runner.
func (r serviceRunner) Execute(
	ctx context.Context, req pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	ask := client.RunRequest{Language: "python", Code: req.Code, Entry: toolEntry, EchoLast: true,
		TimeoutMS: req.Timeout.Milliseconds()}
	for _, f := range req.Files {
		ask.Files = append(ask.Files, client.FileRef{ID: f.ID, Path: f.Path})
	}
	for e, err := range r.client.Stream(ctx, ask) {
		if err != nil {
			return pytool.Outcome{}, gone(err)
		}
		switch e.Type {
		case client.EventOutput:
			output(pytool.Stream(e.Stream), e.Data)
		case client.EventResult:
			o, err := outcomeOf(e.Run, output)
			for _, f := range e.Run.Files {
				o.Files = append(o.Files, pytool.OutputFile{Path: f.Path, ID: f.ID})
			}
			return o, err
		}
	}
	return pytool.Outcome{}, errors.New("the service broke off")
}

// Download implements pytool.Runner. The client checks what it writes, so that
// it writes into a pipe.
func (r serviceRunner) Download(ctx context.Context, id string) (io.ReadCloser, error) {
	if _, err := r.client.GetFile(ctx, id); err != nil {
		return nil, gone(err)
	}
	ctx, stop := context.WithCancel(ctx)
	from, to := io.Pipe()
	go func() { // ends with the reader: a write to a closed pipe fails
		_, err := r.client.Download(ctx, id, to)
		to.CloseWithError(gone(err))
	}()
	return &piped{from, stop}, nil
}

type piped struct {
	*io.PipeReader
	stop context.CancelFunc
}

func (p *piped) Close() error {
	p.stop()
	return p.PipeReader.Close()
}

// Delete implements pytool.Runner.
func (r serviceRunner) Delete(ctx context.Context, id string) error {
	return gone(r.client.DeleteFile(ctx, id))
}

// Files implements local.Runner.
func (r serviceRunner) Files(ctx context.Context) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		page := client.Page{}
		for {
			files, next, err := r.client.ListFiles(ctx, page)
			if err != nil {
				yield(provider.FileInfo{}, err)
				return
			}
			for _, f := range files {
				info := provider.FileInfo{Ref: provider.FileRef{ID: f.ID}, Name: f.Name, MIME: f.MIME, Size: f.Size,
					SHA256: f.SHA256, Created: f.CreatedAt, Expires: f.ExpiresAt, Origin: provider.OriginUser,
					State: provider.StateReady}
				if f.Run != "" {
					info.Origin = provider.OriginModel
				}
				if !yield(info, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			page.After = next
		}
	}
}

// outcomeOf returns how a run ended, without its files.
func outcomeOf(run *client.Run, output func(pytool.Stream, string)) (pytool.Outcome, error) {
	if run.Status == client.StatusInterrupted || run.Status == client.StatusCancelled {
		return pytool.Outcome{}, errors.New(run.Message)
	}
	if run.Message != "" {
		output(pytool.Stderr, "["+run.Message+"]\n")
	}
	if run.Status == client.StatusTimeout {
		return pytool.Outcome{TimedOut: true}, nil
	}
	return pytool.Outcome{ExitCode: run.ExitCode}, nil
}

// gone marks the error of a missing file with pytool.ErrFileGone.
func gone(err error) error {
	if client.IsNotFound(err) {
		return fmt.Errorf("%w: %w", pytool.ErrFileGone, err)
	}
	return err
}

// engineRunner is a serviceRunner on an engine in this process, which has no route for Health.
type engineRunner struct {
	serviceRunner
	engine *engine.Service
}

// Health implements pytool.Runner.
func (r engineRunner) Health(ctx context.Context) pytool.Health {
	h := pytool.Health{Connected: true, Version: "in process"}
	if err := r.engine.Ready(ctx); err != nil {
		h.Error = cmp.Or(explain(err).Hint, err.Error())
	}
	return h
}
