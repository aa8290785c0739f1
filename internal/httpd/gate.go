package httpd

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// gate bounds the number of connections: of all, and of one address before a request on them
// was authenticated. A connection that a handler has taken over, or that lingers, counts until it is closed.
//
// Where one would be too many, one makes room that waits for a request: it is idle, or its
// header is not complete. The largest group loses its oldest, so that whoever sends half a
// header on many connections only closes their own.
type gate struct {
	mu        sync.Mutex
	max, each int
	open      map[net.Conn]*gated
	known     *list.List // of *gated: those of authenticated callers that wait, oldest first
	addresses map[netip.Prefix]*pending
	lingering *lingering
}

// pending are the connections of an address on which no request was authenticated.
type pending struct {
	count   int
	waiting *list.List // of *gated, oldest first
}

// gated is a connection.
type gated struct {
	conn    net.Conn
	from    netip.Prefix  // zero: of a unix socket
	known   bool          // a caller was authenticated
	waiting *list.Element // nil: a request is served
}

func newGate(most int) *gate {
	return &gate{max: most, each: max(most/4, 2), open: map[net.Conn]*gated{}, known: list.New(),
		addresses: map[netip.Prefix]*pending{}, lingering: newLingering(most)}
}

type gateKey struct{}

// serve notes that a connection waits no more: its request has a complete header.
func (g *gate) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := originOf(r.Context()).conn; c != nil {
			g.mu.Lock()
			if o := g.open[c]; o != nil {
				g.unqueue(o)
			}
			g.mu.Unlock()
			r = r.WithContext(context.WithValue(r.Context(), gateKey{}, g))
		}
		next.ServeHTTP(w, r)
	})
}

// Authenticated notes that the caller of a request is known, for handlers that authenticate by
// themselves: its connection no longer counts for its address.
func Authenticated(ctx context.Context) {
	g, ok := ctx.Value(gateKey{}).(*gate)
	if !ok {
		return // a request of a test, without a connection
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.open[originOf(ctx).conn]; o != nil && !o.known {
		g.leave(o)
		o.known = true
	}
}

// state is the server's ConnState hook.
func (g *gate) state(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if victim := g.enter(c); victim != nil {
			victim.Close()
		}
	case http.StateActive, http.StateIdle:
		g.mu.Lock()
		defer g.mu.Unlock()
		if o := g.open[c]; o != nil {
			g.queue(o)
		}
	case http.StateClosed, http.StateHijacked:
		if _, counted := c.(*strictConn); !counted {
			g.closed(c)
		}
	}
}

// enter counts a new connection. It returns the one to close for it, if any: maybe itself.
func (g *gate) enter(c net.Conn) (victim net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := &gated{conn: c, from: network(address(c.RemoteAddr()))}
	of := g.addresses[o.from]
	var crowd *list.List
	switch {
	case o.from.IsValid() && of != nil && of.count >= g.each:
		crowd = of.waiting
	case len(g.open) >= g.max:
		crowd = g.known
		for _, of := range g.addresses {
			if of.waiting.Len() > crowd.Len() {
				crowd = of.waiting
			}
		}
	}
	if crowd != nil {
		oldest := crowd.Front()
		if oldest == nil {
			return c
		}
		victim = oldest.Value.(*gated).conn
		g.forget(victim)
	}
	if of = g.addresses[o.from]; of == nil {
		of = &pending{waiting: list.New()}
		g.addresses[o.from] = of
	}
	of.count++
	g.open[c] = o
	g.queue(o)
	return victim
}

func (g *gate) closed(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(c)
}

func (g *gate) forget(c net.Conn) {
	o := g.open[c]
	if o == nil {
		return
	}
	delete(g.open, c)
	g.unqueue(o)
	g.leave(o)
}

// leave takes a connection from those of its address.
func (g *gate) leave(o *gated) {
	if o.known {
		return
	}
	of := g.addresses[o.from]
	if of.count--; of.count == 0 {
		delete(g.addresses, o.from)
	}
}

// queue makes a connection the youngest of those that wait.
func (g *gate) queue(o *gated) {
	g.unqueue(o)
	o.waiting = g.crowd(o).PushBack(o)
}

func (g *gate) unqueue(o *gated) {
	if o.waiting != nil {
		g.crowd(o).Remove(o.waiting)
		o.waiting = nil
	}
}

func (g *gate) crowd(o *gated) *list.List {
	if o.known {
		return g.known
	}
	return g.addresses[o.from].waiting
}

// network returns what counts as one address: of IPv6 the network of one line.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
