package mcp

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

// maxSessions bounds the sessions of the protocol that one owner has: some hosts
// open one for each turn and close none.
const maxSessions = 200

// openSessions are the sessions of the protocol and the calls under way in them.
// The SDK closes a session only when its calls have ended.
type openSessions struct {
	mu       sync.Mutex
	sessions map[*sdk.ServerSession]*openSession
}

type openSession struct {
	owner engine.Owner
	used  time.Time
	calls map[*context.CancelFunc]bool
}

// begin notes a new session. It returns the one that has to go for it: the
// owner's oldest without a call under way.
func (o *openSessions) begin(s *sdk.ServerSession, owner engine.Owner) (oldest *sdk.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sessions == nil {
		o.sessions = map[*sdk.ServerSession]*openSession{}
	}
	o.sessions[s] = &openSession{owner: owner, used: time.Now(), calls: map[*context.CancelFunc]bool{}}
	var idle []*sdk.ServerSession
	n := 0
	for other, is := range o.sessions {
		if is.owner != owner {
			continue
		}
		n++
		if len(is.calls) == 0 && other != s {
			idle = append(idle, other)
		}
	}
	if n <= maxSessions || len(idle) == 0 {
		return nil
	}
	return slices.MinFunc(idle, func(a, b *sdk.ServerSession) int {
		return cmp.Compare(o.sessions[a].used.UnixNano(), o.sessions[b].used.UnixNano())
	})
}

// retain forgets the sessions that are closed. Those without an id end with their
// connection.
func (o *openSessions) retain(alive []*sdk.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s, is := range o.sessions {
		if s.ID() != "" && !slices.Contains(alive, s) && time.Since(is.used) > time.Minute {
			delete(o.sessions, s)
		}
	}
}

// call returns a context that ends with the session of a call, and a function
// to be called when the call has ended.
func (o *openSessions) call(ctx context.Context, s *sdk.ServerSession) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	is := o.sessions[s]
	if is == nil {
		return ctx, cancel
	}
	is.used = time.Now()
	is.calls[&cancel] = true
	return ctx, func() {
		cancel()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(is.calls, &cancel)
	}
}

// cancel ends the calls of the session with an id, if it is the owner's.
func (o *openSessions) cancel(id string, owner engine.Owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s, is := range o.sessions {
		if s.ID() == id && is.owner == owner {
			is.end()
		}
	}
}

// close ends the calls of a session and forgets it.
func (o *openSessions) close(s *sdk.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if is := o.sessions[s]; is != nil {
		is.end()
		delete(o.sessions, s)
	}
}

// cancelAll ends every call.
func (o *openSessions) cancelAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, is := range o.sessions {
		is.end()
	}
}

func (is *openSession) end() {
	for cancel := range is.calls {
		(*cancel)()
	}
}
