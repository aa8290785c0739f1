package outbound

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of Linux, which package syscall does not name.
const tcpUserTimeout = 18

// Dialer returns one for servers of the operator's. A server whose machine is gone, or
// that a network has parted from us, says nothing: a connection to it fails once it has not
// confirmed for the time lost what was sent, or that it is there. Without that the kernel
// takes a quarter of an hour to find out.
func Dialer(connect, lost time.Duration) *net.Dialer {
	d := &net.Dialer{Timeout: connect, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: max(lost/2, time.Second),
		Interval: max(lost/5, time.Second), Count: 3}}
	if runtime.GOOS != "linux" {
		return d
	}
	d.Control = func(network, _ string, c syscall.RawConn) (err error) {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		controlled := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(lost.Milliseconds()))
		})
		return errors.Join(controlled, err)
	}
	return d
}
