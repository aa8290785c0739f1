package mcp

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventTransport serves the transport of 2024-11-05: a GET for the messages of the server, which
// stays open, and a POST for each message of the client. The SDK's handler lets any caller post to
// any session, and ignores the prefix of the mount.
type eventTransport struct {
	server   *sdk.Server
	open     *openSessions
	endpoint string // address for posts

	newID func() string

	mu       sync.Mutex
	sessions map[string]*eventSession
}

type eventSession struct {
	owner     string
	transport *sdk.SSEServerTransport
	end       context.CancelFunc
	connected chan struct{} // closed when the server answers this session, or never will
}

// maxListeners limits the open streams of an owner.
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
		// The client posts as soon as it has the endpoint. The SDK sends that first, and
		// then sets the versions that a session may speak.
		select {
		case <-session.connected:
			session.transport.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
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
	s := &eventSession{owner: owner, end: end, connected: make(chan struct{}), transport: &sdk.SSEServerTransport{
		Endpoint: t.endpoint + "?sessionid=" + id, Response: alive, MaxRequestBodyBytes: maxBody,
	}}
	if !t.add(id, s) {
		http.Error(alive, "too many open streams", http.StatusTooManyRequests)
		return
	}
	defer t.remove(id)
	alive.Header().Set("Content-Type", "text/event-stream")
	alive.Header().Set("Cache-Control", "no-cache, no-transform")
	session, err := t.server.Connect(ctx, s.transport, nil)
	close(s.connected)
	if err != nil {
		return // the client has disconnected
	}
	closed := make(chan struct{})
	go func() { defer close(closed); _ = session.Wait() }()
	select {
	case <-ctx.Done():
	case <-closed:
	}
	t.open.close(session) // Close waits for calls in progress
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

// Some clients and proxies time out after 60 s without a byte. The SDK sends its headers with the
// first event.
const (
	firstComment = 3 * time.Second
	nextComment  = 15 * time.Second
)

// aliveWriter sends a comment of server-sent events when nothing else was sent
// for a while.
type aliveWriter struct {
	http.ResponseWriter
	header http.Header // the handler's own copy: the handler may write to it while a comment is sent
	next   time.Duration

	mu    sync.Mutex
	begun bool
	ended bool
	timer *time.Timer
}

func keepAlive(w http.ResponseWriter, first, next time.Duration) *aliveWriter {
	a := &aliveWriter{ResponseWriter: w, header: http.Header{}, next: next}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(first, a.comment)
	return a
}

func (a *aliveWriter) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if !a.begun {
		a.start(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"},
			"Cache-Control": {"no-cache, no-transform"}})
	}
	if _, err := a.ResponseWriter.Write([]byte(": ok\n\n")); err == nil {
		_ = http.NewResponseController(a.ResponseWriter).Flush() // the handler notices a disconnected client
	}
	a.timer.Reset(a.next)
}

func (a *aliveWriter) start(status int, header http.Header) {
	if a.begun {
		return // a late status is reported in the stream
	}
	a.begun = true
	maps.Copy(a.ResponseWriter.Header(), header)
	a.ResponseWriter.WriteHeader(status)
}

// Header implements http.ResponseWriter.
func (a *aliveWriter) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *aliveWriter) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(status, a.header)
}

// Write implements http.ResponseWriter.
func (a *aliveWriter) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(http.StatusOK, a.header)
	a.timer.Reset(a.next)
	return a.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (a *aliveWriter) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(http.StatusOK, a.header)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (a *aliveWriter) Flush() { _ = a.FlushError() }

// stop ends the comments. It waits for a comment in progress.
func (a *aliveWriter) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.timer.Stop()
}
