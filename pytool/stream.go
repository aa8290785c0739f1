package pytool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// answerBody explains the errors of the body of an answer.
type answerBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the request
}

func (b answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		if err = reason(b.ctx, err); errors.Is(err, errUnreachable) {
			err = errCut
		}
	}
	return n, err
}

var errCut = errors.New("the connection to the Code Interpreter service was cut")

type executeBody struct {
	Code    string     `json:"code"`
	Timeout int64      `json:"timeout_ms"`
	Files   []fileBody `json:"files,omitempty"`
}

type fileBody struct {
	Path   string `json:"path"`
	FileID string `json:"file_id"`
}

type resultBody struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode *int   `json:"exit_code"`
	TimedOut bool   `json:"timed_out"`
	Files    []struct {
		Path   string `json:"path"`
		Kind   string `json:"kind"`
		FileID string `json:"file_id"`
	} `json:"files"`
}

func (r *resultBody) outcome() Outcome {
	o := Outcome{ExitCode: r.ExitCode, TimedOut: r.TimedOut}
	for _, f := range r.Files {
		if f.Kind == "file" && f.FileID != "" {
			o.Files = append(o.Files, OutputFile{Path: f.Path, ID: f.FileID})
		}
	}
	return o
}

// Execute implements Runner. It streams the output unless the service is too old for that.
func (s *Service) Execute(ctx context.Context, req Request, output func(stream Stream, text string)) (Outcome, error) {
	body := executeBody{Code: req.Code, Timeout: req.Timeout.Milliseconds()}
	for _, f := range req.Files {
		body.Files = append(body.Files, fileBody{f.Path, f.ID})
	}
	limit := req.Timeout + slack
	answer, err := s.do(ctx, limit, http.MethodPost, "/v1/execute/stream", jsonPayload(body))
	if noStream(err) {
		return s.executeAtOnce(ctx, limit, body, output)
	}
	if err != nil {
		return Outcome{}, fileGone(err)
	}
	defer answer.Body.Close()
	return readStream(answer.Body, output)
}

// unknownFile begins a service's message about a file that it does not have.
const unknownFile = "File with ID "

// noStream reports whether a service has no streams, as opposed to a missing file.
func noStream(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status == http.StatusNotFound && !strings.HasPrefix(e.Detail, unknownFile)
}

func fileGone(err error) error {
	e, ok := errors.AsType[*StatusError](err)
	if ok && e.Status == http.StatusNotFound && strings.HasPrefix(e.Detail, unknownFile) {
		return fmt.Errorf("%w: %w", ErrFileGone, err)
	}
	return err
}

func (s *Service) executeAtOnce(
	ctx context.Context, limit time.Duration, body executeBody, output func(Stream, string),
) (Outcome, error) {
	answer, err := s.do(ctx, limit, http.MethodPost, "/v1/execute", jsonPayload(body))
	if err != nil {
		return Outcome{}, fileGone(err)
	}
	defer answer.Body.Close()
	var result resultBody
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxJSON)).Decode(&result); err != nil {
		return Outcome{}, errors.New("the answer of the Code Interpreter service cannot be read")
	}
	if result.Stdout != "" {
		output(Stdout, result.Stdout)
	}
	if result.Stderr != "" {
		output(Stderr, result.Stderr)
	}
	return result.outcome(), nil
}

var (
	errNoResult = errors.New("the Code Interpreter service ended the stream without a result")
	errBadEvent = errors.New("the Code Interpreter service sent an event that cannot be read")
)

// maxEvent bounds one event of a stream.
const maxEvent = 16 << 20

// readStream reads server-sent events up to the result. It ignores events with unknown names.
func readStream(from io.Reader, output func(Stream, string)) (Outcome, error) {
	for e, err := range sse.Read(from, maxEvent) {
		if err != nil {
			return Outcome{}, err
		}
		if outcome, end, err := readEvent(e.Type, e.Data, output); end || err != nil {
			return outcome, err
		}
	}
	return Outcome{}, errNoResult
}

func readEvent(name string, data []byte, output func(Stream, string)) (_ Outcome, end bool, err error) {
	switch name {
	case "output":
		var e struct{ Stream, Data string }
		if json.Unmarshal(data, &e) != nil || e.Stream != string(Stdout) && e.Stream != string(Stderr) {
			return Outcome{}, true, errBadEvent
		}
		if e.Data != "" {
			output(Stream(e.Stream), e.Data)
		}
	case "result":
		var r resultBody
		if json.Unmarshal(data, &r) != nil {
			return Outcome{}, true, errBadEvent
		}
		return r.outcome(), true, nil
	case "error":
		var e struct{ Message string }
		if json.Unmarshal(data, &e) != nil {
			return Outcome{}, true, errBadEvent
		}
		return Outcome{}, true, errors.New("Code interpreter error: " + e.Message)
	}
	return Outcome{}, false, nil
}
