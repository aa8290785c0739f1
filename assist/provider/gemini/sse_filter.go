package gemini

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// sseFilter passes only complete data lines to the SDK, and ends a broken stream with io.EOF.
// The SDK (v1.77.0) prints the error of a broken stream to the program's log and does not
// return it, and it fails at lines that are not data, such as keep-alive comments. The
// request's ending has the error.
type sseFilter struct{ next http.RoundTripper }

// ending has the error of a request's stream.
type ending struct{ err error }

type endingKey struct{}

// withEnding returns a context for a request whose stream records its error.
func withEnding(ctx context.Context) (context.Context, *ending) {
	e := &ending{}
	return context.WithValue(ctx, endingKey{}, e), e
}

func (q sseFilter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := q.next.RoundTrip(r)
	if err != nil || !strings.Contains(resp.Header.Get("Content-Type"), "event-stream") {
		return resp, err
	}
	if e, ok := r.Context().Value(endingKey{}).(*ending); ok {
		resp.Body = &sseFilterBody{Closer: resp.Body, lines: bufio.NewReaderSize(resp.Body, 64<<10), ending: e}
	}
	return resp, nil
}

type sseFilterBody struct {
	io.Closer
	lines  *bufio.Reader
	rest   []byte
	inside bool // of an event
	ending *ending
}

func (b *sseFilterBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n') // of an event of bounded size
		if err != nil {                      // an incomplete line is dropped
			if !errors.Is(err, io.EOF) {
				b.ending.err = err
			}
			return 0, io.EOF
		}
		field, _, _ := bytes.Cut(line, []byte(":"))
		blank := len(bytes.TrimSpace(line)) == 0
		if string(field) == "data" || blank && b.inside || line[0] == '{' {
			b.rest, b.inside = line, !blank
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
