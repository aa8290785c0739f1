package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// problem is OpenAI's error object.
type problem struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"-"` // empty: null
	Code    string `json:"-"` // empty: null
}

const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

// MarshalJSON writes null for empty fields.
func (p problem) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"message": p.Message, "type": p.Type, "param": orNull(p.Param),
		"code": orNull(p.Code)})
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// refusal is an error of this package.
type refusal struct {
	status int
	problem
}

func (e *refusal) Error() string { return e.Message }

// invalid refuses a parameter.
func invalid(param, code, format string, args ...any) error {
	return &refusal{http.StatusBadRequest, problem{fmt.Sprintf(format, args...), invalidRequest, param, code}}
}

// required refuses a request without a parameter.
func required(param string) error {
	return invalid(param, "missing_required_parameter", "Missing required parameter: '%s'.", param)
}

// unsupported refuses a parameter that OpenAI has and Airlock does not.
func unsupported(param, format string, args ...any) error {
	return invalid(param, "unsupported_parameter", format, args...)
}

func notFound(format string, args ...any) error {
	return &refusal{http.StatusNotFound, problem{Message: fmt.Sprintf(format, args...), Type: invalidRequest}}
}

// statuses maps the kinds of engine errors to HTTP.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrFull: http.StatusTooManyRequests,
})

// codes are the error codes of statuses.
var codes = map[int]string{
	http.StatusUnauthorized: "invalid_api_key", http.StatusTooManyRequests: "rate_limit_exceeded",
	http.StatusRequestEntityTooLarge: "file_too_large",
}

// describe returns the status and error object of an error. Unknown causes are only logged.
func describe(err error) (int, problem) {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.status, e.problem
	}
	if wire.IsTooLarge(err) {
		return http.StatusRequestEntityTooLarge, problem{Message: "The body is over the limit of this address.",
			Type: invalidRequest}
	}
	kind := engine.KindOf(err)
	e, ok := errors.AsType[*engine.Error](err)
	status := statuses[kind]
	if !ok || status == 0 {
		return http.StatusInternalServerError, problem{Message: "The server had an error while processing your request.",
			Type: serverError}
	}
	p := problem{Message: strings.ReplaceAll(string(kind), "_", " "), Type: invalidRequest, Code: codes[status]}
	if kind == engine.ErrSpent { // as OpenAI answers when the money is used up
		p.Type, p.Code = "insufficient_quota", "insufficient_quota"
	}
	switch {
	case kind == engine.ErrInvalid && e.Err != nil:
		p.Param, p.Message = e.ID, "Invalid '"+e.ID+"': "+e.Err.Error()+"."
	case kind == engine.ErrNetwork && e.Err != nil:
		p.Param, p.Code = "network_policy", string(kind)
		p.Message = strings.TrimSpace("The network policy is refused: " + e.Err.Error() + ". " + e.Hint)
	case e.Hint != "":
		p.Message = e.Hint
	case e.Err != nil:
		p.Message = e.Err.Error()
	}
	if status >= http.StatusInternalServerError {
		p.Type = serverError
	}
	return status, p
}

// fail answers with an error.
func (q *request) fail(err error) {
	status, p := describe(err)
	if q.Context().Err() != nil {
		status = wire.StatusClosed // for the log: the client has left
	} else if status == http.StatusInternalServerError {
		q.Log.Error("openai", "route", q.Pattern, "error", err)
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		q.w.Header().Set("Retry-After", engine.RetrySeconds(err, time.Second))
	}
	writeJSON(q.w, status, map[string]any{"error": p})
}

// refuseRequest answers with an error of internal/httpd.
func refuseRequest(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	kind := invalidRequest
	if status >= http.StatusInternalServerError {
		kind = serverError
	}
	writeJSON(w, status, map[string]any{"error": problem{Message: message, Type: kind, Code: codes[status]}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	wire.Write(w, status, "application/json", wire.Encode(body))
}
