package mcp

import (
	"context"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/live"
)

// Upstream are tools of other servers, which programs call.
type Upstream interface {
	// Search finds some by words, and tells how programs call them. Detail is names,
	// signatures or full.
	Search(ctx context.Context, query, detail string, limit int) string
	// Host is what one program may call. ask puts a question to the person.
	Host(ask func(ctx context.Context, question string) (bool, error)) live.Host
}

func (s *Server) searchTools(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	return answer(s.Upstream.Search(ctx, c.text("query"), c.text("detail"), c.int("limit"))), nil
}

// dialog is between a running program and the person. Its questions go to the client
// that waits for the program.
type dialog struct {
	mu      sync.Mutex
	waiting []*doubt      // oldest first
	news    chan struct{} // has an entry when there is one
}

type doubt struct {
	text   string
	answer chan bool
}

func newDialog() *dialog { return &dialog{news: make(chan struct{}, 1)} }

// ask returns what the person answers.
func (d *dialog) ask(ctx context.Context, text string) (bool, error) {
	q := &doubt{text, make(chan bool, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, q)
	d.mu.Unlock()
	d.tell()
	select {
	case agreed := <-q.answer:
		return agreed, nil
	case <-ctx.Done():
		d.remove(q)
		return false, errors.New("nobody answered")
	}
}

func (d *dialog) tell() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// whenAsked calls do once when a question waits, until stop is called.
func (d *dialog) whenAsked(do func()) (stop func()) {
	ended := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for d.next() == nil {
			select {
			case <-d.news:
			case <-ended:
				return
			}
		}
		do()
	}()
	return func() { close(ended); <-gone }
}

func (d *dialog) remove(q *doubt) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, other := range d.waiting {
		if other == q {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// next is the question that has waited for longest; nil: there is none.
func (d *dialog) next() *doubt {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		return nil
	}
	return d.waiting[0]
}

// reply answers the question that was put last.
func (d *dialog) reply(agreed bool) {
	if q := d.next(); q != nil && d.remove(q) {
		q.answer <- agreed
	}
}

// dialogs are those of programs that run, by handle.
type dialogs struct{ byRun sync.Map }

func (d *dialogs) of(run string) *dialog {
	found, _ := d.byRun.Load(run)
	talk, _ := found.(*dialog)
	return talk
}

// put is the result that has the client ask the person what a program asks. Older
// versions are asked in place.
func (s *Server) put(c *call, run string, q *doubt) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: form(q.text), RequestState: s.questions.put(c.caller.Owner, run)}
}

// answered passes on what the person said to a question of a program, and returns the
// program; nil: the call answers none.
func (s *Server) answered(ctx context.Context, c *call) (*cell, error) {
	given, asked := c.request.Params.InputResponses[question].(*sdk.ElicitResult)
	if !asked {
		return nil, nil //nolint:nilnil // a first call
	}
	run, ok := s.questions.take(c.request.Params.RequestState, c.caller.Owner)
	if !ok {
		return nil, refused("that question was answered before, or is older than 10 minutes: call run_code again")
	}
	p, err := s.program(ctx, c.caller, run)
	if err == nil {
		s.dialogs.of(run).reply(given.Action == "accept")
	}
	return p, err
}
