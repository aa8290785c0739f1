package mutual

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// A process that only has the address of another's ordinary HTTP service asks it to
// change to another protocol on that connection (Upgrade), which is HTTP in TLS of
// Config, or without a token HTTP as it is, on loopback alone. So one port is enough,
// and what stands before that port need not know of it.

const upgradeTo = "airlock-link"

// ErrFar says that there is no token and that the other side is on another machine.
var ErrFar = errors.New("beyond loopback a worker and an api need the same worker token")

func loopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Links takes connections over, and serves them.
type Links struct {
	server http.Server
	config *tls.Config

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	group sync.WaitGroup
}

// NewLinks returns what serves a handler to those who have the token; nil: to those on
// this machine.
func NewLinks(config *tls.Config, handler http.Handler) *Links {
	return &Links{server: http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}, config: config,
		conns: map[net.Conn]struct{}{}}
}

// ServeHTTP takes one connection over.
func (l *Links) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != upgradeTo {
		w.Header().Set("Upgrade", upgradeTo)
		http.Error(w, "this is for workers", http.StatusUpgradeRequired)
		return
	}
	if l.config == nil && !loopback(r.RemoteAddr) {
		http.Error(w, ErrFar.Error(), http.StatusForbidden)
		return
	}
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", upgradeTo)
	if l.config != nil {
		w.Header().Set(secured, "1")
	}
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if buffered.Flush() != nil || conn.SetDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	if n := buffered.Reader.Buffered(); n > 0 { // the other side was quick: it has begun to speak
		early, _ := buffered.Peek(n)
		conn = &begun{Conn: conn, Reader: io.MultiReader(bytes.NewReader(early), conn)}
	}
	if l.config != nil {
		conn = tls.Server(conn, l.config)
	}
	once := &single{conn: conn, addr: conn.LocalAddr(), closed: make(chan struct{})}
	l.mu.Lock()
	l.conns[conn] = struct{}{}
	l.group.Add(1)
	l.mu.Unlock()
	go func() {
		defer l.group.Done()
		_ = l.server.Serve(once)
		l.mu.Lock()
		delete(l.conns, conn)
		l.mu.Unlock()
	}()
}

// begun is a connection of which something was read already.
type begun struct {
	net.Conn
	io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.Reader.Read(p) }

// secured is the header by which a side says that it has a token.
const secured = "Airlock-Token"

// Close ends all connections, once requests on them were answered or had time for it.
func (l *Links) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), linkTime)
	defer cancel()
	err := l.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.server.Close()
	}
	l.mu.Lock()
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.group.Wait()
	return err
}

// single is a listener with one connection, which ends with it.
type single struct {
	mu     sync.Mutex
	conn   net.Conn
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	s.mu.Lock()
	conn := s.conn
	s.conn = nil
	s.mu.Unlock()
	if conn != nil {
		return &noted{Conn: conn, gone: s}, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *single) Addr() net.Addr { return s.addr }

// noted is a connection that ends its listener.
type noted struct {
	net.Conn
	gone *single
}

func (n *noted) Close() error {
	n.gone.Close()
	return n.Conn.Close()
}

const linkTime = 5 * time.Second

// Transport returns what sends requests over a link to the service at an address, whose
// links are served under path.
func Transport(config *tls.Config, path string) *http.Transport {
	dial := func(ctx context.Context, address string, outer bool) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, linkTime)
		defer cancel()
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		link, err := upgrade(ctx, conn, config, address, path, outer)
		if err != nil {
			conn.Close()
			return nil, err
		}
		return link, nil
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address, false) },
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address, true)
		},
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}
}

func upgrade(
	ctx context.Context, conn net.Conn, config *tls.Config, address, path string, outer bool,
) (net.Conn, error) {
	if config == nil && !loopback(conn.RemoteAddr().String()) {
		return nil, ErrFar
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if outer {
		client := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := client.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = client
	}
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Host: address, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {upgradeTo}}}
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(conn)
	answer, err := http.ReadResponse(buffered, r) //nolint:bodyclose // the connection is what is closed
	if err != nil {
		return nil, err
	}
	switch {
	case answer.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("the api at %s answered %s", address, answer.Status)
	case (config != nil) != (answer.Header.Get(secured) != ""):
		return nil, fmt.Errorf("%w: one of both has no token", ErrToken)
	case buffered.Buffered() > 0:
		return nil, errors.New("the other side speaks first")
	case config == nil:
		return conn, nil
	}
	link := tls.Client(conn, config)
	if err := link.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("worker token: %w", err)
	}
	return link, nil
}
