package httpd

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user id of the peer of a unix socket, or -1.
func peerUID(c *net.UnixConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	if err != nil {
		return -1
	}
	return uid
}
