package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// Limits of the memory that large JSON bodies take while they arrive: of all, and of one owner.
// Small bodies are not counted.
const (
	maxBodies      = 256 << 20
	maxOwnerBodies = maxBodies / 4
	smallBody      = 256 << 10
	usualBody      = 8 << 20 // as far as a body of unknown length is believed at first
)

// ErrBodies reports that there is no memory for another large body at the moment.
var ErrBodies = errors.New("too many large requests are coming in: try again")

// Bodies counts the memory that large bodies take while they arrive, which can
// be as long as their senders like. The zero value is ready.
type Bodies struct{ counted engine.Tally }

// Read reads a body to its end: up to most bytes, or length bytes if that is not negative. Memory
// is reserved as the bytes arrive, so that announcing a large body costs nothing. The error is
// ErrBodies if there is no memory left, or the reader's.
func (b *Bodies) Read(owner engine.Owner, from io.Reader, length, most int64) ([]byte, error) {
	var begin bytes.Buffer
	if _, err := begin.ReadFrom(io.LimitReader(from, smallBody)); err != nil {
		return nil, err
	}
	if begin.Len() < smallBody {
		return begin.Bytes(), nil
	}
	room := most + 1
	if length >= 0 {
		room = min(room, max(length, smallBody)+1) // one more for the end to be seen
	}
	text, taken := begin.Bytes(), int64(0)
	defer func() { b.counted.Remove(owner, taken) }()
	for {
		if len(text) == cap(text) || taken == 0 {
			grown := room
			if length < 0 && taken == 0 {
				grown = min(room, usualBody+1)
			}
			if grown <= int64(len(text)) {
				grown = int64(len(text)) + 512 // longer than it may be: its reader says so
			}
			if !b.reserve(owner, grown) {
				return nil, ErrBodies
			}
			next := make([]byte, len(text), grown)
			copy(next, text)
			b.counted.Remove(owner, taken)
			text, taken = next, grown
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err == io.EOF { // a wrapped one is a body that was cut short
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// ReadRequest reads the body of a request, of at most most bytes. The error is an *engine.Error of
// ErrBusy, an *http.MaxBytesError, or that of the connection.
func (b *Bodies) ReadRequest(w http.ResponseWriter, r *http.Request, owner engine.Owner, most int64) ([]byte, error) {
	text, err := b.Read(owner, http.MaxBytesReader(w, r.Body, most), r.ContentLength, most)
	if errors.Is(err, ErrBodies) {
		err = &engine.Error{Op: "read body", Kind: engine.ErrBusy, Err: err}
	}
	return text, err
}

// reserve reserves n bytes and reports whether there is room for them. The users of an account
// have as much together as one owner.
func (b *Bodies) reserve(owner engine.Owner, n int64) bool {
	var bounds []engine.Bound
	for _, each := range owner.Accounts() {
		bounds = append(bounds, engine.Bound{Owner: each, Most: maxOwnerBodies})
	}
	_, _, ok := b.counted.Add(n, maxBodies, bounds)
	return ok
}
