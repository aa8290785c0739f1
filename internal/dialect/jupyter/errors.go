package jupyter

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// statuses is the table from engine errors to HTTP statuses.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrUnauthorized: http.StatusForbidden,
	engine.ErrNoLanguage:   http.StatusInternalServerError, // as a kernel that does not start
	engine.ErrInternal:     http.StatusInternalServerError,
})

// errorBody is the body of every error, as jupyter_server's JsonErrors writes it.
type errorBody struct {
	Message string  `json:"message"`
	Reason  *string `json:"reason"`
}

// refuseRequest answers with an error of the front door. A Jupyter server answers 403 without a token
// (jupyter_server, base/handlers.py).
func refuseRequest(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	if status == http.StatusUnauthorized {
		status, message = http.StatusForbidden, "Forbidden"
		w.Header().Del("WWW-Authenticate")
	}
	_ = writeJSON(w, status, errorBody{Message: message}) // the peer may have disconnected
}

// fail answers with an error. The engine's text about a request is sent to the client; other causes
// are only logged.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, message := describe(err)
	switch {
	case r.Context().Err() != nil && status >= http.StatusInternalServerError:
		status = wire.StatusClosed
	case status == http.StatusInternalServerError:
		s.Log.Error("jupyter", "route", r.Pattern, "error", err)
	}
	if seconds := engine.RetrySeconds(err, 0); seconds != "" {
		w.Header().Set("Retry-After", seconds)
	}
	_ = writeJSON(w, status, errorBody{Message: message}) // the peer may have disconnected
}

// describe returns the status and message of an error.
func describe(err error) (status int, message string) {
	if e, ok := errors.AsType[*wire.Refusal](err); ok {
		return e.Status, e.Error()
	}
	if wire.IsTooLarge(err) {
		return http.StatusRequestEntityTooLarge, "The body is over the limit of this address"
	}
	kind := engine.KindOf(err)
	message = strings.ReplaceAll(string(kind), "_", " ")
	e, ok := errors.AsType[*engine.Error](err)
	switch {
	case !ok || kind == engine.ErrInternal:
	case kind == engine.ErrInvalid && e.Err != nil:
		message = e.ID + " " + e.Err.Error()
	case e.Hint != "":
		message = e.Hint
	case e.Err != nil && (kind == engine.ErrBusy || kind == engine.ErrConflict || kind == engine.ErrUnavailable ||
		kind == engine.ErrTooLarge):
		message = e.Err.Error()
	}
	return statuses[kind], message
}

func writeJSON(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	wire.Write(w, status, "application/json", text)
	return nil
}

// noContent answers 204 unless there is an error.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// setLocation sets Location relative to the address of a request, since the prefix is not known
// here.
func setLocation(w http.ResponseWriter, r *http.Request, at string) {
	up := strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1)
	w.Header().Set("Location", up+(&url.URL{Path: at}).EscapedPath())
}

// maxRequest is the limit of a body that is no file.
const maxRequest = 1 << 20

// readJSON reads a body of at most most bytes, which may be empty whatever its type is: Open WebUI
// posts nothing as application/octet-stream.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, most int64, into any) error {
	text, err := s.Bodies.ReadRequest(w, r, s.Caller(r).Owner, most)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) > 0 && json.Unmarshal(text, into) != nil {
		return wire.Refuse(http.StatusBadRequest, "Invalid JSON in body of request")
	}
	return nil
}

// stamp is a time as clients parse it: jupyter-kernel-client reads it with %f, so
// there are always six digits.
type stamp time.Time

// MarshalText implements encoding.TextMarshaler.
func (t stamp) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z"), nil
}
