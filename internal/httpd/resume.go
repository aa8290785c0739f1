package httpd

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// cutStream passes on the events of a peer, each as a whole. If the peer fails, the stream ends as if that were its
// end: what comes after its last event is known to this node then.
type cutStream struct {
	io.ReadCloser
	pending []byte // read, not passed on
	ready   int    // of these bytes: whole events
	last    string // id of the last whole event
	ended   error
	broken  bool // it has not ended well, after an event with an id
}

// largestEvent bounds an event that is kept until it is whole.
const largestEvent = 4 << 20

func (c *cutStream) Read(p []byte) (int, error) {
	for c.ready == 0 && c.ended == nil {
		part := make([]byte, 32<<10)
		n, err := c.ReadCloser.Read(part)
		c.pending = append(c.pending, part[:n]...)
		c.ready, c.ended = bytes.LastIndex(c.pending, []byte("\n\n"))+2, err
		if c.ready == 1 {
			c.ready = 0
		}
		if len(c.pending) > largestEvent {
			c.ready = len(c.pending)
		}
		c.note(c.pending[:c.ready])
	}
	if c.ready == 0 {
		if errors.Is(c.ended, io.EOF) || c.last == "" { // no stream of events, or its end
			n := copy(p, c.pending)
			if c.pending = c.pending[n:]; len(c.pending) > 0 || n > 0 {
				return n, nil
			}
			return 0, c.ended
		}
		c.broken = true
		return 0, io.EOF
	}
	n := copy(p, c.pending[:c.ready])
	c.pending, c.ready = c.pending[n:], c.ready-n
	return n, nil
}

// note remembers the id of the last event.
func (c *cutStream) note(events []byte) {
	for line := range bytes.Lines(events) {
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			c.last = string(bytes.TrimSpace(id))
		}
	}
}

// resumed goes on with an answer that has begun. A refusal adds nothing to it.
type resumed struct {
	http.ResponseWriter
	refused bool
}

// Unwrap is for http.ResponseController.
func (w *resumed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *resumed) WriteHeader(status int) { w.refused = status >= http.StatusBadRequest }

// Write implements http.ResponseWriter.
func (w *resumed) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Flush is for callers that ask for an http.Flusher.
func (w *resumed) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
