package cli

import (
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
// machine, or one in this process.
type serviceRunner struct {
	client *client.Client
}

var _ local.Runner = serviceRunner{}

// Health implements pytool.Runner.
func (r serviceRunner) Health(ctx context.Context) pytool.Health {
	health, err := r.client.Health(ctx)
	if err != nil {
		return pytool.Health{Connected: errors.As(err, new(*client.Error)), Error: plainClient(err)}
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
			o, err := outcomeOf(engine.Status(e.Run.Status), e.Run.Message, e.Run.ExitCode, output)
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
				if !yield(runnerFile(f.ID, f.Name, f.MIME, f.SHA256, f.Size, f.CreatedAt, f.ExpiresAt, f.Run != ""), nil) {
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

// runnerFile returns the description of a stored file.
func runnerFile(id, name, mime, sha256 string, size int64, created, expires time.Time, made bool) provider.FileInfo {
	f := provider.FileInfo{Ref: provider.FileRef{ID: id}, Name: name, MIME: mime, Size: size, SHA256: sha256,
		Created: created, Expires: expires,
		Origin: provider.OriginUser, State: provider.StateReady}
	if made {
		f.Origin = provider.OriginModel
	}
	return f
}

// gone marks the error of a missing file with pytool.ErrFileGone.
func gone(err error) error {
	if client.IsNotFound(err) || errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("%w: %w", pytool.ErrFileGone, err)
	}
	return err
}

func plainClient(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Hint != "" {
		return e.Hint
	}
	return err.Error()
}
