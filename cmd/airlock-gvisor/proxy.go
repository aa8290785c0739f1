package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
)

// listen has the sandbox listen at a port of its loopback, and passes connections on to a socket of the host, as
// PORT:PATH says, until that does not accept any more.
func (a *answerer) listen(proxy string) error {
	port, path, err := cut(proxy)
	if err != nil {
		return err
	}
	accept := boot.PortForwardOpts{ContainerID: id, Port: uint16(port), Accept: true}
	// The container's own method refuses before its program runs, which may connect at once.
	if err := a.made.Sandbox.PortForward(&accept); err != nil {
		return fmt.Errorf("listen for the program's proxy: %w", err)
	}
	await := accept
	await.Await = true
	a.proxy = proxy
	go func() {
		for {
			// The proxy gives up connections on which nothing comes.
			if err := a.made.Sandbox.PortForward(&await); err != nil {
				return // the sandbox has ended, or is being stored
			}
			next, err := connect(path)
			if err != nil {
				return // the grant has ended
			}
			one := accept
			one.FilePayload = urpc.FilePayload{Files: []*os.File{next}}
			err = a.made.Sandbox.PortForward(&one)
			next.Close()
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// stopListening ends listen, and all connections that it has passed on.
func (a *answerer) stopListening() error {
	return a.made.Sandbox.PortForward(&boot.PortForwardOpts{ContainerID: id, Close: true})
}

// connect connects to a socket of the host.
func connect(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
