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
	t, code, err := readSocks(c.stream)
	if err != nil {
		c.run.addContact(t).end(err)
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
	var buffer [256]byte
	read := func(n int) []byte { // zeros after an error
		if err == nil {
			_, err = io.ReadFull(c, buffer[:n])
		}
		if err != nil {
			clear(buffer[:])
		}
		return buffer[:n]
	}
	read(int(read(1)[0])) // methods
	if err == nil {
		_, err = c.Write([]byte{socksVersion, 0}) // no authentication
	}
	request := [4]byte(read(4))
	var host string
	switch kind := request[3]; {
	case err != nil:
	case request[0] != socksVersion || request[1] != socksConnect:
		return t, socksCommand, refuse("SOCKS can only CONNECT here")
	case kind == socksIPv4, kind == socksIPv6:
		ip, _ := netip.AddrFromSlice(read(map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]))
		host = ip.String()
	case kind == socksName:
		host = string(read(int(read(1)[0])))
	default:
		return t, socksAddressType, refuse("SOCKS asks for an unknown kind of address")
	}
	b := read(2)
	if err != nil {
		return t, socksCommand, refuse("the SOCKS request cannot be read: %v", err)
	}
	t, err = parseTarget(net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(b)))))
	return t, socksNotAllowed, err
}
