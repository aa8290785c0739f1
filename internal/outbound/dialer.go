package outbound

import (
	"net"
	"time"
)

// Dialer returns a dialer for the operator's servers. A connection fails if the server does
// not acknowledge data or keep-alive probes for the time lost, for example after a crash of
// its machine. The kernel's default is a quarter of an hour.
func Dialer(connect, lost time.Duration) *net.Dialer {
	d := &net.Dialer{Timeout: connect, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: max(lost/2, time.Second),
		Interval: max(lost/5, time.Second), Count: 3}}
	failLost(d, lost)
	return d
}
