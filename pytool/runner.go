package pytool

import (
	"context"
	"errors"
	"io"
	"time"
)

// Runner runs code and stores files for it. NewService returns one over HTTP.
type Runner interface {
	// Health returns whether the runner can run code now.
	Health(ctx context.Context) Health
	// Upload stores a file of exactly size bytes, for Request.Files.
	Upload(ctx context.Context, name string, size int64, content io.Reader) (id string, err error)
	// Execute runs a script to its end and calls output as the script prints. A script
	// that fails or times out is an Outcome, not an error. The error is ErrFileGone if one
	// of the files does not exist any more and nothing was run.
	Execute(ctx context.Context, req Request, output func(stream Stream, text string)) (Outcome, error)
	// Download returns a file that a script made. The caller closes it.
	Download(ctx context.Context, id string) (io.ReadCloser, error)
	// Delete deletes a file.
	Delete(ctx context.Context, id string) error
}

// ErrFileGone is the error of an uploaded file that has expired or was deleted.
var ErrFileGone = errors.New("a staged file is not kept any more")

// Health is the state of a runner.
type Health struct {
	Connected bool   // it answered
	Error     string // empty: it is healthy
	Version   string // of the service; "0.0.0" if unknown
	Cure      string // what the operator can do about the error; empty: look at the service
}

// OK reports whether code can be run.
func (h Health) OK() bool { return h.Connected && h.Error == "" }

// Stream is one of the two output streams.
type Stream string

// The output streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Request is one script to run.
type Request struct {
	Code    string
	Timeout time.Duration
	Files   []StagedFile
}

// StagedFile is an uploaded file for the script's directory.
type StagedFile struct {
	Path string
	ID   string
}

// Outcome is how a script ended.
type Outcome struct {
	ExitCode *int // nil after a timeout
	TimedOut bool
	Files    []OutputFile
}

// OutputFile is a file that a script made.
type OutputFile struct {
	Path string
	ID   string
}

// FileStore is the chat application's store of files.
type FileStore interface {
	// Open returns the content of a file of the chat. The caller closes it.
	Open(ctx context.Context, id string) (io.ReadCloser, error)
	// Save stores a file that a script made and returns its id.
	Save(ctx context.Context, name, mimeType string, content io.Reader) (id string, err error)
	// Link returns the address of a file for the user's browser. Its last segment is the
	// file's id.
	Link(id string) string
}

// ChatFile is a file of the chat in the application's FileStore.
type ChatFile struct {
	ID   string
	Name string
}
