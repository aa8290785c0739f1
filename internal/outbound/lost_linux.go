package outbound

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of Linux, which package syscall does not name.
const tcpUserTimeout = 18

// failLost has a dialer's connections fail if data is not acknowledged for a time.
func failLost(d *net.Dialer, lost time.Duration) {
	d.Control = func(network, _ string, c syscall.RawConn) (err error) {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		controlled := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(lost.Milliseconds()))
		})
		return errors.Join(controlled, err)
	}
}
