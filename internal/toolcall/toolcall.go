// Package toolcall has the calls that programs make to the world outside while they
// run, and wait for: tools of a model's host, which answers over requests that come and
// go; tools of other servers, which a person may have to allow; what a person types.
//
// A Call is one of them. A Queue has those that a person answers. Programs are runs
// whose calls go out in rounds: a round is all that the program waits for, its answers
// come with another request, and between the two the program is frozen, without a
// slot and without processor time. Edges know how that looks on the wire.
package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
)

// MaxCalls is how many calls one program may make.
const MaxCalls = 200

// PythonWords cannot be names of functions or parameters in Python.
var PythonWords = strings.Fields(`False None True and as assert async await break class continue def del elif else
	except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

// Call is one call of a program.
type Call struct {
	ID     string // of those that are given out, else empty
	Name   string
	Input  json.RawMessage
	answer chan Answer // has room for the one
}

// NewCall returns a call without an answer.
func NewCall(name string, input json.RawMessage) *Call {
	return &Call{Name: name, Input: input, answer: make(chan Answer, 1)}
}

// Answer is what a program gets for a call: a result, or an error.
type Answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Failed is the answer that a call has failed.
func Failed(why string) Answer { return Answer{Error: why} }

// Failure is the error of an answer; nil: it is a result.
func (a Answer) Failure() error {
	if a.Error == "" {
		return nil
	}
	return errors.New(a.Error)
}

// Wait returns the answer. The error is the cause of ctx's end.
func (c *Call) Wait(ctx context.Context) (Answer, error) {
	select {
	case a := <-c.answer:
		return a, nil
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

// Queue has the calls that somebody is to answer one by one. A nil one is empty.
type Queue struct {
	mu   sync.Mutex
	open []*Call // oldest first
	seen func()  // called when there is one; nil: nobody looks
}

// Put adds a call.
func (q *Queue) Put(c *Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = append(q.open, c)
	if q.seen != nil {
		q.seen()
	}
}

// Ask puts a call and returns its result.
func (q *Queue) Ask(ctx context.Context, c *Call) (json.RawMessage, error) {
	q.Put(c)
	a, err := c.Wait(ctx)
	if err == nil {
		return a.Result, a.Failure()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = slices.DeleteFunc(q.open, func(other *Call) bool { return other == c })
	return nil, err
}

// First is the call that has waited for longest; nil: none does.
func (q *Queue) First() *Call {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) == 0 {
		return nil
	}
	return q.open[0]
}

// Answer answers the first call, and reports whether there is one.
func (q *Queue) Answer(a Answer) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) == 0 {
		return false
	}
	q.open[0].answer <- a
	q.open = q.open[1:]
	return true
}

// Notify has do called when a call waits, at once if one does, until stop is called. Do
// does not block.
func (q *Queue) Notify(do func()) (stop func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen = do
	if len(q.open) > 0 {
		do()
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.seen = nil
	}
}
