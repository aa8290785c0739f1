package cli

import (
	"context"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// memoryListener is a network of one process: a listener without an address,
// whose connections nobody else can make. With it a command talks to an engine
// of its own exactly as it would to any service. Each connection is a pair of
// unix sockets, so that the kernel vouches for who is at its other end.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of the next connection.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Dial returns the client's end of a new connection.
func (l *memoryListener) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs, err := connPair()
	if err != nil {
		return nil, err
	}
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.closed:
		err = net.ErrClosed
	}
	ours.Close()
	theirs.Close()
	return nil, err
}

func connPair() (ours, theirs net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if ours, err = fileConn(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if theirs, err = fileConn(fds[1]); err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// fileConn takes over the socket, also when it fails.
func fileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "memory")
	defer f.Close() // FileConn has a copy of its own
	return net.FileConn(f)
}

// Close ends Accept. Connections that were made continue.
func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr names no place.
func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
