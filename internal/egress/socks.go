package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
)

// SOCKS version 5 (RFC 1928). Only CONNECT without authentication is supported; a library
// would have to be configured to leave the rest out.
const (
	socksVersion = 5

	socksConnect = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4

	socksSuccess     = 0
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksCommand     = 7
	socksAddressType = 8
)

// socks serves a SOCKS connection whose first byte was read.
func (p *proxy) socks(c *clientConn) {
	t, code, err := readSocks(c.TCPConn)
	if err != nil {
		c.run.begin(t).end(err)
		_ = c.answerSocks(code) // it is refused either way
		c.Close()
		return
	}
	p.tunnel(c, t, func() error { return c.answerSocks(socksSuccess) }, func(err error) {
		code := byte(socksUnreachable)
		if _, ok := errors.AsType[*refused](err); ok {
			code = socksNotAllowed
		}
		_ = c.answerSocks(code)
		c.Close()
	})
}

// answerSocks answers a request. It does not tell the address.
func (c *clientConn) answerSocks(code byte) error {
	_, err := c.writeRaw([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

// readSocks reads the choice of a method and the request.
func readSocks(c net.Conn) (t target, code byte, err error) {
	broken := func(err error) (target, byte, error) {
		return t, socksCommand, refuse("the SOCKS request cannot be read: %v", err)
	}
	var b [256]byte
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return broken(err)
	}
	if _, err := io.ReadFull(c, b[:b[0]]); err != nil {
		return broken(err)
	}
	if _, err := c.Write([]byte{socksVersion, 0}); err != nil { // no authentication
		return broken(err)
	}
	if _, err := io.ReadFull(c, b[:4]); err != nil {
		return broken(err)
	}
	if b[0] != socksVersion || b[1] != socksConnect {
		return t, socksCommand, refuse("SOCKS can only CONNECT here")
	}
	var host string
	switch b[3] {
	case socksIPv4, socksIPv6:
		size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[b[3]]
		if _, err := io.ReadFull(c, b[:size]); err != nil {
			return broken(err)
		}
		ip, _ := netip.AddrFromSlice(b[:size])
		host = ip.String()
	case socksName:
		if _, err := io.ReadFull(c, b[:1]); err != nil {
			return broken(err)
		}
		size := int(b[0])
		if _, err := io.ReadFull(c, b[:size]); err != nil {
			return broken(err)
		}
		host = string(b[:size])
	default:
		return t, socksAddressType, refuse("SOCKS asks for an unknown kind of address")
	}
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return broken(err)
	}
	t, err = parseTarget(net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(b[:2])))))
	return t, socksNotAllowed, err
}
