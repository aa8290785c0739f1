//go:build !linux

package outbound

import (
	"net"
	"time"
)

// failLost does nothing: only keep-alive probes notice a lost connection on other systems.
func failLost(*net.Dialer, time.Duration) {}
