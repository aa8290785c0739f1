package jupyter

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// client is who reads what a kernel says. It outlives its connection: what is said
// in the meantime is for the next one with its session id.
type client struct {
	kernel  *kernel
	session string

	mu     sync.Mutex
	at     *connection // nil: there is none at the moment
	queue  []*message  // that are to be sent
	bytes  int
	news   chan struct{} // has an entry when there may be something to send
	behind bool          // it was over mostUnsent, and is to be closed
}

const (
	mostClients = 16       // of a kernel
	mostUnsent  = 48 << 20 // bytes that wait for one client: what a cell may put out, and more
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

// take returns the messages that are to be sent over a connection, and whether it is
// still the client's.
func (c *client) take(at *connection) (queue []*message, mine, behind bool) {
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

// join makes a connection that of a client: of the one with its session id, who may
// have another one, which is closed; or of a new one.
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
		if len(k.clients) >= mostClients {
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
		before.close(closeNormal, "another connection has this session_id")
	}
	k.touch()
	return c, nil
}

// leave notes that a connection has ended. The last client of a kernel is kept for
// its next one; so is one whose request runs.
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
func (k *kernel) leave(code closeCode, why string) {
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

// publish tells all clients.
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
func (r *asked) reply(kind string, content any) {
	r.from.send(r.from.kernel.message(r.channel, kind, r.header, content))
}
