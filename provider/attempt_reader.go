package provider

import (
	"errors"
	"io"
	"sync"
)

// An AttemptReader is the body of one attempt of a request. An HTTP transport may read
// from a body for a while after it has returned. After Revoke such a Read gets
// nothing, so that the next attempt has the reader to itself.
type AttemptReader struct {
	mu   sync.Mutex
	from io.Reader
	over bool
}

// NewAttemptReader returns a reader of r that can be revoked.
func NewAttemptReader(r io.Reader) *AttemptReader { return &AttemptReader{from: r} }

var errLoanOver = errors.New("this attempt is over")

// Read implements io.Reader.
func (l *AttemptReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0, errLoanOver
	}
	return l.from.Read(p)
}

// Revoke ends reading. It waits for a Read that is in progress.
func (l *AttemptReader) Revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
