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
	"strings"
	"sync"
	"time"
	"unicode"
)

// upgradeTo is the protocol of a link. A process that only has the address of another
// process's ordinary HTTP service asks it to upgrade the connection to this protocol: HTTP in
// TLS of Config, or without a token plain HTTP, between processes of one user on one machine. So
// one port is enough, and a proxy in front of it need not know of links.
const upgradeTo = "airlock-link"

// ErrFar is the error for a peer on another machine if there is no token.
var ErrFar = errors.New("beyond loopback a worker and an api need the same worker token")

func loopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Links serves HTTP on links. It is the http.Handler for requests to upgrade to one.
type Links struct {
	Verified func(context.Context) // called with the context of a request that made a link; may be nil

	server  http.Server
	config  *tls.Config
	opened  chan net.Conn // links that the server has not accepted yet
	closed  chan struct{}
	close   func()
	serving sync.WaitGroup
}

// NewLinks returns Links that serve a handler to peers that have the token, or to processes of
// the same user on this machine if config is nil.
func NewLinks(config *tls.Config, handler http.Handler) *Links {
	l := &Links{server: http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}, config: config,
		opened: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	l.serving.Go(func() { _ = l.server.Serve(listener{l}) })
	return l
}

// ServeHTTP upgrades one connection to a link.
func (l *Links) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != upgradeTo {
		w.Header().Set("Upgrade", upgradeTo)
		http.Error(w, "this is for workers", http.StatusUpgradeRequired)
		return
	}
	if l.config == nil {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if err := checkUser(r.Context(), fmt.Sprint(local), r.RemoteAddr); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
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
	if n := buffered.Reader.Buffered(); n > 0 { // the peer has sent its first request already
		early, _ := buffered.Peek(n)
		conn = &readConn{Conn: conn, Reader: io.MultiReader(bytes.NewReader(early), conn)}
	}
	if l.config != nil {
		secured := tls.Server(conn, l.config)
		ctx, cancel := context.WithTimeout(r.Context(), linkTime)
		err := secured.HandshakeContext(ctx)
		cancel()
		if err != nil { // the peer tells its operator
			conn.Close()
			return
		}
		conn = secured
	}
	if l.Verified != nil {
		l.Verified(r.Context())
	}
	select {
	case l.opened <- conn:
	case <-l.closed:
		conn.Close()
	}
}

// readConn is a connection with another reader.
type readConn struct {
	net.Conn
	io.Reader
}

func (c *readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// secured is the header with which a side says that it has a token.
const secured = "Airlock-Token"

// Close ends all links, after the requests on them are answered or linkTime has passed.
func (l *Links) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), linkTime)
	defer cancel()
	err := l.server.Shutdown(ctx)
	l.close() // if the server had not begun to serve, it has not closed the listener
	l.serving.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, l.server.Close()) // with links that were accepted meanwhile
}

// listener accepts the links of a Links.
type listener struct{ links *Links }

func (l listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.links.opened:
		return conn, nil
	case <-l.links.closed:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.links.close()
	return nil
}

func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

const linkTime = 5 * time.Second

// Transport returns a transport that sends requests over links, to services that serve them
// under path.
func Transport(config *tls.Config, path string) *http.Transport {
	dial := func(outer bool) func(ctx context.Context, network, address string) (net.Conn, error) {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, linkTime)
			defer cancel()
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			link, err := upgrade(ctx, conn, config, address, path, outer)
			if err != nil {
				conn.Close()
			}
			return link, err
		}
	}
	return &http.Transport{DialContext: dial(false), DialTLSContext: dial(true), MaxIdleConnsPerHost: 4,
		IdleConnTimeout: time.Minute}
}

// upgrade makes a connection to a service a link. With outer, the service itself uses TLS.
func upgrade(
	ctx context.Context, conn net.Conn, config *tls.Config, address, path string, outer bool,
) (net.Conn, error) {
	if config == nil {
		if err := CheckUser(ctx, conn); err != nil {
			return nil, err
		}
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
		return nil, fmt.Errorf("the api at %s answered %s%s", address, answer.Status, reason(answer.Body))
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

// reason returns the beginning of an answer that refuses a link, if it is one of Links.
func reason(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, 512))
	first, _, _ := strings.Cut(strings.ToValidUTF8(string(text), ""), "\n")
	if first == "" || strings.ContainsFunc(first, unicode.IsControl) {
		return ""
	}
	return ": " + first
}
