package e2e

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// link is a way to a server that can be cut. While it is, the kernel drops what comes for
// it without a word, as a network does that has lost a cable: who writes is not answered,
// who connects neither, and afterwards all goes on where it was.
type link struct {
	t        *testing.T
	listener *net.TCPListener
	to       string

	mu    sync.Mutex
	isCut bool
	conns map[*net.TCPConn]bool
	group sync.WaitGroup
}

// newLink returns a link to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // sockets of that take no filter
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{t: t, listener: l.(*net.TCPListener), to: to, conns: map[*net.TCPConn]bool{}}
	k.group.Go(k.accept)
	t.Cleanup(func() {
		l.Close()
		k.mu.Lock()
		for c := range k.conns {
			c.Close()
		}
		k.mu.Unlock()
		k.group.Wait()
	})
	return k
}

func (k *link) address() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		near, err := k.listener.AcceptTCP()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", k.to)
		if err != nil {
			_ = near.SetLinger(0) // as a server that is gone
			near.Close()
			continue
		}
		other := far.(*net.TCPConn)
		k.mu.Lock()
		for _, c := range []*net.TCPConn{near, other} {
			k.conns[c] = true
			k.set(c)
		}
		k.mu.Unlock()
		k.group.Go(func() { k.carry(other, near) })
		k.group.Go(func() { k.carry(near, other) })
	}
}

func (k *link) carry(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err == nil {
		_ = to.CloseWrite()
	} else {
		to.Close()
	}
	from.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, from)
}

func (k *link) cut()  { k.change(true) }
func (k *link) mend() { k.change(false) }

func (k *link) change(isCut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = isCut
	k.set(k.listener)
	for c := range k.conns {
		k.set(c)
	}
}

// set has a socket drop what comes, or no longer. The caller holds mu.
func (k *link) set(socket syscall.Conn) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // one that was closed has nothing to drop
		if !k.isCut {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) // there may be none
			return
		}
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		program := unix.SockFprog{Len: 1, Filter: &drop}
		if err := unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
			k.t.Errorf("a link cannot be cut: %v", err)
		}
	})
}
