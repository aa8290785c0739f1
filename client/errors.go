package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Code says what a refusal by the service means. A Code is an error itself, so that
//
//	errors.Is(err, client.ErrNotFound)
//
// asks whether err is a refusal with that code. A newer service may have further codes.
type Code string

// The codes of refusals.
const (
	ErrInvalid       Code = "invalid" // the request can never succeed as it stands
	ErrUnauthorized  Code = "unauthorized"
	ErrForbidden     Code = "forbidden" // a valid key that may not do this
	ErrNotFound      Code = "not_found" // no such object, or another owner's
	ErrMethod        Code = "method_not_allowed"
	ErrConflict      Code = "conflict" // the object's state does not allow it
	ErrTooLarge      Code = "too_large"
	ErrMediaType     Code = "unsupported_media_type"
	ErrMisdirected   Code = "misdirected"    // the service does not answer to this name
	ErrBusy          Code = "busy"           // what was asked for has to wait; see Error.RetryAfter
	ErrFull          Code = "full"           // no room is left
	ErrSpent         Code = "quota_exceeded" // what may be used in a month is used up
	ErrNoLanguage    Code = "no_language"    // it is not installed at the service
	ErrNetworkDenied Code = "network_denied" // the network that was asked for is not allowed
	ErrUnavailable   Code = "unavailable"    // not at the moment
	ErrCanceled      Code = "canceled"
	ErrBadGateway    Code = "bad_gateway" // a server in a session gave no answer that can be read
	ErrInternal      Code = "internal"    // the service's log has it under Error.RequestID
)

// Error implements error.
func (c Code) Error() string { return strings.ReplaceAll(string(c), "_", " ") }

// Error is a refusal by the service.
type Error struct {
	Status     int           // of HTTP
	Code       Code          // empty: the answer was not of an Airlock service
	Message    string        // for a person
	Hint       string        // what to do about it; may be empty
	RequestID  string        // what the service's log knows it by
	RetryAfter time.Duration // zero: the service said nothing
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("airlock: %s (HTTP %d)", e.Message, e.Status)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns the code, for errors.Is.
func (e *Error) Unwrap() error {
	if e.Code == "" {
		return nil
	}
	return e.Code
}

const maxErrorBody = 64 << 10

func readError(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id")}
	var seconds int64
	if _, err := fmt.Sscan(resp.Header.Get("Retry-After"), &seconds); err == nil && seconds > 0 && seconds < 1<<31 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	var body struct {
		Error struct {
			Code      Code   `json:"code"`
			Message   string `json:"message"`
			Hint      string `json:"hint"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if json.Unmarshal(text, &body) == nil {
		e.Code, e.Message, e.Hint = body.Error.Code, body.Error.Message, body.Error.Hint
		if body.Error.RequestID != "" {
			e.RequestID = body.Error.RequestID
		}
	}
	e.Message = cmp.Or(e.Message, "the server answered "+resp.Status)
	return e
}
