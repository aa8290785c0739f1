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

// Dialer returns a dialer for the operator's servers. A connection fails if the server does
// not acknowledge data or keep-alive probes for the time lost, for example after a crash of
// its machine. The kernel's default is a quarter of an hour.
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
