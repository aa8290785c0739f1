package gvisor

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// Proxy implements Cell. A sandbox has a network stack of its own, in which the executor cannot open a socket: its
// kernel listens at the proxy's port, and airlock-gvisor passes connections on to the socket that is returned.
func (w *cell) Proxy() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	at := path.Join(storedPath, "proxy-"+engine.NewID().String())
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: at}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make the socket of a proxy: %w", err)
	}
	w.proxy = at
	f := os.NewFile(uintptr(fd), at)
	if err := unix.Listen(fd, backlog); err != nil {
		f.Close()
		return nil, err
	}
	if w.command == nil { // it starts cold
		return f, nil
	}
	if _, err := w.requests.ask(request{Proxy: w.proxyArgument()}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// backlog bounds the connections that wait for the service.
const backlog = 128

func (w *cell) proxyArgument() string { return fmt.Sprintf("%d:%s", executor.ProxyPort, w.proxy) }
