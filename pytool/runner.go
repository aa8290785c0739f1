package pytool

import (
	"context"
	"errors"
	"io"
	"time"
)

// Runner runs code and keeps files for it. NewService is one, over HTTP.
type Runner interface {
	// Health says whether the runner can run code now.
	Health(ctx context.Context) Health
	// Upload keeps a file of exactly size bytes, for Request.Files.
	Upload(ctx context.Context, name string, size int64, content io.Reader) (id string, err error)
	// Execute runs a script to its end, and hands over what it prints as it
	// comes. A script that fails or runs out of time is an Outcome, not an
	// error. The error is ErrFileGone if one of the files is not kept any more
	// and nothing was run.
	Execute(ctx context.Context, req Request, output func(stream Stream, text string)) (Outcome, error)
	// Download returns a file that a script left. The caller closes it.
	Download(ctx context.Context, id string) (io.ReadCloser, error)
	// Delete forgets a file.
	Delete(ctx context.Context, id string) error
}

// ErrFileGone says that a file that was uploaded has expired or was deleted.
var ErrFileGone = errors.New("a staged file is not kept any more")

// Health is how a runner is.
type Health struct {
	Connected bool   // it answered at all
	Error     string // empty: it is well
	Version   string // of the service; "0.0.0" for one that does not say
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

// StagedFile places an uploaded file into the script's directory.
type StagedFile struct {
	Path string
	ID   string
}

// Outcome is how a script ended.
type Outcome struct {
	ExitCode *int // nil if it ran out of time
	TimedOut bool
	Files    []OutputFile
}

// OutputFile is a file that a script left.
type OutputFile struct {
	Path string
	ID   string
}

// FileStore is where the chat application keeps its files.
type FileStore interface {
	// Open returns the content of a file of the chat. The caller closes it.
	Open(ctx context.Context, id string) (io.ReadCloser, error)
	// Save keeps a file that a script made, and returns its id.
	Save(ctx context.Context, name, mimeType string, content io.Reader) (id string, err error)
	// Link is the address under which the user's browser gets a file. Its last
	// segment is the file's id.
	Link(id string) string
}

// ChatFile is a file of the chat, as the application's FileStore knows it.
type ChatFile struct {
	ID   string
	Name string
}
