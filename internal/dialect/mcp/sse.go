package mcp

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventTransport serves the transport of 2024-11-05: a GET that stays open for
// what the server says, and a POST for each message of the client. The SDK's
// handler lets any caller post to any session, and forgets the mount's prefix.
type eventTransport struct {
	server   *sdk.Server
	open     *openSessions
	endpoint string // where clients post to

	newID func() string

	mu       sync.Mutex
	sessions map[string]*eventSession
}

type eventSession struct {
	owner     string
	transport *sdk.SSEServerTransport
	end       context.CancelFunc
}

// maxListeners bounds the open streams of one owner.
const maxListeners = 200

func (t *eventTransport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	owner := auth.TokenInfoFromContext(r.Context()).UserID
	switch r.Method {
	case http.MethodGet:
		t.listen(w, r, owner)
	case http.MethodPost:
		t.mu.Lock()
		session := t.sessions[r.URL.Query().Get("sessionid")]
		t.mu.Unlock()
		if session == nil || session.owner != owner {
			http.Error(w, "there is no such session", http.StatusNotFound)
			return
		}
		session.transport.ServeHTTP(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "this address takes GET and POST", http.StatusMethodNotAllowed)
	}
}

func (t *eventTransport) listen(w http.ResponseWriter, r *http.Request, owner string) {
	ctx, end := context.WithCancel(context.WithValue(r.Context(), connectionKey{}, &connection{}))
	defer end()
	alive := keepAlive(w, nextComment, nextComment)
	defer alive.stop()
	id := t.newID()
	s := &eventSession{owner: owner, end: end, transport: &sdk.SSEServerTransport{
		Endpoint: t.endpoint + "?sessionid=" + id, Response: alive, MaxRequestBodyBytes: MaxBody,
	}}
	if !t.add(id, s) {
		http.Error(alive, "too many open streams", http.StatusTooManyRequests)
		return
	}
	defer t.remove(id)
	alive.Header().Set("Content-Type", "text/event-stream")
	alive.Header().Set("Cache-Control", "no-cache, no-transform")
	session, err := t.server.Connect(ctx, s.transport, nil)
	if err != nil {
		return // the client left
	}
	closed := make(chan struct{})
	go func() { defer close(closed); _ = session.Wait() }()
	select {
	case <-ctx.Done():
	case <-closed:
	}
	t.open.close(session) // Close waits for the calls under way
	_ = session.Close()
	<-closed
}

func (t *eventTransport) add(id string, s *eventSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions == nil {
		t.sessions = map[string]*eventSession{}
	}
	n := 0
	for _, other := range t.sessions {
		if other.owner == s.owner {
			n++
		}
	}
	if n >= maxListeners {
		return false
	}
	t.sessions[id] = s
	return true
}

func (t *eventTransport) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, id)
}

func (t *eventTransport) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		s.end()
	}
}
