package provider

import (
	"errors"
	"io"
	"sync"
)

// Loan is a reader for one attempt. An HTTP transport may go on reading a body for
// a while after it has returned; when the loan is over it gets nothing more, so
// that the next attempt has the reader to itself.
type Loan struct {
	mu   sync.Mutex
	from io.Reader
	over bool
}

// Lend begins a loan.
func Lend(r io.Reader) *Loan { return &Loan{from: r} }

var errLoanOver = errors.New("this attempt is over")

// Read implements io.Reader.
func (l *Loan) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0, errLoanOver
	}
	return l.from.Read(p)
}

// Over ends the loan. It waits for a Read that is going on.
func (l *Loan) Over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
