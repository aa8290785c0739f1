package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// tunnel serves a CONNECT or a SOCKS request. It inspects the first bytes of the program:
// TLS has to ask for the allowed name, and HTTP is parsed request by request. Port 443 is
// TLS and port 80 HTTP; other protocols need a port that a rule names.
func (p *proxy) tunnel(c *clientConn, t target, accept func() error, refuseWith func(error)) {
	contact := c.run.addContact(t)
	if err := permitted(c.run.grant, t); err != nil {
		contact.end(err)
		refuseWith(err)
		return
	}
	if t.port == 80 || c.run.inspected(t) {
		p.readRequests(c, t, contact, accept)
		return
	}
	server, err := contact.connect(c.run.life)
	if err != nil {
		contact.end(err)
		refuseWith(err)
		return
	}
	defer server.Close()
	stop := context.AfterFunc(c.run.life, func() { server.Close() })
	defer stop()
	if err := accept(); err != nil {
		contact.end(nil)
		c.Close()
		return
	}
	r := &relay{contact: contact, client: c, server: server}
	r.touch()
	if t.port != 443 {
		p.carryAny(r)
		return
	}
	if err = r.sniff(); err == nil {
		err = checkHello(c.early, t)
	}
	if err != nil {
		c.Close()
		contact.end(err)
		return
	}
	r.finish(r.back(), nil)
}

// readRequests hands a tunnel to the HTTP server.
func (p *proxy) readRequests(c *clientConn, t target, contact *contact, accept func() error) {
	err := accept()
	if err == nil && c.run.inspected(t) {
		err = p.decrypt(c, t)
	}
	if err != nil {
		contact.end(err)
		c.Close()
		return
	}
	contact.forget() // the HTTP server's connections are contacts of their own
	c.fixed = &t
	p.serveHTTP(c)
}

// carryAny carries a tunnel to a port that a rule names. The server may speak first.
func (p *proxy) carryAny(r *relay) {
	back := r.back()
	err := r.sniff()
	switch {
	case err != nil:
	case isHello(r.client.early):
		err = checkHello(r.client.early, r.contact.target)
	case isRequest(r.client.early) && r.contact.received.Load() == 0:
		// The HTTP server makes a connection of its own.
		r.handed.Store(true)
		r.contact.forget()
		r.server.Close()
		<-back //nolint:errcheck // nothing has been received
		t := r.contact.target
		r.client.fixed = &t
		p.serveHTTP(r.client)
		return
	}
	r.finish(back, err)
}

// relay copies between a program and a server.
type relay struct {
	contact *contact
	client  *clientConn
	server  *net.TCPConn
	last    atomic.Int64 // when there was a byte, in Unix nanoseconds
	handed  atomic.Bool  // the HTTP server has the program's side now
}

func (r *relay) touch() { r.last.Store(time.Now().UnixNano()) }

// mostEarly bounds the first bytes of a program that are inspected. A hello may have 64 KiB;
// those of real programs have less than 2.
const mostEarly = 20 << 10

// sniff reads the first bytes of a program until their protocol is known.
func (r *relay) sniff() error {
	c := r.client
	wait := c.run.proxy.waits.header
	if p := r.contact.target.port; p != 443 {
		wait = c.run.proxy.waits.idle // the server speaks first
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	buffer := make([]byte, 4<<10)
	for len(c.early) == 0 || isHello(c.early) && !wholeHello(c.early) || maybeRequest(c.early) {
		if len(c.early) > mostEarly {
			return refuse("the beginning of the connection is too long")
		}
		n, err := c.stream.Read(buffer)
		c.early = append(c.early, buffer[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return refuse("the program did not say within %v what it wants", wait)
		}
		if errors.Is(err, io.EOF) && len(c.early) == 0 {
			return nil
		}
		if err != nil {
			return nil //nolint:nilerr // the bytes so far are forwarded; there are no more
		}
	}
	return nil
}

// isHello reports whether bytes begin a TLS handshake.
func isHello(b []byte) bool { return len(b) > 0 && b[0] == 22 }

// wholeHello reports whether bytes hold a complete ClientHello, in one or more records.
func wholeHello(b []byte) bool {
	var hello []byte
	for len(b) >= 5 {
		n := int(b[3])<<8 | int(b[4])
		if b[0] != 22 || n == 0 {
			return true // not a hello: it will be refused
		}
		hello = append(hello, b[5:min(len(b), 5+n)]...)
		if len(hello) >= 4 && len(hello) >= 4+(int(hello[1])<<16|int(hello[2])<<8|int(hello[3])) {
			return true
		}
		if len(b) < 5+n {
			return false
		}
		b = b[5+n:]
	}
	return false
}

var methods = []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "TRACE ", "CONNECT ", "PRI "}

// isRequest reports whether bytes begin an HTTP request, and maybeRequest whether more bytes
// could make them one.
func isRequest(b []byte) bool {
	text := strings.ToUpper(strings.TrimLeft(string(b[:min(len(b), 64)]), "\r\n"))
	return slices.ContainsFunc(methods, func(m string) bool { return strings.HasPrefix(text, m) })
}

func maybeRequest(b []byte) bool {
	text := strings.ToUpper(strings.TrimLeft(string(b[:min(len(b), 64)]), "\r\n"))
	return slices.ContainsFunc(methods, func(m string) bool { return len(text) < len(m) && strings.HasPrefix(m, text) })
}

// Extensions of a ClientHello that can hide another name.
const (
	extensionECH  = 0xfe0d
	extensionESNI = 0xffce
)

// errSeen ends a handshake after its hello.
var errSeen = errors.New("seen")

// checkHello compares the name in a ClientHello with the allowed one. It uses the parser of
// crypto/tls.
func checkHello(b []byte, t target) error {
	if !isHello(b) {
		return refuse("what goes to %s is not TLS", t)
	}
	var hello *tls.ClientHelloInfo
	server := tls.Server(&helloConn{Reader: bytes.NewReader(b)}, &tls.Config{
		MinVersion: tls.VersionTLS10, //nolint:gosec // it is only read; the server decides
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = h
			return nil, errSeen
		},
	})
	if err := server.Handshake(); hello == nil {
		return refuse("what goes to %s is not a TLS hello: %v", t, err)
	}
	for _, extension := range hello.Extensions {
		if extension == extensionECH || extension == extensionESNI {
			return refuse("TLS hides the name of the server (ECH), so that it cannot be compared with %s", t.host)
		}
	}
	if t.isAddress() && hello.ServerName == "" {
		return nil
	}
	name, err := hostName(hello.ServerName)
	if err != nil || name != t.host {
		return refuse("TLS asks for %.100q on a connection to %s", hello.ServerName, t)
	}
	return nil
}

// helloConn is a connection for crypto/tls with the bytes of a hello.
type helloConn struct {
	io.Reader
	net.Conn
}

func (c *helloConn) Read(b []byte) (int, error)       { return c.Reader.Read(b) }
func (c *helloConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *helloConn) Close() error                     { return nil }
func (c *helloConn) SetDeadline(time.Time) error      { return nil }
func (c *helloConn) SetReadDeadline(time.Time) error  { return nil }
func (c *helloConn) SetWriteDeadline(time.Time) error { return nil }

// back starts to copy from the server to the program.
func (r *relay) back() <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- r.copy(r.client.stream, r.server, &r.contact.received) }()
	return ended
}

// finish copies from the program to the server, unless there was an error, waits for the
// other direction, and ends the connection.
func (r *relay) finish(back <-chan error, err error) {
	if err == nil {
		err = r.forward()
	}
	if err != nil {
		r.server.Close()
	}
	if other := <-back; err == nil {
		err = other
	}
	r.client.Close()
	r.contact.end(err)
}

// forward sends the bytes that were read ahead, and then the rest.
func (r *relay) forward() error {
	early := r.client.early
	r.client.early = nil
	if len(early) > 0 {
		if err := r.pass(r.server, early, &r.contact.sent); err != nil {
			return err
		}
	}
	return r.copy(r.server, r.client.stream, &r.contact.sent)
}

// relayBuffers shares the buffers of all connections: an idle connection has none.
type relayBuffers struct{}

const relaySize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([relaySize]byte) }}

// Get and Put implement httputil.BufferPool.
func (relayBuffers) Get() []byte  { return buffers.Get().(*[relaySize]byte)[:] }
func (relayBuffers) Put(b []byte) { buffers.Put((*[relaySize]byte)(b)) }

// pass writes a piece.
func (r *relay) pass(to stream, b []byte, counter *atomic.Int64) error {
	if err := r.contact.run.count(len(b)); err != nil {
		r.client.Close()
		return err
	}
	_ = to.SetWriteDeadline(time.Now().Add(r.client.run.proxy.waits.idle))
	n, err := to.Write(b)
	counter.Add(int64(n))
	r.touch()
	if err != nil {
		return errGone
	}
	return nil
}

// errIdle is the error of a connection without bytes for the idle time.
var errIdle = errors.New("the connection was idle for too long")

// errGone ends a relay after one side closed. It is a normal end.
var errGone = errors.New("one side has left")

// copy copies in one direction until its end, and passes the end on. It takes a buffer only
// when bytes are there.
func (r *relay) copy(to, from stream, counter *atomic.Int64) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	began, idle := time.Now(), r.client.run.proxy.waits.idle
	for {
		var buffer *[relaySize]byte
		var n int
		var failed error
		_ = from.SetReadDeadline(time.Now().Add(idle))
		waited := raw.Read(func(fd uintptr) bool {
			buffer = buffers.Get().(*[relaySize]byte)
			for {
				if n, failed = unix.Read(int(fd), buffer[:]); !errors.Is(failed, unix.EINTR) {
					break
				}
			}
			if errors.Is(failed, unix.EAGAIN) {
				buffers.Put(buffer)
				buffer = nil
				return false
			}
			return true
		})
		if errors.Is(waited, os.ErrDeadlineExceeded) {
			if time.Since(time.Unix(0, r.last.Load())) < idle && time.Since(began) < longestLife {
				continue
			}
			r.client.Close()
			r.server.Close()
			return errIdle
		}
		if waited == nil && failed == nil && n > 0 {
			err = r.pass(to, buffer[:n], counter)
		}
		if buffer != nil {
			buffers.Put(buffer)
		}
		switch {
		case r.handed.Load():
			return nil
		case waited != nil || failed != nil || errors.Is(err, errGone):
			_ = r.client.CloseWrite()
			_ = to.CloseWrite()
			_ = from.CloseRead()
			return nil //nolint:nilerr // a closed side is a normal end
		case err != nil:
			return err
		case n == 0:
			_ = to.CloseWrite()
			return nil
		}
	}
}
