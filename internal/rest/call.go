// Package rest has what the routes of Airlock's own API share, whichever part of Airlock serves
// them: requests, answers, errors, and a strict reader of JSON.
package rest

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// Kit is what the routes of an API share.
type Kit struct {
	// Caller returns the caller of a request. The server has authenticated it.
	Caller  func(*http.Request) engine.Caller
	Prefix  string       // where the handler is mounted, for Location headers
	MaxJSON int64        // bytes of a JSON body
	Bodies  *wire.Bodies // counts the memory of large JSON bodies
	Log     *slog.Logger // for causes that the client must not see
}

// Request is a request with its caller.
type Request struct {
	*http.Request
	W      http.ResponseWriter
	Caller engine.Caller
	kit    *Kit
}

// Owner returns the owner of what the caller makes.
func (q *Request) Owner() string { return string(q.Caller.Owner) }

// Operator reports whether the caller has an admin key, or is on the machine itself without one.
func (q *Request) Operator() bool {
	return q.Caller.Admin || q.Caller.Owner == engine.Local && q.Caller.Key == ""
}

// Handler serves a route. It returns the body of an answer with status 200, an answer with
// another status, or nil for 204.
type Handler func(*Request) (any, error)

// Answer is an answer with its own status. Without a status it was sent already.
type Answer struct {
	Status   int
	Location string // below the prefix; empty: none
	Body     any
}

// Created returns an answer with status 201 and the location of what was made.
func Created(location string, body any) Answer {
	return Answer{http.StatusCreated, location, body}
}

// Handle returns the HTTP handler of a route.
func (k *Kit) Handle(serve Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := serve(&Request{Request: r, W: w, Caller: k.Caller(r), kit: k})
		if err != nil {
			k.Fail(w, r, err)
			return
		}
		switch result := result.(type) {
		case nil:
			w.WriteHeader(http.StatusNoContent)
		case Answer:
			if result.Status == 0 {
				return
			}
			if result.Location != "" {
				w.Header().Set("Location", k.Prefix+result.Location)
			}
			WriteJSON(w, result.Status, result.Body)
		default:
			WriteJSON(w, http.StatusOK, result)
		}
	}
}

// Access is the access to a route without a key. The zero value is for callers with a key and for
// the machine itself.
type Access int

// The levels of access.
const (
	Keyed   Access = iota
	Trusted        // also callers from a trusted network: the route changes only a sandbox
	Public         // every caller
)

// Route is a method of a path. The path is relative to the prefix.
type Route struct {
	Method, Path string
	Serve        Handler
	Access       Access
}

// ReadFlag reads true or false from the query; absent is false.
func ReadFlag(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, Invalid("%s must be true or false", name)
}

const timeLayout = "2006-01-02T15:04:05.000Z"

// TimeOf returns a time as the API writes it: in UTC, with milliseconds; "" for the zero time.
func TimeOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// Each applies f to a list. The result is never nil, so that an empty list is encoded as one.
func Each[A, B any](list []A, f func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// WriteJSON sends a JSON body, which no cache keeps.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	wire.Write(w, status, "application/json", append(wire.Encode(body), '\n'))
}

// Broken returns a refusal with a message. If the body is too large, it returns err.
func Broken(err error, message string) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return Invalid("%s", message)
}

// AsDownload sets the headers of a file that a browser saves.
func AsDownload(h http.Header, name, mimeType string) {
	wire.Download(h, wire.Attachment(name), SafeType(mimeType))
}

// SafeType returns a media type that no browser runs.
func SafeType(mimeType string) string {
	return wire.SafeType(mimeType, "audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm")
}
