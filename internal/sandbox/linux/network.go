package linux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// The proxy's socket is created in the sandbox's network namespace. No process accepts
// inside: the namespace stays as empty as every other.

// proxyBacklog bounds the connections that wait to be accepted.
const proxyBacklog = 512

// listen creates the proxy's socket in the calling thread's network namespace.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "proxy")
	address := &unix.SockaddrInet4{Port: executor.ProxyPort}
	copy(address.Addr[:], net.IPv4(127, 0, 0, 1).To4())
	if err = unix.Bind(fd, address); err == nil {
		err = unix.Listen(fd, proxyBacklog)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make the proxy's socket: %w", err)
	}
	return f, nil
}

// listenIn creates the proxy's socket in the network namespace of a process.
func listenIn(pidfd int) (f *os.File, err error) {
	err = executor.InThread(func() error {
		if err := unix.Setns(pidfd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		f, err = listen()
		return err
	})
	return f, err
}

// newNetwork creates a network namespace with loopback and the proxy's socket, for a
// sandbox that starts cold: no process of the program may run before the socket exists.
func newNetwork() (namespace, socket *os.File, err error) {
	err = executor.InThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if namespace, err = os.Open(image.ProcPath + "/thread-self/ns/net"); err != nil {
			return err
		}
		if err := loopbackUp(); err != nil {
			return err
		}
		socket, err = listen()
		return err
	})
	if err != nil && namespace != nil {
		namespace.Close()
		namespace = nil
	}
	return namespace, socket, err
}

// loopbackUp brings the loopback device of the thread's network namespace up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// Proxy implements Cell. The namespaces of a waiting sandbox are not reused afterwards.
func (w *cell) Proxy() (socket *os.File, err error) {
	if w.pidfd == 0 { // it starts cold
		w.network, socket, err = newNetwork()
		return socket, err
	}
	w.markDirty()
	return listenIn(w.pidfd)
}

// networkSteps enter the network namespace created for a sandbox, or bring up the
// loopback device of the one in which the sandbox was born.
func (s *sandbox) networkSteps() []spawn.Step {
	if s.network == nil {
		return s.loopback()
	}
	return []spawn.Step{spawn.Call("enter the network namespace", unix.SYS_SETNS, s.network, unix.CLONE_NEWNET)}
}

// networkFlag returns the clone flag for a new network namespace, 0 if one was created before.
func (s *sandbox) networkFlag() uintptr {
	if s.network == nil {
		return unix.CLONE_NEWNET
	}
	return 0
}

// dialTime bounds a connection attempt. On loopback an attempt takes longer only if the
// listener accepts no connections.
const dialTime = 2 * time.Second

// Dial implements Cell, with a socket of the sandbox's network namespace.
func (w *cell) Dial(port int) (*os.File, error) {
	w.pristine.Store(false)
	var four unix.SockaddrInet4
	copy(four.Addr[:], net.IPv4(127, 0, 0, 1).To4())
	var six unix.SockaddrInet6
	copy(six.Addr[:], net.IPv6loopback)
	four.Port, six.Port = port, port
	socket, err := connect(w.pidfd, unix.AF_INET, &four)
	if errors.Is(err, unix.ECONNREFUSED) {
		if socket, other := connect(w.pidfd, unix.AF_INET6, &six); other == nil {
			return socket, nil
		}
	}
	return socket, err
}

// connect creates a socket in the network namespace of an init, and connects it.
func connect(init, family int, address unix.Sockaddr) (*os.File, error) {
	var fd int
	err := executor.InThread(func() (err error) {
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
	n, err := executor.PollUntil(list, time.Now().Add(dialTime))
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
