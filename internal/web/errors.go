package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// refusal is an error that the page finds by itself.
type refusal struct {
	status  int
	message string // what happened
	cure    string // what to do
}

func (e *refusal) Error() string { return e.message }

func refuse(status int, message, cure string) error {
	return &refusal{status: status, message: message, cure: cure}
}

var errToken = refuse(http.StatusForbidden, "This page is from before the service started, or from another sign-in.",
	"Load the page again and repeat what you did.")

// problem is an error as a visitor sees it.
type problem struct {
	Status    int    `json:"-"`
	Message   string `json:"message"`
	Cure      string `json:"hint,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// problems is the one table from an engine error to what is shown.
var problems = map[engine.Kind]problem{
	engine.ErrInvalid: {Status: http.StatusBadRequest, Message: "This request is not acceptable."},
	engine.ErrUnauthorized: {Status: http.StatusUnauthorized, Message: "You are not signed in.",
		Cure: "Sign in with a key; `airlock keys create` makes one."},
	engine.ErrForbidden: {Status: http.StatusForbidden, Message: "Your key may not do this.",
		Cure: "Ask for a key with admin rights."},
	engine.ErrNetwork: {Status: http.StatusForbidden, Message: "This network is not allowed."},
	engine.ErrNotFound: {Status: http.StatusNotFound, Message: "There is nothing here.",
		Cure: "It was deleted, it has expired, or it belongs to somebody else."},
	engine.ErrConflict: {Status: http.StatusConflict, Message: "This has changed in the meantime.",
		Cure: "Load the page again."},
	engine.ErrTooLarge: {Status: http.StatusRequestEntityTooLarge, Message: "This is over a size limit."},
	engine.ErrBusy: {Status: http.StatusTooManyRequests, Message: "Too many runs are waiting.",
		Cure: "Try again in a moment."},
	engine.ErrFull: {Status: http.StatusInsufficientStorage, Message: "There is no room left."},
	engine.ErrNoLanguage: {Status: http.StatusBadRequest, Message: "This language is not installed on this host.",
		Cure: "Install it with `airlock setup --languages`."},
	engine.ErrUnavailable: {Status: http.StatusServiceUnavailable, Message: "The service cannot do this at the moment.",
		Cure: "Try again; if it stays so, `airlock doctor` says what is wrong."},
	engine.ErrCanceled: {Status: wire.StatusClosed, Message: "This was cancelled."},
	engine.ErrInternal: {Status: http.StatusInternalServerError, Message: "Something went wrong in the service.",
		Cure: "Its log says more, under the number below."},
}

func describe(err error) problem {
	if e, ok := errors.AsType[*refusal](err); ok {
		return problem{Status: e.status, Message: e.message, Cure: e.cure}
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem{Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("This is more than the %s that fit in one request.", byteCount(e.Limit))}
	}
	p, known := problems[engine.KindOf(err)]
	if !known {
		p = problems[engine.ErrInternal]
	}
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return p
	}
	if e.Kind == engine.ErrNetwork && e.Err != nil {
		p.Message = "The network: " + e.Err.Error() + "."
	}
	if e.Kind == engine.ErrInvalid && e.ID != "" && e.Err != nil {
		p.Message = fieldWords(e.ID) + " " + e.Err.Error() + "."
	}
	if e.Hint != "" && e.Kind != engine.ErrInternal {
		p.Cure = e.Hint
	}
	return p
}

// fieldWords says the engine's name of a field to a person.
func fieldWords(field string) string {
	words := map[string]string{
		"code": "The code", "language": "The language", "limits.timeout": "The time limit", "name": "The file's name",
		"args": "The arguments", "stdin": "The standard input",
	}
	if w, ok := words[field]; ok {
		return w
	}
	return field
}

// fail answers with an error: a page for a person, JSON for a script.
func (s *Site) fail(w http.ResponseWriter, v *webRequest, err error) {
	p := describe(err)
	if v.Context().Err() != nil && p.Status >= http.StatusInternalServerError {
		p.Status = wire.StatusClosed
	}
	if p.Status >= http.StatusInternalServerError {
		p.RequestID = w.Header().Get("X-Request-Id")
		if !errors.Is(err, engine.ErrQuota) {
			s.Log.ErrorContext(v.Context(), "page failed", "request_id", p.RequestID, "status", p.Status, "err", err)
		}
	}
	if seconds := engine.RetrySeconds(err, 0); seconds != "" {
		w.Header().Set("Retry-After", seconds)
	}
	if v.wants("application/json") || v.wants("text/event-stream") || v.Header.Get(tokenHeader) != "" {
		writeJSON(w, p.Status, map[string]problem{"error": p})
		return
	}
	s.render(w, v, p.Status, "error", "Not possible", p)
}

// Refuse answers for the front door, when it turns a visitor away itself.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, status int, _, message string) {
	secure(w.Header())
	v := &webRequest{Request: r, cookie: cookieOf(r)}
	v.caller, _ = s.Caller(r)
	p := problem{Status: status, Message: "The service turned this request away: " + message + ".",
		RequestID: w.Header().Get("X-Request-Id")}
	if v.wants("application/json") || v.wants("text/event-stream") || v.Header.Get(tokenHeader) != "" {
		writeJSON(w, status, map[string]problem{"error": p})
		return
	}
	s.render(w, v, status, "error", "Not possible", p)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"message":"Something went wrong in the service."}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the visitor may be gone, and nobody is left to tell
}
