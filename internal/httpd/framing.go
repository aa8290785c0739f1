package httpd

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// A strictListener makes net/http answer 400 to two things that RFC 9112 lets a server
// refuse, and that net/http accepts: a header line that ends with a bare LF, and a folded
// header line (obs-fold). A proxy in front may read such a header differently, so that the
// two disagree where a request ends and who sent it.
type strictListener struct {
	net.Listener
	gate *gate
}

// Accept returns a connection whose headers are checked if it is TCP: there is no proxy
// before the unix socket.
func (l strictListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		return &strictConn{TCPConn: tcp, gate: l.gate}, nil
	}
	return c, err
}

// strictConn follows the framing of the requests that are read from it.
// Everything but Read, Close and CloseWrite is the TCP connection's own, ReadFrom with its sendfile
// included.
type strictConn struct {
	*net.TCPConn
	gate    *gate
	framing framing
	refusal string // net/http reads it in place of the rest

	answered atomic.Bool // before the end of the request
}

// CloseWrite is called by net/http after an answer that it has sent before it had the whole
// request, and Close half a second later.
func (c *strictConn) CloseWrite() error {
	c.answered.Store(true)
	return c.TCPConn.CloseWrite()
}

// Close implements net.Conn. The connection lingers if the client may still send.
func (c *strictConn) Close() error {
	if c.answered.Swap(false) && c.gate.lingering.add(c) {
		return nil
	}
	return c.end()
}

// end closes the connection. Of one that lingers, or that a handler has taken over, the server
// does not learn the end.
func (c *strictConn) end() error {
	err := c.TCPConn.Close()
	c.gate.closed(c)
	return err
}

// Read implements net.Conn. After a header that is not strict, it returns a line that
// net/http refuses, and then io.EOF.
func (c *strictConn) Read(p []byte) (int, error) {
	if c.framing.broken {
		n := copy(p, c.refusal)
		if c.refusal = c.refusal[n:]; n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	n, err := c.TCPConn.Read(p)
	valid := c.framing.follow(p[:n])
	if !c.framing.broken {
		return n, err
	}
	refusal := "\x01\r\n\r\n"
	n = copy(p[valid:], refusal)
	c.refusal = refusal[n:]
	return valid + n, nil
}

// framing is the position of a stream in its requests.
type framing struct {
	part    part
	started bool   // the request line was read
	line    []byte // the beginning of a line, at most maxField bytes
	cr      bool   // the last byte of the line is a CR
	length  int64  // of the body, by the header
	last    bool   // the connection ends with this request
	skip    int64  // bytes of the body that were not read yet
	broken  bool
}

type part int

const (
	inHeader part = iota
	inBody
	unframed // no request follows
)

// maxField is more than a valid Content-Length takes.
const maxField = 128

// follow returns how many bytes are valid: all, unless the framing is broken.
func (f *framing) follow(p []byte) int {
	for i := 0; i < len(p); {
		switch f.part {
		case unframed:
			return len(p)
		case inBody:
			n := min(f.skip, int64(len(p)-i))
			i += int(n)
			if f.skip -= n; f.skip == 0 {
				f.part = inHeader
			}
			continue
		}
		if f.started && len(f.line) == 0 && (p[i] == ' ' || p[i] == '\t') {
			f.broken = true
			return i
		}
		rest, _, ended := bytes.Cut(p[i:], []byte("\n"))
		if len(rest) > 0 {
			f.cr = rest[len(rest)-1] == '\r'
			f.line = append(f.line, rest[:min(len(rest), maxField-len(f.line))]...)
		}
		if i += len(rest); !ended {
			return i
		}
		if f.broken = !f.cr || !f.endLine(strings.TrimSuffix(string(f.line), "\r")); f.broken {
			return i
		}
		f.line, f.cr = f.line[:0], false
		i++
	}
	return len(p)
}

// endLine reads a complete line, and returns false if the framing is broken.
func (f *framing) endLine(line string) bool {
	switch {
	case line != "" && f.started:
		return f.readField(line)
	case line != "":
		f.started = true
	case !f.started: // an empty line before a request: net/http refuses it
	case f.last:
		f.part = unframed
	case f.length > 0:
		*f = framing{line: f.line, part: inBody, skip: f.length}
	default:
		*f = framing{line: f.line}
	}
	return true
}

// readField looks for the fields that determine the end of the body. The middleware progress
// ends a connection after a chunked body, and after a request for another protocol, whose
// bytes are not HTTP; net/http ends it after a length that it cannot read.
func (f *framing) readField(line string) bool {
	name, value, _ := strings.Cut(line, ":")
	switch strings.ToLower(name) {
	case "content-length":
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 62)
		f.length, f.last = int64(n), f.last || err != nil
		return len(line) < maxField-1
	case "transfer-encoding", "upgrade":
		f.last = true
	}
	return true
}
