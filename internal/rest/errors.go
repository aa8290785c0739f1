package rest

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// statuses maps engine errors to HTTP statuses.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrNoLanguage: http.StatusBadRequest, // a retry does not help
})

// words are the messages for errors whose cause is not shown to clients.
var words = map[engine.Kind]string{
	engine.ErrInvalid:      "the request is not acceptable",
	engine.ErrUnauthorized: "a valid key is needed",
	engine.ErrForbidden:    "this key may not do that",
	engine.ErrNetwork:      "that is not allowed to be contacted",
	engine.ErrNotFound:     "there is no such object",
	engine.ErrConflict:     "the object's state does not allow that",
	engine.ErrTooLarge:     "that is over a size limit",
	engine.ErrBusy:         "it is busy at the moment, and nothing was begun",
	engine.ErrFull:         "there is no room left",
	engine.ErrSpent:        "what may be used in a month is used up",
	engine.ErrNoLanguage:   "this language is not installed here",
	engine.ErrUnavailable:  "the service cannot do that at the moment",
	engine.ErrCanceled:     "the request was cancelled",
	engine.ErrInternal:     "internal error",
}

// Refuse returns an error of this package.
func Refuse(status int, code, format string, args ...any) error {
	return &wire.Refusal{Status: status, Detail: errorDetail{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// Invalid returns a refusal of a request that is not as the API wants it.
func Invalid(format string, args ...any) error {
	return Refuse(http.StatusBadRequest, string(engine.ErrInvalid), format, args...)
}

// Errors of objects that a request names.
const (
	ErrNotFound = engine.ErrNotFound
	ErrConflict = engine.ErrConflict // its state does not allow the request
)

// Conflict returns a refusal that says which state does not allow the request.
func Conflict(format string, args ...any) error {
	return Refuse(http.StatusConflict, string(engine.ErrConflict), format, args...)
}

// Forbidden returns a refusal that says what forbids the request.
func Forbidden(format string, args ...any) error {
	return Refuse(http.StatusForbidden, string(engine.ErrForbidden), format, args...)
}

// Denied returns the error of a caller without a right. The hint says which is needed.
func Denied(hint string) error { return &engine.Error{Kind: engine.ErrForbidden, Hint: hint} }

// Unavailable returns the error of what this service has not, or not now. err is only logged; nil:
// there is none.
func Unavailable(hint string, err error) error {
	return &engine.Error{Kind: engine.ErrUnavailable, Hint: hint, Err: err}
}

type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"`
	RequestID string `json:"request_id"`
}

func (d errorDetail) String() string { return d.Message }

// retryDelays are the least values of Retry-After.
var retryDelays = map[int]time.Duration{
	http.StatusTooManyRequests: time.Second, http.StatusServiceUnavailable: 5 * time.Second,
}

// Fail answers with an error. The engine's text about a field of the request is sent to the client;
// other causes are only logged, with the request's id.
func (k *Kit) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if err == ErrNotFound { //nolint:errorlint // a bare kind: nothing more is known than the address
		err = engine.NotFound("find", r.URL.Path)
	}
	status, detail := describe(err)
	detail.RequestID = w.Header().Get("X-Request-Id")
	WriteJSON(w, wire.Failed(w, r, k.Log, status, err, retryDelays), errorBody{detail})
}

func describe(err error) (int, errorDetail) {
	if e, ok := errors.AsType[*wire.Refusal](err); ok {
		return e.Status, e.Detail.(errorDetail)
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, errorDetail{
			Code: string(engine.ErrTooLarge), Message: fmt.Sprintf("the body is over %d bytes", e.Limit),
		}
	}
	if _, told := errors.AsType[*engine.Error](err); !told && errors.Is(err, syscall.ENOSPC) {
		// the disk of a folder or of the store is full
		err = &engine.Error{Kind: engine.ErrFull,
			Hint: "The disk is full, so nothing was changed. Delete what is no longer needed, or ask the operator for room.",
			Err:  err}
	}
	kind := engine.KindOf(err)
	status, known := statuses[kind]
	if !known {
		kind, status = engine.ErrInternal, http.StatusInternalServerError
	}
	detail := errorDetail{Code: string(kind), Message: words[kind]}
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || kind == engine.ErrInternal {
		return status, detail
	}
	detail.Hint = e.Hint
	switch {
	case kind == engine.ErrInvalid && e.ID != "" && e.Err != nil:
		detail.Message = wireField(e.ID) + " " + e.Err.Error()
	case kind == engine.ErrNetwork && e.Err != nil:
		detail.Message = "the requested network is not available: " + e.Err.Error()
	case (kind == engine.ErrNotFound || kind == engine.ErrConflict) && e.ID != "":
		detail.Message += ": " + wireField(e.ID)
	}
	return status, detail
}

// wireField translates the engine's name of a limit to that of the request's field.
func wireField(field string) string {
	switch field {
	case "limits.timeout":
		return "timeout_ms"
	case "limits.cpu_time":
		return "limits.cpu_time_ms"
	case "limits.memory":
		return "limits.memory_bytes"
	case "limits.workspace":
		return "limits.workspace_bytes"
	case "limits.output.bytes":
		return "limits.output_bytes"
	case "limits.files.count":
		return "limits.output_files"
	case "limits.files.bytes":
		return "limits.output_file_bytes"
	case "limits.files.total":
		return "limits.output_total_bytes"
	case "ttl":
		return "ttl_seconds"
	case "idempotency key":
		return "Idempotency-Key"
	}
	return field
}
