package onyx

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// statuses is the table from engine errors to HTTP statuses. Clients of this API know 404, 413,
// 422, 429 and 503.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrInvalid:    http.StatusUnprocessableEntity,
	engine.ErrFull:       http.StatusServiceUnavailable,
	engine.ErrSpent:      http.StatusServiceUnavailable,
	engine.ErrNoLanguage: http.StatusServiceUnavailable,
})

const saturated = "Execution capacity on this replica is saturated. Retry after the Retry-After delay."

// retryDelays are the least values of Retry-After.
var retryDelays = map[int]time.Duration{
	http.StatusTooManyRequests: 2 * time.Second, http.StatusServiceUnavailable: 10 * time.Second,
}

func unprocessable(format string, args ...any) error {
	return wire.Refuse(http.StatusUnprocessableEntity, format, args...)
}

type errorBody struct {
	Detail any `json:"detail"`
}

// refuseRequest answers with an error from the front door.
func refuseRequest(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	if status == http.StatusNotFound {
		message = "Not Found" // as for every unknown address
	}
	if least, ok := retryDelays[status]; ok {
		wire.RetryAfter(w.Header(), w.Header().Get("Retry-After"), least)
	}
	writeJSON(w, status, errorBody{message})
}

// refuseWith is refuseRequest for a mount with a limit of files.
func refuseWith(maxFile int64) func(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	return func(w http.ResponseWriter, r *http.Request, status int, code, message string) {
		if status == http.StatusRequestEntityTooLarge {
			message = fileTooLarge(maxFile)
		}
		refuseRequest(w, r, status, code, message)
	}
}

func fileTooLarge(most int64) string {
	return fmt.Sprintf("File size exceeds maximum of %d MB", most>>20)
}

// fail answers with an error. The connection stays open for the client's next request.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := describe(err)
	writeJSON(w, wire.Failed(w, r, a.Log, status, err, retryDelays), errorBody{detail})
}

// describe returns the status and detail of an error. The engine's text about a request is sent to
// the client; other causes are only logged.
func describe(err error) (int, any) {
	if e, ok := errors.AsType[*wire.Refusal](err); ok {
		return e.Status, e.Detail
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("Request body exceeds maximum of %d MB", e.Limit>>20)
	}
	kind := engine.KindOf(err)
	status, known := statuses[kind]
	e, ok := errors.AsType[*engine.Error](err)
	if !known || !ok {
		return http.StatusInternalServerError, "Internal Server Error"
	}
	switch kind {
	case engine.ErrInvalid, engine.ErrTooLarge:
		return status, wire.Sentence(e)
	case engine.ErrBusy:
		return status, saturated
	case engine.ErrFull, engine.ErrSpent:
		return status, "Executor capacity unavailable (quota_exceeded): " + cmp.Or(e.Hint, "there is no room left.")
	case engine.ErrUnavailable, engine.ErrNoLanguage:
		return status, "Executor capacity unavailable (unschedulable): " +
			cmp.Or(e.Hint, "the sandbox cannot run this at the moment.")
	case engine.ErrNotFound:
		return status, "Not Found"
	case engine.ErrUnauthorized, engine.ErrForbidden:
		return status, cmp.Or(e.Hint, "Forbidden")
	case engine.ErrConflict:
		return status, cmp.Or(e.Hint, "Conflict")
	}
	return status, http.StatusText(http.StatusInternalServerError)
}
