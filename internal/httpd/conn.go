package httpd

import (
	"context"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// connOrigin describes the peer of a connection by the connection alone, so that no header
// can forge it.
type connOrigin struct {
	unix     bool
	peerUID  int // of a unix peer; -1: not known
	local    netip.Addr
	remote   netip.Addr
	loopback bool // the listener takes connections on loopback only
	conn     net.Conn
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
	o := connOrigin{peerUID: -1, conn: c}
	o.loopback, _ = ctx.Value(listenerKey{}).(bool)
	switch c := c.(type) {
	case *net.UnixConn:
		o.unix, o.peerUID = true, peerUID(c)
	default:
		o.local, o.remote = address(c.LocalAddr()), address(c.RemoteAddr())
	}
	return engine.WithFrom(context.WithValue(ctx, originKey{}, o), o.kind())
}

// kind returns the kind of the peer's address for the audit log. It is that of a proxy if one forwards the request.
func (o connOrigin) kind() string {
	switch {
	case o.unix:
		return engine.FromSocket
	case o.remote.IsLoopback():
		return engine.FromLoopback
	case o.remote.IsPrivate(), o.remote.IsLinkLocalUnicast():
		return engine.FromPrivate
	case o.remote.IsValid():
		return engine.FromPublic
	}
	return ""
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
