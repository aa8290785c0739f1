package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/pytool"
)

// ServiceRunner runs code in a service of Airlock: a remote one, that of this machine, or one
// in this process.
type ServiceRunner struct {
	client *client.Client
}

var _ Runner = (*ServiceRunner)(nil)

// NewServiceRunner returns a Runner that calls a service. The caller closes the client after
// the last use of the Runner.
func NewServiceRunner(c *client.Client) *ServiceRunner { return &ServiceRunner{c} }

// toolEntry is the file name of the tool's code, as tracebacks show it.
const toolEntry = "__main__.py"

// toolFileTTL is how long staged files are kept after their last use.
const toolFileTTL = time.Hour

// Health implements pytool.Runner.
func (r *ServiceRunner) Health(ctx context.Context) pytool.Health {
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
func (r *ServiceRunner) Upload(ctx context.Context, name string, size int64, content io.Reader) (string, error) {
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
func (r *ServiceRunner) Execute(
	ctx context.Context, req pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	ask := client.RunRequest{Language: "python", Code: req.Code, Entry: toolEntry, EchoLast: true,
		Timeout: req.Timeout}
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
func (r *ServiceRunner) Download(ctx context.Context, id string) (io.ReadCloser, error) {
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
func (r *ServiceRunner) Delete(ctx context.Context, id string) error {
	return gone(r.client.DeleteFile(ctx, id))
}

// Files implements Runner.
func (r *ServiceRunner) Files(ctx context.Context) iter.Seq2[provider.FileInfo, error] {
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
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w: %w", pytool.ErrFileGone, err)
	}
	return err
}
