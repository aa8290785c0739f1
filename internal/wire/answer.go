// Package wire has what several edges read and write in the same way, below every protocol:
// bodies, answers, refusals and the statuses of errors; event streams; the parts of a form;
// downloads; requests to ports of a sandbox. What an answer says is the protocol's.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Encode returns a body as JSON. A body that cannot be encoded is a fault of its edge: the
// panic is recovered and logged by the front door.
func Encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return text
}

// EncodePlain is Encode without escapes for HTML.
func EncodePlain(body any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Write answers with a whole body.
func Write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have left
}

// Refusal is an error that an edge finds by itself. Detail is the text of the answer, or what the
// protocol has in its place.
type Refusal struct {
	Status int
	Detail any
}

func (e *Refusal) Error() string { return fmt.Sprint(e.Detail) }

// Refuse returns a Refusal with a text.
func Refuse(status int, format string, args ...any) error {
	return &Refusal{status, fmt.Sprintf(format, args...)}
}

// Failed returns the status that answers a failed request: status, or StatusClosed in place of a
// server error if the client has left. It logs server errors, and sets Retry-After for the statuses
// in retry, which has the shortest delays.
func Failed(
	w http.ResponseWriter, r *http.Request, log *slog.Logger, status int, err error, retry map[int]time.Duration,
) int {
	if r.Context().Err() != nil && status >= 500 {
		status = StatusClosed
	}
	if least, ok := retry[status]; ok {
		RetryAfter(w.Header(), engine.RetrySeconds(err, least), least)
	}
	if status >= 500 && !isMeant(err) {
		log.ErrorContext(r.Context(), "request failed", "request_id", w.Header().Get("X-Request-Id"), "status", status,
			"err", err)
	}
	return status
}

// isMeant reports whether a request was refused as somebody wanted it: by a quota, or by a node that was asked to take
// nothing new.
func isMeant(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return errors.Is(err, engine.ErrQuota) || errors.Is(err, engine.ErrSpent) || ok && e.Refusal == engine.RefusedDrain
}

// RetryAfter sets Retry-After to a number of seconds, or to least if that is longer.
func RetryAfter(h http.Header, seconds string, least time.Duration) {
	if n, err := strconv.Atoi(seconds); err != nil || time.Duration(n)*time.Second < least {
		seconds = strconv.Itoa(int((least + time.Second - 1) / time.Second))
	}
	h.Set("Retry-After", seconds)
}

// IsTooLarge reports whether err is of a body that is larger than its http.MaxBytesReader
// allows.
func IsTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

// ForeignOrigin reports whether a page of another site makes a request.
func ForeignOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host))
}

// StatusClosed is the status of a request whose client has left. It only reaches the log.
const StatusClosed = 499

// Statuses returns the table from engine errors to HTTP statuses, with a protocol's own entries. An
// error that is not in it is an internal one.
func Statuses(otherwise map[engine.Kind]int) map[engine.Kind]int {
	all := map[engine.Kind]int{
		engine.ErrInvalid:      http.StatusBadRequest,
		engine.ErrUnauthorized: http.StatusUnauthorized,
		engine.ErrForbidden:    http.StatusForbidden,
		engine.ErrNetwork:      http.StatusForbidden,
		engine.ErrNotFound:     http.StatusNotFound,
		engine.ErrConflict:     http.StatusConflict,
		engine.ErrTooLarge:     http.StatusRequestEntityTooLarge,
		engine.ErrBusy:         http.StatusTooManyRequests,
		engine.ErrFull:         http.StatusInsufficientStorage,
		engine.ErrSpent:        http.StatusTooManyRequests,
		engine.ErrNoLanguage:   http.StatusNotImplemented,
		engine.ErrUnavailable:  http.StatusServiceUnavailable,
		engine.ErrCanceled:     StatusClosed,
	}
	maps.Copy(all, otherwise)
	return all
}

// Sentence returns the text of an error, with the field that is wrong.
func Sentence(e *engine.Error) string {
	text := string(e.Kind)
	if e.Err != nil {
		text = e.Err.Error()
	}
	if e.ID != "" {
		text = e.ID + " " + text
	}
	if e.Hint != "" {
		text += ". " + e.Hint
	}
	return text
}
