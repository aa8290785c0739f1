package outbound

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server that a network has parted from us is given up soon.
func TestDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := Dialer(time.Second, time.Second).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	raw, err := peer.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cut := raw.Control(func(fd uintptr) { // the kernel drops what comes for it
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		program := unix.SockFprog{Len: 1, Filter: &drop}
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	if err = errors.Join(cut, err); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("are you there?")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
