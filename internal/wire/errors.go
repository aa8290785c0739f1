package wire

import (
	"maps"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// StatusClosed is for the log: the client that it would tell has left.
const StatusClosed = 499

// Statuses is the table from an engine error to HTTP, but for what a protocol says
// otherwise. What is not in it is a fault of ours.
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
		engine.ErrNoLanguage:   http.StatusNotImplemented,
		engine.ErrUnavailable:  http.StatusServiceUnavailable,
		engine.ErrCanceled:     StatusClosed,
	}
	maps.Copy(all, otherwise)
	return all
}

// Sentence says which field is wrong, and how.
func Sentence(e *engine.Error) string {
	said := string(e.Kind)
	if e.Err != nil {
		said = e.Err.Error()
	}
	if e.ID != "" {
		said = e.ID + " " + said
	}
	if e.Hint != "" {
		said += ". " + e.Hint
	}
	return said
}
