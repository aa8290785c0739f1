package linux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// dialRequest connects to a port in the sandbox of the program in a held workspace.
type dialRequest struct {
	Held string
	Port int
}

// dialTime bounds a connection attempt. On loopback an attempt takes longer only if the
// listener accepts no connections.
const dialTime = 2 * time.Second

// dial sends back a connected socket of the sandbox's network namespace, which has only
// a loopback device.
func (e *executor) dial(l *link, r *dialRequest) error {
	if r.Port < 1 || r.Port > 65535 {
		return newFailure(engine.ErrInvalid, fmt.Sprintf("%d is no port", r.Port))
	}
	at, leave, err := e.standingIn(r.Held)
	if err != nil {
		return err
	}
	defer leave()
	var four unix.SockaddrInet4
	copy(four.Addr[:], net.IPv4(127, 0, 0, 1).To4())
	var six unix.SockaddrInet6
	copy(six.Addr[:], net.IPv6loopback)
	four.Port, six.Port = r.Port, r.Port
	var socket *os.File
	err = e.gate.through(at.sandbox.request.Owner, func() (err error) {
		if socket, err = connect(at.pidfd, unix.AF_INET, &four); errors.Is(err, unix.ECONNREFUSED) {
			var other error
			if socket, other = connect(at.pidfd, unix.AF_INET6, &six); other == nil {
				err = nil
			}
		}
		return err
	})
	if busy, ok := errors.AsType[*failure](err); ok {
		return busy
	}
	if err != nil {
		return newFailure(engine.ErrConflict, fmt.Sprintf("port %d: %v", r.Port, err),
			"a program of the session must listen on this port of 127.0.0.1 or ::1")
	}
	defer socket.Close()
	return l.send(answer{Accepted: true}, socket)
}

// connect creates a socket in the network namespace of an init, and connects it.
func connect(init, family int, address unix.Sockaddr) (*os.File, error) {
	var fd int
	err := inThread(func() (err error) {
		if err = unix.Setns(init, unix.CLONE_NEWNET); err == nil {
			fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "port")
	if err := unix.Connect(fd, address); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		f.Close()
		return nil, err
	}
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := pollUntil(list, time.Now().Add(dialTime))
	if n == 0 && err == nil {
		err = unix.ETIMEDOUT
	}
	if err == nil {
		var number int
		if number, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); number != 0 {
			err = unix.Errno(number)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
