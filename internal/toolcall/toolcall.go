// Package toolcall has the blocking calls of running programs to the outside: tools of a
// model's host, which answers in later requests; tools of other servers, which the user may
// have to approve; input that the user types.
//
// A Call is such a call. A Queue has the calls that the user answers. Programs are runs whose
// calls go out in rounds: a round has all calls that the program waits for, and another
// request has the answers. In between the program is frozen, without a slot and without
// processor time. Edges define the wire format.
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

// PythonWords are the keywords of Python.
var PythonWords = strings.Fields(`False None True and as assert async await break class continue def del elif else
	except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

// Call is a call of a program.
type Call struct {
	ID     string // set when the call is issued
	Name   string
	Input  json.RawMessage
	answer chan Answer // has a buffer of one
}

// NewCall returns a call without an answer.
func NewCall(name string, input json.RawMessage) *Call {
	return &Call{Name: name, Input: input, answer: make(chan Answer, 1)}
}

// Answer is the answer to a call: a result or an error.
type Answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Failed returns the answer of a failed call.
func Failed(why string) Answer { return Answer{Error: why} }

// Failure returns the error of an answer, or nil.
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

// Queue has calls that are answered one by one. A nil Queue is empty.
type Queue struct {
	mu   sync.Mutex
	open []*Call // oldest first
	seen func()  // called when there is a call; may be nil
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

// First returns the oldest call, or nil.
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

// Answer answers the oldest call. It reports whether there was one.
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

// Notify calls do when a call waits, at once if there is one, until stop is called. do must
// not block.
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
