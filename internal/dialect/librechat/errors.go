package librechat

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// statuses maps engine errors to HTTP statuses. A client shows 400 to the model as final
// and retries after 409, 413 and 5xx, so a request that can never succeed is 400.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrTooLarge:   http.StatusBadRequest,
	engine.ErrNoLanguage: http.StatusBadRequest,
	engine.ErrSpent:      http.StatusBadRequest, // its 429 is for some seconds
})

// errorBody is the body of every error.
type errorBody struct {
	Error      string `json:"error"`
	Message    string `json:"message,omitempty"`
	RetryAfter int    `json:"retry_after_seconds,omitempty"`

	ExpectedProfile string `json:"expected_profile,omitempty"`
	ActualProfile   string `json:"actual_profile,omitempty"`
}

func (b errorBody) String() string { return strings.TrimSuffix(b.Error+": "+b.Message, ": ") }

func refuse(status int, format string, args ...any) error {
	return &wire.Refusal{Status: status, Detail: errorBody{Error: fmt.Sprintf(format, args...)}}
}

func bad(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// The answers for files that are not the caller's to name.
func errBadID() error     { return bad("Bad request") }
func errNoFile() error    { return refuse(http.StatusNotFound, "File not found") }
func errForbidden() error { return refuse(http.StatusForbidden, "Unauthorized") }
func errBadRef() error    { return refuse(http.StatusForbidden, "Unauthorized file reference") }
func errNoKey() error {
	return refuse(http.StatusUnauthorized,
		"A valid key is needed: a JWT or a key as 'Authorization: Bearer', or a key as 'X-API-Key'")
}

// refuseRequest answers with an error from the front door.
func refuseRequest(w http.ResponseWriter, r *http.Request, status int, _, message string) {
	body := errorBody{Error: message}
	if status == http.StatusTooManyRequests {
		seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil {
			seconds = 1
		}
		body = tooMany(r, time.Duration(seconds)*time.Second)
	}
	if status == http.StatusRequestEntityTooLarge {
		body.Error = fileTooLarge
		if runs(r) { // the client would retry it forever
			status, body.Error = http.StatusBadRequest, "the request is too large"
		}
	}
	writeJSON(w, status, body)
}

// runs reports whether a request is to run something.
func runs(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/exec") || strings.HasSuffix(r.URL.Path, "/exec/programmatic")
}

// tooMany is the body of a 429. A client that wants to run code takes the
// number from it only where the error has exactly this name.
func tooMany(r *http.Request, wait time.Duration) errorBody {
	seconds := max(int((wait+time.Second-1)/time.Second), 1)
	if runs(r) {
		return errorBody{Error: "rate_limited", Message: fmt.Sprintf(
			"Too many programs are running. Please retry in %d seconds.", seconds), RetryAfter: seconds}
	}
	return errorBody{Error: fmt.Sprintf("Too many requests. Please retry in %d seconds.", seconds)}
}

// retryDelays are the least values of Retry-After.
var retryDelays = map[int]time.Duration{
	http.StatusTooManyRequests: time.Second, http.StatusServiceUnavailable: 5 * time.Second,
}

// fail answers with an error.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, body := describe(r, err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="airlock"`)
	}
	writeJSON(w, wire.Failed(w, r, a.Log, status, err, retryDelays), body)
}

// describe returns the status and body of an error. The engine's text about a request is sent to
// the client; other causes are only logged.
func describe(r *http.Request, err error) (int, errorBody) {
	if e, ok := errors.AsType[*wire.Refusal](err); ok {
		return e.Status, e.Detail.(errorBody)
	}
	if wire.IsTooLarge(err) {
		if runs(r) {
			return http.StatusBadRequest, errorBody{Error: "the request is too large"}
		}
		return http.StatusRequestEntityTooLarge, errorBody{Error: fileTooLarge}
	}
	e, ok := errors.AsType[*engine.Error](err)
	status, known := statuses[engine.KindOf(err)]
	if !ok || !known {
		return http.StatusInternalServerError, errorBody{Error: internal}
	}
	switch e.Kind {
	case engine.ErrBusy:
		return status, tooMany(r, e.RetryAfter)
	case engine.ErrNotFound:
		return status, errorBody{Error: "Not found"}
	case engine.ErrInvalid, engine.ErrTooLarge, engine.ErrNoLanguage, engine.ErrConflict, engine.ErrFull,
		engine.ErrSpent:
		return status, errorBody{Error: wire.Sentence(e)}
	case engine.ErrUnavailable:
		return status, errorBody{Error: "sandbox_unavailable", Message: e.Hint}
	case engine.ErrUnauthorized, engine.ErrForbidden:
		return status, errorBody{Error: cmp.Or(e.Hint, "Unauthorized")}
	}
	return status, errorBody{Error: internal}
}

const (
	internal     = "Internal server error"
	fileTooLarge = "File size limit exceeded"
)

// writeJSON answers at once and whole: clients give an error's body a second.
func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json; charset=utf-8", wire.Encode(body))
}
