package httpd

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// connOrigin describes the peer of a connection by the connection alone, so that no header
// can forge it.
type connOrigin struct {
	unix     bool
	peerUID  int // of a unix peer; -1: not known
	local    netip.Addr
	remote   netip.Addr
	loopback bool        // the listener takes connections on loopback only
	conn     *strictConn // nil: not TCP
}

type originKey struct{}
type listenerKey struct{}

func originOf(ctx context.Context) connOrigin {
	o, ok := ctx.Value(originKey{}).(connOrigin)
	if !ok {
		o.peerUID = -1
	}
	return o
}

func withListener(l net.Listener) context.Context {
	return context.WithValue(context.Background(), listenerKey{}, isLoopback(l.Addr()))
}

func withOrigin(ctx context.Context, c net.Conn) context.Context {
	o := connOrigin{peerUID: -1}
	o.loopback, _ = ctx.Value(listenerKey{}).(bool)
	switch c := c.(type) {
	case *net.UnixConn:
		o.unix, o.peerUID = true, peerUID(c)
	default:
		o.conn, _ = c.(*strictConn)
		o.local, o.remote = address(c.LocalAddr()), address(c.RemoteAddr())
	}
	return context.WithValue(ctx, originKey{}, o)
}

// peerUID returns the user id of the peer of a unix socket, or -1.
func peerUID(c *net.UnixConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	if err != nil {
		return -1
	}
	return uid
}

func address(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

func isLoopback(a net.Addr) bool { return address(a).IsLoopback() }

// gate bounds the number of connections. When it is full, it closes the connection that has
// been idle for longest; when none is idle, it closes the new one.
type gate struct {
	mu   sync.Mutex
	max  int
	open map[net.Conn]*list.Element // an element only while idle
	idle *list.List                 // of net.Conn, oldest first
}

func newGate(max int) *gate {
	return &gate{max: max, open: map[net.Conn]*list.Element{}, idle: list.New()}
}

// state is the server's ConnState hook.
func (g *gate) state(c net.Conn, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.open[c]; e != nil {
		g.idle.Remove(e)
		g.open[c] = nil
	}
	switch state {
	case http.StateNew:
		if len(g.open) >= g.max && !g.evict() {
			c.Close()
			return
		}
		g.open[c] = nil
	case http.StateIdle:
		g.open[c] = g.idle.PushBack(c)
	case http.StateClosed, http.StateHijacked:
		delete(g.open, c)
	}
}

func (g *gate) evict() bool {
	oldest := g.idle.Front()
	if oldest == nil {
		return false
	}
	c := g.idle.Remove(oldest).(net.Conn)
	delete(g.open, c)
	c.Close()
	return true
}
