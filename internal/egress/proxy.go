package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// proxy serves programs: HTTP with CONNECT, and SOCKS5, on one port.
type proxy struct {
	network *network
	waits   waits
	roots   *x509.CertPool // of servers, for inspection
	http    *http.Server
	waiting chan net.Conn // for http
	closed  chan struct{}
	open    atomic.Int32
}

// waits are the timeouts of peers.
type waits struct {
	header time.Duration // until a program has sent its request
	idle   time.Duration // without a byte in either direction
}

// stream is a TCP connection or, of a program with a kernel of its own, one of a Unix socket.
type stream interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// clientConn is a connection from a program.
type clientConn struct {
	stream
	run   *run
	early []byte // read ahead
	stop  func() bool

	secure net.Conn // the same, decrypted; nil: it is not inspected
	fixed  *target  // where it leads, after a CONNECT; nil: each request names its target
	https  bool
	closed atomic.Bool
}

func (c *clientConn) Read(b []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Read(b)
	}
	return c.readRaw(b)
}

func (c *clientConn) readRaw(b []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(b, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.stream.Read(b)
}

func (c *clientConn) Write(b []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Write(b)
	}
	return c.writeRaw(b)
}

// ReadFrom and WriteTo keep io.Copy from those of the connection below TLS.
func (c *clientConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{c}, r) }
func (c *clientConn) WriteTo(w io.Writer) (int64, error)  { return io.Copy(w, struct{ io.Reader }{c}) }

// writeRaw fails when the program does not read for the idle time.
func (c *clientConn) writeRaw(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.run.proxy.waits.idle))
	return c.stream.Write(b)
}

func (c *clientConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop()
	c.run.open.Add(-1)
	c.run.proxy.open.Add(-1)
	return c.stream.Close()
}

// rawConn is the connection below TLS.
type rawConn struct{ *clientConn }

func (r rawConn) Read(b []byte) (int, error)  { return r.readRaw(b) }
func (r rawConn) Write(b []byte) (int, error) { return r.writeRaw(b) }

type clientKey struct{}

func newProxy(n *network, roots *x509.CertPool, w waits) *proxy {
	p := &proxy{network: n, waits: w, roots: roots, waiting: make(chan net.Conn), closed: make(chan struct{})}
	p.http = &http.Server{
		Handler: p, ReadHeaderTimeout: w.header, IdleTimeout: w.idle, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, c)
		},
	}
	go func() { _ = p.http.Serve(p) }()
	return p
}

// Accept, Close and Addr make the proxy the listener of its HTTP server.
func (p *proxy) Accept() (net.Conn, error) {
	select {
	case c := <-p.waiting:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *proxy) Close() error   { return nil }
func (p *proxy) Addr() net.Addr { return &net.TCPAddr{} }

// shut ends the HTTP server.
func (p *proxy) shut() {
	close(p.closed)
	p.http.Close()
}

// serveHTTP hands a connection to the HTTP server.
func (p *proxy) serveHTTP(c *clientConn) {
	_ = c.SetDeadline(time.Time{})
	select {
	case p.waiting <- c:
	case <-c.run.life.Done():
		c.Close()
	}
}

// greet detects the protocol of a connection.
func (p *proxy) greet(c *clientConn) {
	_ = c.SetReadDeadline(time.Now().Add(p.waits.header))
	var one [1]byte
	if _, err := io.ReadFull(c.stream, one[:]); err != nil {
		c.Close()
		return
	}
	if one[0] == socksVersion {
		p.socks(c)
		return
	}
	c.early = one[:]
	p.serveHTTP(c)
}

// ServeHTTP answers one request of a program.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(clientKey{}).(*clientConn)
	if !ok {
		http.Error(w, "internal fault", http.StatusInternalServerError)
		return
	}
	if r.Method == http.MethodConnect && c.fixed == nil {
		p.connect(w, r, c)
		return
	}
	t, err := requestTarget(r, c)
	if err == nil {
		err = permittedRequest(c.run.grant, t, r, c.https)
	}
	if err == nil {
		err = permittedProtocol(r)
	}
	if err != nil {
		contact := c.run.addContact(t)
		contact.end(err)
		w.Header().Set("Connection", "close")
		fail(w, err)
		return
	}
	secret, err := c.run.seal(r.Header, t, c.https)
	if err != nil {
		c.run.addContact(t).end(err)
		fail(w, err)
		return
	}
	// The answer may come before the end of the request, or before the transport has read the end. Without this
	// the server closes the body at the first write, and the transport then cuts the answer off.
	_ = http.NewResponseController(w).EnableFullDuplex()
	if secret != nil {
		w = &earlyWriter{w, secret}
	}
	scheme := "http"
	if c.https {
		scheme = "https"
	}
	forward := &httputil.ReverseProxy{
		Transport: c.run.plain, FlushInterval: -1, ErrorLog: p.http.ErrorLog, BufferPool: relayBuffers{},
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host, out.Out.Host = scheme, t.String(), ""
			if port := t.port; scheme == "http" && port == 80 || scheme == "https" && port == 443 {
				out.Out.Host = hostHeader(t.host)
			}
			if secret != nil {
				secret.set(out.Out.Header)
			}
			c.run.inject(out.Out, t, scheme)
		},
		ModifyResponse: func(answer *http.Response) error {
			report := func(err error) { c.run.addContact(t).end(err) }
			if err := checkUpgrade(answer, report); err != nil || secret == nil {
				return err
			}
			err := secret.clean(answer)
			if err != nil {
				report(err)
			}
			return err
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) },
	}
	forward.ServeHTTP(w, r)
}

func hostHeader(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, err error) {
	if r, ok := errors.AsType[*refused](err); ok {
		http.Error(w, "airlock: network_denied: "+r.reason, http.StatusForbidden)
		return
	}
	http.Error(w, "airlock: "+err.Error(), http.StatusBadGateway)
}

// requestTarget returns the target of a request. In a tunnel it must be the tunnel's.
func requestTarget(r *http.Request, c *clientConn) (target, error) {
	port, host := "80", r.Host
	if c.https {
		port = "443"
	}
	if c.fixed == nil {
		if !r.URL.IsAbs() || r.URL.Scheme != "http" || r.URL.User != nil {
			return target{host: r.Host}, refuse("this is a proxy: ask it for http://HOST/, or CONNECT HOST:PORT")
		}
		host = r.URL.Host
	} else if c.fixed.port != 80 && c.fixed.port != 443 {
		port = fmt.Sprint(c.fixed.port)
	}
	if !strings.Contains(strings.TrimPrefix(host[strings.LastIndexByte(host, ']')+1:], "]"), ":") {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	t, err := parseTarget(host)
	if err == nil && c.fixed != nil && t != *c.fixed {
		return *c.fixed, refuse("a request for %s on a connection to %s", t, c.fixed)
	}
	return t, err
}

// permittedRequest returns an error if the grant does not allow a request's target and path.
func permittedRequest(g *engine.Grant, t target, r *http.Request, https bool) error {
	if err := permitted(g, t); err != nil {
		return err
	}
	path, plain := engine.RequestPath(r.URL.EscapedPath())
	if slices.ContainsFunc(g.Allow, func(rule engine.NetworkRule) bool {
		return rule.MatchHost(t.host, t.port) && (rule.Path == "" ||
			plain && (rule.Scheme == "https") == https && rule.MatchPath(path))
	}) {
		return nil
	}
	return refuse("%.100q of %s is not allowed for this run", r.URL.EscapedPath(), t)
}

// connect answers CONNECT.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request, c *clientConn) {
	t, err := parseTarget(r.RequestURI)
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	_, buffered, failed := hijacker.Hijack()
	if failed != nil {
		return
	}
	early, _ := buffered.Peek(buffered.Reader.Buffered())
	c.early = append(bytes.Clone(early), c.early...)
	if err != nil {
		c.run.addContact(target{host: r.RequestURI}).end(err)
		c.refuse(err)
		return
	}
	c.run.work.Go(func() { p.tunnel(c, t, c.accept, c.refuse) })
}

// accept and refuse answer a CONNECT. pip and others show only the first line of an answer.
func (c *clientConn) accept() error {
	_, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	return err
}

func (c *clientConn) refuse(err error) {
	status := "502 Bad gateway: "
	if _, ok := errors.AsType[*refused](err); ok {
		status = "403 network_denied: "
	}
	text := oneLine("airlock: " + err.Error())
	fmt.Fprintf(c, "HTTP/1.1 %s%s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"+
		"Content-Length: %d\r\n\r\n%s\n",
		status, oneLine(err.Error()), len(text)+1, text)
	c.Close()
}

// oneLine replaces everything but printable ASCII in the text of a program or a server.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// inspected reports whether the proxy has to decrypt TLS to a target.
func (r *run) inspected(t target) bool {
	if r.authority == nil || t.port == 80 {
		return false
	}
	whole := slices.ContainsFunc(r.grant.Allow, func(rule engine.NetworkRule) bool {
		return rule.MatchHost(t.host, t.port) && rule.Path == ""
	})
	return !whole || slices.ContainsFunc(r.grant.Inject, func(i engine.Injection) bool { return i.Host == t.host }) ||
		len(r.secretsFor(t)) > 0
}

// inject sets the operator's headers in a request.
func (r *run) inject(out *http.Request, t target, scheme string) {
	for _, i := range r.grant.Inject {
		if scheme == "https" && i.Host == t.host {
			out.Header.Set(i.Header, i.Value)
		}
	}
}

// decrypt terminates TLS with a certificate of the run's authority.
func (p *proxy) decrypt(c *clientConn, t target) error {
	secure := tls.Server(rawConn{c}, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName != t.host && !t.isAddress() {
				return nil, errors.New("another name")
			}
			return c.run.authority.certificate(t.host)
		},
	})
	ctx, cancel := context.WithTimeout(c.run.life, p.waits.header)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("the program did not accept the certificate of its run: %w", err)
	}
	c.secure, c.fixed, c.https = secure, &t, true
	return nil
}
