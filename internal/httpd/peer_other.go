//go:build !linux

package httpd

import "net"

// peerUID knows no peer here: a caller on a unix socket needs a key.
func peerUID(*net.UnixConn) int { return -1 }
