package librechat

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// requestHeader names a request, so that another one can cancel it.
const requestHeader = "X-Librechat-Code-Request-Id"

const (
	maxRequestID = 128
	maxEnded     = 1024 // requests that are remembered after their end
)

// requests are those that can be cancelled: while they are answered, and then
// for as long as the program that they began waits.
type requests struct {
	mu    sync.Mutex
	known map[string]*ticket
	ended []string // ids, the oldest first
}

// ticket is one request that has a name.
type ticket struct {
	request *http.Request // to be used in place of the one that came
	list    *requests
	id      string
	owner   engine.Owner
	cancel  context.CancelCauseFunc

	active  bool       // it is not answered yet
	program *execution // that waits for its tools
}

func newRequests() *requests { return &requests{known: map[string]*ticket{}} }

var errCancelled = errors.New("it was asked for")

// enter notes a request for as long as it is answered.
func (q *requests) enter(r *http.Request, caller engine.Caller) (*ticket, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	t := &ticket{request: r.WithContext(ctx), list: q, id: r.Header.Get(requestHeader), owner: caller.Owner,
		cancel: cancel, active: true}
	if t.id == "" {
		return t, nil
	}
	if len(t.id) > maxRequestID {
		cancel(nil)
		return nil, bad("%s is too long", requestHeader)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if other := q.known[t.id]; other != nil && (other.active || other.owner != t.owner) {
		cancel(nil)
		return nil, conflict("a request with this id is under way")
	}
	q.known[t.id] = t
	return t, nil
}

// waits says that the request's program goes on after its answer.
func (t *ticket) waits(e *execution) {
	t.list.mu.Lock()
	defer t.list.mu.Unlock()
	t.program = e
}

// leave notes that a request is answered.
func (t *ticket) leave() {
	t.cancel(nil)
	if t.id == "" {
		return
	}
	q := t.list
	q.mu.Lock()
	defer q.mu.Unlock()
	t.active, t.request = false, nil
	q.ended = slices.DeleteFunc(q.ended, func(id string) bool { return id == t.id })
	q.ended = append(q.ended, t.id)
	if len(q.ended) > maxEnded {
		if oldest := q.known[q.ended[0]]; oldest != nil && !oldest.active {
			delete(q.known, q.ended[0])
		}
		q.ended = q.ended[1:]
	}
}

// stop cancels a request, and reports whether there was something to cancel.
func (q *requests) stop(id string, owner engine.Owner) (stopped bool, err error) {
	q.mu.Lock()
	t := q.known[id]
	q.mu.Unlock()
	switch {
	case t == nil:
		return false, nil
	case t.owner != owner:
		return false, errForbidden()
	}
	q.mu.Lock()
	active, program := t.active, t.program
	t.program = nil
	q.mu.Unlock()
	switch {
	case active:
		t.cancel(errCancelled)
		return true, nil
	case program != nil && program.waiting():
		program.expire()
		return true, nil
	}
	return false, nil
}

// waiting reports whether a program waits for its tools.
func (e *execution) waiting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.ended && !e.serving
}

func (a *api) cancelProgrammatic(w http.ResponseWriter, r *http.Request) error {
	caller, err := a.caller(r)
	if err != nil {
		return err
	}
	var body struct {
		ID string `json:"request_id"`
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxStranger))
	if err != nil || json.Unmarshal(text, &body) != nil || body.ID == "" || len(body.ID) > maxRequestID {
		return bad("request_id is invalid")
	}
	stopped, err := a.requests.stop(body.ID, caller.Owner)
	if err != nil {
		return err
	}
	type reply struct {
		Status string `json:"status"`
	}
	if stopped {
		writeJSON(w, http.StatusAccepted, reply{"cancellation_requested"})
		return nil
	}
	writeJSON(w, http.StatusOK, reply{"already_completed"})
	return nil
}
