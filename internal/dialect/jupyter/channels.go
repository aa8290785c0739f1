package jupyter

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

type closeCode = websocket.StatusCode

const (
	closeNormal    = websocket.StatusNormalClosure
	closeGoingAway = websocket.StatusGoingAway
)

const (
	mostIncoming = 20 << 20 // bytes of a message of a client's
	pingEvery    = 30 * time.Second
	pongTime     = 20 * time.Second
	// sendTime is how long a message may wait for a client to read. Those of ag2 do
	// not read while their model thinks, so that it is no shorter.
	sendTime = 30 * time.Minute
)

// connection is a WebSocket of a client's.
type connection struct {
	socket *websocket.Conn
	v1     bool
	large  bool // it takes frames of more than smallFrame
	end    context.CancelFunc
	ending chan reason // has an entry when it is to be closed
}

// reason is why a connection is closed.
type reason struct {
	code closeCode
	text string
}

// close has a connection closed. What waits for its client is sent before, if that
// takes it in time.
func (at *connection) close(code closeCode, text string) {
	select {
	case at.ending <- reason{code, text}:
		time.AfterFunc(closeTime, at.end)
	default: // it is being closed
	}
}

// closeTime is for a client to take what waits for it when its connection is closed.
const closeTime = 5 * time.Second

// channels serves the WebSocket of a kernel.
func (s *Server) channels(w http.ResponseWriter, r *http.Request) error {
	k, err := s.find(r.Context(), s.Caller(r), r.PathValue("id"))
	if err != nil {
		return err
	}
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
	socket.SetReadLimit(mostIncoming)
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	at := &connection{socket: socket, v1: socket.Subprotocol() == subprotocol, end: cancel, ending: make(chan reason, 1)}
	at.large = at.v1 || strings.Contains(r.UserAgent(), "Tornado")
	c, err := k.join(r.URL.Query().Get("session_id"), at)
	if err != nil {
		_, why := describe(err)
		_ = socket.Close(websocket.StatusTryAgainLater, why) // the peer may be gone
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
	return r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" || r.URL.Query().Get(QueryKey) != ""
}

// QueryKey is the parameter of the query in which clients show their token.
const QueryKey = "token"

// read takes the messages of a client until its connection ends. What is no message
// is left out, as the original does.
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
		c.kernel.take(&asked{r, c})
	}
}

// write sends what is there for a client until its connection ends or is no longer
// its own.
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
		queue, mine, behind := c.take(at)
		if !mine && last == nil {
			c.wake() // what the news was is for the client's other connection
			select {
			case why := <-at.ending: // it says so
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
			_ = at.socket.Close(last.code, last.text) // the peer may be gone
			return
		}
	}
}

// ping keeps proxies from cutting a connection that is silent. Its answer is not
// waited for: who does not read does not answer either, and may come back.
func (s *Server) ping(ctx context.Context, at *connection) {
	s.background(func() {
		ctx, cancel := context.WithTimeout(ctx, pongTime)
		defer cancel()
		_ = at.socket.Ping(ctx)
	})
}

func (at *connection) send(ctx context.Context, m *message) error {
	list := []*message{m}
	if m.small != nil && !at.large {
		list = m.small()
	}
	for _, m := range list {
		kind, frame, err := m.encode(at.v1)
		if err != nil {
			continue // it is no JSON, so nobody could read it
		}
		bounded, cancel := context.WithTimeout(ctx, sendTime)
		err = at.socket.Write(bounded, kind, frame)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
