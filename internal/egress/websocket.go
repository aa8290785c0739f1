package egress

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 names it; nothing is kept secret by it
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
)

// permittedProtocol refuses requests whose answers the rules of a run do not bound: CONNECT and an
// upgrade make the rest of the connection something else, in which no request is read any more;
// TRACE and TRACK return the request, with the operator's headers. A WebSocket is not refused,
// since no request follows it.
func permittedProtocol(r *http.Request) error {
	for _, method := range []string{http.MethodConnect, http.MethodTrace, "TRACK"} {
		if strings.EqualFold(r.Method, method) {
			return refuse("%s is not allowed for runs", method)
		}
	}
	protocols := r.Header.Values("Upgrade")
	if len(protocols) == 0 {
		return nil
	}
	if to := strings.Join(protocols, ", "); !strings.EqualFold(to, "websocket") {
		return refuse("an upgrade to %.100q is not allowed for runs, only to websocket", to)
	}
	if key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key")); err != nil || len(key) != 16 ||
		r.Method != http.MethodGet || r.Header.Get("Sec-Websocket-Version") != "13" {
		return refuse("this is no opening handshake of a WebSocket (RFC 6455): it needs GET, Sec-WebSocket-Version 13 " +
			"and a Sec-WebSocket-Key")
	}
	return nil
}

// checkUpgrade checks that a server which switches protocols speaks WebSocket, and lets nothing
// but its frames pass to the server. report is called for the error of another byte.
func checkUpgrade(answer *http.Response, report func(error)) error {
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	key := answer.Request.Header.Get("Sec-Websocket-Key")
	conn, writable := answer.Body.(io.ReadWriteCloser)
	if !writable || answer.Header.Get("Sec-Websocket-Accept") != acceptOf(key) {
		err := refuse("the server's answer is not a WebSocket's")
		report(err)
		return err
	}
	answer.Body = &frameConn{ReadWriteCloser: conn, report: report}
	return nil
}

// acceptOf returns the proof of a server that it has read the key of a handshake.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frameConn is a connection to a server, to which a program may write the frames of WebSocket.
type frameConn struct {
	io.ReadWriteCloser
	report func(error)
	head   []byte // of a frame, as far as it has come
	left   uint64 // bytes of the payload that follow
}

func (c *frameConn) Write(b []byte) (int, error) {
	if err := c.follow(b); err != nil {
		c.report(err)
		c.Close()
		return 0, err
	}
	return c.ReadWriteCloser.Write(b)
}

// follow reads the heads of the frames in b.
func (c *frameConn) follow(b []byte) error {
	for len(b) > 0 {
		if c.left > 0 {
			n := min(c.left, uint64(len(b)))
			c.left, b = c.left-n, b[n:]
			continue
		}
		c.head, b = append(c.head, b[0]), b[1:]
		if len(c.head) == 2 && !isFrame(c.head[0], c.head[1]) {
			return refuse("what follows the handshake is not a frame of WebSocket")
		}
		if size, whole := payload(c.head); whole {
			c.head, c.left = c.head[:0], size
		}
	}
	return nil
}

// isFrame reports whether two bytes can begin a frame of a client: a known kind, the mask that
// clients have to use, no unknown extension, and no control frame in parts.
func isFrame(first, second byte) bool {
	kind, control := first&0x0f, first&0x08 != 0
	return kind&0x07 <= 2 && first&0x30 == 0 && second&0x80 != 0 && (!control || first&0x80 != 0 && second&0x7f <= 125)
}

// payload returns the size of a frame's payload, once its head is whole.
func payload(head []byte) (size uint64, whole bool) {
	const mask = 4
	if len(head) < 2 {
		return 0, false
	}
	switch short := head[1] & 0x7f; {
	case short < 126:
		return uint64(short), len(head) == 2+mask
	case short == 126 && len(head) == 4+mask:
		return uint64(binary.BigEndian.Uint16(head[2:])), true
	case short == 127 && len(head) == 10+mask:
		return binary.BigEndian.Uint64(head[2:]), true
	}
	return 0, false
}
