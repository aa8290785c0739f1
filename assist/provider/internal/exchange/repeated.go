package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"strings"
)

// maxEvent bounds an event of a stream, which may contain a picture.
const maxEvent = 64 << 20

// WithoutRepeats returns a copy of a client that drops repeated events from event streams: some
// gateways send events twice, and an answer would have its text twice.
//
// An event repeats an earlier one if it has the same bytes and the same sequence_number. Events
// without a number may be equal by right, such as equal pieces of text. They are repeats only in
// a stream whose events all come in pairs, from the first on.
func WithoutRepeats(client *http.Client) *http.Client {
	c := *client
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = repeats{c.Transport}
	return &c
}

type repeats struct{ next http.RoundTripper }

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (t repeats) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t repeats) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || !strings.Contains(resp.Header.Get("Content-Type"), "event-stream") {
		return resp, err
	}
	resp.Body = &repeatsBody{Closer: resp.Body, lines: bufio.NewReaderSize(resp.Body, 64<<10), paired: true,
		seed: maphash.MakeSeed(), seen: map[int64]uint64{}}
	resp.ContentLength = -1
	return resp, nil
}

// repeatsBody is a stream without repeated events.
type repeatsBody struct {
	io.Closer
	lines *bufio.Reader
	ready []byte // to be read
	end   error

	seed   maphash.Seed
	seen   map[int64]uint64 // hashes of events by their numbers
	paired bool             // all events without a number have come in pairs so far
	single []byte           // the data of the last one, unless its pair has come
}

func (b *repeatsBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		event, err := b.event()
		if b.end = err; err != nil || !b.isRepeated(event) {
			b.ready = event
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// event reads the lines up to the next empty one.
func (b *repeatsBody) event() (event []byte, err error) {
	for start := 0; ; {
		part, err := b.lines.ReadSlice('\n')
		event = append(event, part...)
		switch {
		case len(event) > maxEvent:
			return nil, errors.New("an event of the answer is too long")
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil || len(bytes.TrimRight(event[start:], "\r\n")) == 0:
			return event, err
		default:
			start = len(event)
		}
	}
}

// isRepeated reports whether an event repeats an earlier one, and remembers it if not.
func (b *repeatsBody) isRepeated(event []byte) bool {
	var data []byte
	for line := range bytes.Lines(event) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, value...)
		}
	}
	if len(data) == 0 { // a comment
		return false
	}
	var numbered struct {
		Number int64 `json:"sequence_number"`
	}
	// Some gateways number all events 0.
	if json.Unmarshal(data, &numbered) == nil && numbered.Number > 0 {
		sum := maphash.Bytes(b.seed, data)
		before, ok := b.seen[numbered.Number]
		b.seen[numbered.Number] = sum
		return ok && before == sum
	}
	switch {
	case !b.paired:
		return false
	case b.single == nil:
		b.single = data
		return false
	case bytes.Equal(b.single, data):
		b.single = nil
		return true
	}
	b.paired, b.single = false, nil
	return false
}
