package jupyter

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxIncoming = 20 << 20 // bytes of a message of a client's
	pingEvery   = 30 * time.Second
	pongTime    = 20 * time.Second
	// sendTime is the time limit for a client to read a message. Clients of ag2 do not read while
	// their model thinks, so it is long.
	sendTime = 30 * time.Minute
)

// connection is a WebSocket of a client's.
type connection struct {
	socket *websocket.Conn
	v1     bool
	large  bool // it takes frames of more than smallFrame
	text   bool // it takes no binary frames
	end    context.CancelFunc
	ending chan reason // has an entry when it is to be closed
}

// reason is why a connection is closed.
type reason struct {
	code websocket.StatusCode
	text string
}

// close closes a connection, after its client has read the queue or closeTime has passed.
func (at *connection) close(code websocket.StatusCode, text string) {
	select {
	case at.ending <- reason{code, text}:
		time.AfterFunc(closeTime, at.end)
	default: // it is being closed
	}
}

// closeTime is the time limit for a client to read the queue when its connection is closed.
const closeTime = 5 * time.Second

// channels serves the WebSocket of a kernel.
func channels(w http.ResponseWriter, r *http.Request, k *kernel) error {
	s := k.server
	if !s.enter() {
		return &engine.Error{Op: "connect", Kind: engine.ErrUnavailable, Err: errClosing}
	}
	defer s.sockets.Done()
	if wire.ForeignOrigin(r) && !showsKey(r) {
		return wire.Refuse(http.StatusForbidden, "Forbidden")
	}
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{subprotocol}, InsecureSkipVerify: true, // see foreignOrigin
	})
	if err != nil {
		return nil // it was answered
	}
	defer func() { _ = socket.CloseNow() }()
	socket.SetReadLimit(maxIncoming)
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	at := &connection{socket: socket, v1: socket.Subprotocol() == subprotocol, end: cancel, ending: make(chan reason, 1)}
	tornado := strings.Contains(r.UserAgent(), "Tornado") // the gateway client of jupyter_server
	at.large, at.text = at.v1 || tornado, !at.v1 && tornado
	c, err := k.join(r.URL.Query().Get("session_id"), at)
	if err != nil {
		_, why := describe(err)
		_ = socket.Close(websocket.StatusTryAgainLater, why) // the peer may have disconnected
		return nil
	}
	defer c.leave(at)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer func() { _ = socket.CloseNow() }()
		c.write(ctx, at)
	}()
	defer func() { cancel(); <-sent }()
	c.read(ctx, at)
	return nil
}

// showsKey reports whether a request shows its key itself: a browser does not do
// that on behalf of another site's page.
func showsKey(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" || r.URL.Query().Get(queryKey) != ""
}

// queryKey is the parameter of the query in which clients show their token.
const queryKey = "token"

// read reads the messages of a client until its connection ends. Frames that are no messages are
// ignored, as by the original.
func (c *client) read(ctx context.Context, at *connection) {
	for {
		kind, data, err := at.socket.Read(ctx)
		if err != nil {
			return
		}
		r, err := readFrame(kind, data, at.v1)
		if err != nil {
			c.kernel.server.Log.Debug("jupyter: a frame is no message", "session", c.kernel.id, "bytes", len(data))
			continue
		}
		c.kernel.handle(&clientRequest{r, c})
	}
}

// write sends the queue of a client until the connection ends or is replaced.
func (c *client) write(ctx context.Context, at *connection) {
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for {
		var last *reason
		select {
		case <-ctx.Done():
			return
		case why := <-at.ending:
			last = &why
		case <-c.news:
		case <-pings.C:
			c.kernel.server.ping(ctx, at)
			continue
		}
		queue, mine, behind := c.dequeue(at)
		if !mine && last == nil {
			c.wake() // the client's other connection must send the rest
			select {
			case why := <-at.ending: // the close frame has the reason
				last = &why
			case <-ctx.Done():
				return
			}
		}
		if behind {
			_ = at.socket.Close(websocket.StatusPolicyViolation, "too much waits for this client to read it")
			return
		}
		for i, m := range queue {
			if at.send(ctx, m) != nil {
				c.putBack(queue[i:])
				return
			}
		}
		if last != nil {
			_ = at.socket.Close(last.code, last.text) // the peer may have disconnected
			return
		}
	}
}

// ping keeps proxies from closing a silent connection. It does not wait for the pong: a client that
// does not read does not answer either, and may come back.
func (s *Server) ping(ctx context.Context, at *connection) {
	s.background(func() {
		ctx, cancel := context.WithTimeout(ctx, pongTime)
		defer cancel()
		_ = at.socket.Ping(ctx)
	})
}

func (at *connection) send(ctx context.Context, m *message) error {
	list := []*message{m}
	switch {
	case at.text && len(m.buffers) > 0:
		list = []*message{m.instead(textOnly)}
	case m.small != nil && !at.large:
		list = m.small()
	}
	for _, m := range list {
		kind, frame := m.encode(at.v1)
		bounded, cancel := context.WithTimeout(ctx, sendTime)
		err := at.socket.Write(bounded, kind, frame)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// client is a reader of a kernel's messages. It outlives its connection: messages sent meanwhile
// are for the next connection with its session id.
type client struct {
	kernel  *kernel
	session string

	mu     sync.Mutex
	at     *connection // nil: there is none at the moment
	queue  []*message  // that are to be sent
	bytes  int
	news   chan struct{} // has an entry when there may be something to send
	behind bool          // it was over maxUnsent, and is to be closed
}

const (
	maxClients = 16       // of a kernel
	maxUnsent  = 48 << 20 // bytes that wait for one client: what a cell may put out, and more
)

// connected reports whether a client has a connection.
func (c *client) connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at != nil
}

// send queues a message.
func (c *client) send(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes += m.size(); c.bytes > c.kernel.server.unsent {
		c.queue, c.bytes, c.behind = nil, 0, true
	}
	if !c.behind {
		c.queue = append(c.queue, m)
	}
	c.wake()
}

func (c *client) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// dequeue returns the messages to send over a connection, and whether the client still uses it.
func (c *client) dequeue(at *connection) (queue []*message, mine, behind bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != at {
		return nil, false, false
	}
	queue, behind = c.queue, c.behind
	c.queue, c.bytes = nil, 0
	return queue, true, behind
}

// putBack returns messages that could not be sent to the front of the queue.
func (c *client) putBack(unsent []*message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range unsent {
		c.bytes += m.size()
	}
	c.queue = slices.Concat(unsent, c.queue)
	c.wake()
}

// join assigns a connection to the client with its session id, whose earlier connection is closed,
// or to a new client.
func (k *kernel) join(session string, at *connection) (*client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return nil, missing(k.id.UUID())
	}
	var c *client
	for _, known := range k.clients {
		if session != "" && known.session == session {
			c = known
		}
	}
	k.clients = slices.DeleteFunc(k.clients, func(known *client) bool { return known != c && !known.connected() })
	if c == nil {
		if len(k.clients) >= maxClients {
			return nil, &engine.Error{Op: "connect", Kind: engine.ErrBusy, RetryAfter: time.Second,
				Hint: "This kernel has as many connections as one may have."}
		}
		c = &client{kernel: k, session: session, news: make(chan struct{}, 1)}
		k.clients = append(k.clients, c)
	}
	c.mu.Lock()
	before := c.at
	c.at, c.behind = at, false
	c.wake()
	c.mu.Unlock()
	if before != nil {
		before.close(websocket.StatusNormalClosure, "another connection has this session_id")
	}
	k.touch()
	return c, nil
}

// leave removes a connection from its client. The last client of a kernel is kept for its next
// connection, and so is a client whose request runs.
func (c *client) leave(at *connection) {
	k := c.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	c.mu.Lock()
	mine := c.at == at
	if mine {
		c.at = nil
	}
	c.mu.Unlock()
	if !mine {
		return
	}
	others := slices.ContainsFunc(k.clients, func(other *client) bool { return other != c && other.connected() })
	if c.session == "" || others {
		k.clients = slices.DeleteFunc(k.clients, func(other *client) bool { return other == c })
	}
	k.touch()
}

// leave closes the connections of all clients.
func (k *kernel) leave(code websocket.StatusCode, why string) {
	k.mu.Lock()
	all := slices.Clone(k.clients)
	k.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		at := c.at
		c.mu.Unlock()
		if at != nil {
			at.close(code, why)
		}
	}
}

// publish sends a message to all clients.
func (k *kernel) publish(channel, kind string, parent json.RawMessage, content any) {
	k.tell(k.message(channel, kind, parent, content))
}

func (k *kernel) tell(m *message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clients {
		c.send(m)
	}
}

// message makes a message of the kernel's.
func (k *kernel) message(channel, kind string, parent json.RawMessage, content any) *message {
	id := engine.NewID().UUID()
	header, _ := json.Marshal(struct {
		ID       string `json:"msg_id"`
		Type     string `json:"msg_type"`
		Session  string `json:"session"`
		Username string `json:"username"`
		Date     stamp  `json:"date"`
		Version  string `json:"version"`
	}{id, kind, k.id.UUID(), "kernel", stamp(time.Now()), "5.3"})
	return (&message{channel: channel, id: id, kind: kind, header: header, parent: parent,
		content: encode(content)}).limit()
}

// reply answers a request.
func (r *clientRequest) reply(kind string, content any) {
	r.from.send(r.from.kernel.message(r.channel, kind, r.header, content))
}
