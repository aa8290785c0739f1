package dify

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// envelope is around every answer. A Code is 0, or minus an HTTP status.
type envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

var errLanguage = bad("unsupported language")

func bad(message string) error { return wire.Refuse(http.StatusBadRequest, "%s", message) }

// Refuse answers with an error that the front door found.
func Refuse(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	switch status {
	case http.StatusUnauthorized:
		w.WriteHeader(status) // without a body, as the original
		return
	case http.StatusTooManyRequests: // which Dify takes for a fault of the network
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, envelope{Code: -status, Message: message})
}

// fail answers with an error. What Dify shows to its user is the message where the
// status is 200, and a sentence of its own otherwise.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		Refuse(w, r, refused.Status, "", refused.Error())
		return
	}
	if wire.IsTooLarge(err) {
		Refuse(w, r, http.StatusRequestEntityTooLarge, "", "the body is too large")
		return
	}
	e, _ := errors.AsType[*engine.Error](err)
	switch kind := engine.KindOf(err); {
	case kind == engine.ErrInvalid && e != nil && e.Err != nil, kind == engine.ErrTooLarge && e != nil && e.Err != nil:
		Refuse(w, r, http.StatusBadRequest, "", e.ID+" "+e.Err.Error())
	case kind == engine.ErrBusy, kind == engine.ErrFull:
		Refuse(w, r, http.StatusServiceUnavailable, "", "Too many requests")
	case kind == engine.ErrNoLanguage && e != nil:
		writeJSON(w, http.StatusOK, envelope{Code: -500, Message: cmp.Or(e.Hint, "the language is not installed")})
	case kind == engine.ErrUnavailable:
		Refuse(w, r, http.StatusServiceUnavailable, "", "the sandbox cannot run this at the moment")
	default:
		if r.Context().Err() == nil {
			a.Log.ErrorContext(r.Context(), "request failed", "request_id", w.Header().Get("X-Request-Id"), "err", err)
		}
		writeJSON(w, http.StatusOK, envelope{Code: -500, Message: "internal error"})
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json; charset=utf-8", wire.Encode(body))
}
