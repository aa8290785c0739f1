// Package completions reads answers of chat completions in the variants of different servers.
package completions

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// Reader receives an answer as it comes. An error of Called ends the reading.
type Reader[T any] struct {
	Most int                       // bytes of an answer
	ID   func(given string) string // returns the id of a call: the model's may be empty or repeated
	Text func(delta string)
	// Refusal gets the text of a refusal; nil: it is part of the answer's text.
	Refusal func(delta string)
	Called  func(c *Call[T], more string) error // adds to the arguments of a call with a name
}

// Error is an error of an answer.
type Error struct {
	Text    string // the message, unless it is the server's
	Message string // the server's message
	Kind    string // the server's error type
	Err     error  // the cause, if any
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Text + ": " + e.Err.Error()
	}
	return e.Text + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read reads an answer to its end. It also returns an incomplete answer with an error.
func (r *Reader[T]) Read(resp *http.Response) (*Answer[T], error) {
	a, body := &Answer[T]{}, http.MaxBytesReader(nil, resp.Body, int64(r.Most))
	err := r.read(a, body, strings.Contains(resp.Header.Get("Content-Type"), "application/json"))
	_, long := errors.AsType[*http.MaxBytesError](err)
	switch {
	case long, errors.Is(err, sse.ErrTooLong):
		return a, &Error{Text: fmt.Sprintf("the model's answer has more than %d MiB", r.Most>>20)}
	case err == nil && a.Finish == "":
		return a, &Error{Text: "the model's answer broke off before its end"}
	}
	return a, err
}

func (r *Reader[T]) read(a *Answer[T], body io.ReadCloser, whole bool) error {
	if whole {
		text, err := io.ReadAll(body)
		if err != nil {
			return &Error{Text: "the model's answer broke off", Err: err}
		}
		return r.addChunk(a, text)
	}
	for e, err := range sse.Read(body, r.Most) {
		if err != nil {
			return &Error{Text: "the model's answer broke off", Err: err}
		}
		if strings.TrimSpace(string(e.Data)) == "[DONE]" {
			readRest(body)
			return nil
		}
		if err := r.addChunk(a, e.Data); err != nil {
			return err
		}
	}
	return nil
}

// restTime bounds the wait for the end of a stream after its last event.
const restTime = time.Second

// readRest reads the end of a stream, so that its connection can be reused.
func readRest(body io.ReadCloser) {
	late := time.AfterFunc(restTime, func() { body.Close() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, body) // the answer is complete
}
