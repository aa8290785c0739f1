package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/airlock-run/airlock/internal/engine"
)

// Servers of the tests are at public, which counts as an address of the internet;
// every other address is what it is.
var public = netip.MustParseAddr("127.0.0.2")

// rig is an egress process in this one, with a grant, and a world for it.
type rig struct {
	t     testing.TB
	proxy string // address
	zone  map[string][]string
	asked map[string]int
	mu    sync.Mutex

	grant  engine.Grant
	egress *proxy

	lease    io.Closer
	contacts []engine.Contact

	roots *x509.CertPool // of the servers, and of the grant
}

// inProcess is a launcher that starts the process as a goroutine.
type inProcess struct {
	proxy *proxy
	work  sync.WaitGroup
}

func (l *inProcess) Launch(context.Context) (*os.File, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	link, err := packets(theirs)
	if err != nil {
		return nil, err
	}
	l.work.Go(func() { serve(link, l.proxy) })
	return ours, nil
}

func (l *inProcess) Close() error { l.work.Wait(); return nil }

// grantOf makes a grant of rules.
func grantOf(t testing.TB, rules ...string) engine.Grant {
	t.Helper()
	allow, err := engine.ParseNetworkRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Grant{Run: engine.NewID(), Owner: "alice", Allow: allow, MaxBytes: 1 << 30}
}

func newRig(t testing.TB, grant engine.Grant, servers ...secureServer) *rig {
	t.Helper()
	return newRigWith(t, waits{headerTime, idleTime}, grant, servers...)
}

func newRigWith(t testing.TB, w waits, grant engine.Grant, servers ...secureServer) *rig {
	t.Helper()
	r := &rig{t: t, asked: map[string]int{}, roots: x509.NewCertPool(),
		zone: map[string][]string{"good.test": {"127.0.0.2"}, "other.test": {"127.0.0.2"}}}
	for _, s := range servers {
		r.roots.AppendCertsFromPEM(s.ca)
	}
	network := &network{
		resolver: r.resolver(), own: func(netip.Addr) bool { return false },
		public: func(ip netip.Addr) bool { return ip == public || hostNetwork().public(ip) },
	}
	r.grant, r.egress = grant, newProxy(network, r.roots, w)
	client := NewClient(&inProcess{proxy: r.egress})
	t.Cleanup(func() { client.Close() })
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r.proxy = listener.Addr().String()
	listener.Close() // the process has its own
	byPath := func(a engine.NetworkRule) bool { return a.Path != "" }
	if len(grant.Certificate) == 0 && (slices.ContainsFunc(grant.Allow, byPath) || len(grant.Secrets) > 0) {
		if grant.Certificate, grant.Key, err = client.Authority(); err != nil {
			t.Fatal(err)
		}
	}
	r.lease, err = client.Open(t.Context(), grant, file, func(list []engine.Contact) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.contacts = append(r.contacts, list...)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.lease.Close() })
	if len(grant.Certificate) > 0 {
		r.roots.AppendCertsFromPEM(grant.Certificate)
	}
	return r
}

// open is how many connections of programs there are.
func (r *rig) open() int { return int(r.egress.open.Load()) }

// name has a name lead to addresses, or to another name.
func (r *rig) name(name string, entries ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.zone[name] = entries
}

// audit ends the grant and returns what was contacted.
func (r *rig) audit() []engine.Contact {
	r.lease.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contacts
}

// refusals returns the reasons of those that were refused.
func (r *rig) refusals() (list []string) {
	for _, c := range r.audit() {
		if c.Verdict == engine.VerdictRefused {
			list = append(list, c.Reason)
		}
	}
	return list
}

// secureServer is a server at public for every name, which says what was asked for.
type secureServer struct {
	port string
	ca   []byte
}

func serveHTTPS(t *testing.T) secureServer {
	t.Helper()
	return serveSecure(t, http.HandlerFunc(answerRequest))
}

// serveSecure starts a server for every name.
func serveSecure(t *testing.T, handler http.Handler) secureServer {
	t.Helper()
	certificate, key, err := NewClient(nil).Authority()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAuthority(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	port := listenPublic(t, func(l net.Listener) {
		server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
			Handler: handler}
		t.Cleanup(func() { server.Close() })
		_ = server.Serve(tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate(h.ServerName) },
		}))
	})
	return secureServer{port, certificate}
}

// answerRequest says what was asked for, echoes to WebSockets, and has a large file.
func answerRequest(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.Header.Get("Upgrade") != "":
		c, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n", q.Header.Get("Upgrade"))
		if q.URL.Path != "/v1/other" {
			fmt.Fprintf(c, "Sec-WebSocket-Accept: %s\r\n", acceptOf(q.Header.Get("Sec-WebSocket-Key")))
		}
		_, _ = io.WriteString(c, "\r\n")
		_, _ = io.Copy(c, buffered)
	case q.URL.Path == largePath:
		w.Header().Set("Content-Length", strconv.Itoa(largeSize))
		zeros := make([]byte, 256<<10)
		for range largeSize / len(zeros) {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	case q.URL.Path == "/v1/early": // answers in the middle of the request
		out := http.NewResponseController(w)
		_ = out.EnableFullDuplex()
		_, _ = io.CopyN(w, q.Body, 5)
		_ = out.Flush()
		_, _ = io.Copy(w, q.Body)
	case q.URL.Path == "/v1/never":
		<-q.Context().Done()
	default:
		name, _, _ := strings.Cut(q.Host, ":")
		fmt.Fprintf(w, "%s%s %s", name, q.URL.Path, q.Header.Get("X-Secret"))
	}
}

const (
	largePath = "/v1/large"
	largeSize = 10 << 30
)

// serveHTTP starts a server of the same without TLS.
func serveHTTP(t *testing.T) (port string) {
	return listenPublic(t, func(l net.Listener) {
		server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
			Handler: http.HandlerFunc(answerRequest)}
		t.Cleanup(func() { server.Close() })
		_ = server.Serve(l)
	})
}

// listenPublic starts a server at public.
func listenPublic(t testing.TB, serve func(net.Listener)) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// each serves connections one by one.
func each(serve func(net.Conn)) func(net.Listener) {
	return func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); serve(c) }()
		}
	}
}

// dial connects to the proxy.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.proxy)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// connect asks for a tunnel, and returns it with the first line of the answer.
func (r *rig) connect(to string) (net.Conn, string) {
	r.t.Helper()
	c := r.dial()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	return c, r.answer(c)
}

// answer reads an answer's head, byte by byte so that nothing behind it is lost.
func (r *rig) answer(c net.Conn) string {
	var head []byte
	one := make([]byte, 1)
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		if _, err := c.Read(one); err != nil {
			break
		}
		head = append(head, one[0])
	}
	line, _, _ := strings.Cut(string(head), "\r\n")
	return line
}

// get makes one request over TLS with a name on a tunnel.
func (r *rig) get(c net.Conn, name, host, path string) (string, error) {
	secure := tls.Client(c, &tls.Config{ServerName: name, RootCAs: r.roots, MinVersion: tls.VersionTLS12})
	if err := secure.Handshake(); err != nil {
		return "", err
	}
	fmt.Fprintf(secure, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body)), err
}

func (r *rig) resolver() *net.Resolver {
	packet, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	stream, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { packet.Close(); stream.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := packet.ReadFrom(buffer)
			if err != nil {
				return
			}
			reply := r.reply(buffer[:n])
			if len(reply) > 1200 {
				reply = truncated(reply)
			}
			_, _ = packet.WriteTo(reply, from)
		}
	}()
	go each(func(c net.Conn) {
		head := make([]byte, 2)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		query := make([]byte, int(head[0])<<8|int(head[1]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := r.reply(query)
		_, _ = c.Write(append([]byte{byte(len(reply) >> 8), byte(len(reply))}, reply...))
	})(stream)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, kind, _ string) (net.Conn, error) {
		var d net.Dialer
		if strings.HasPrefix(kind, "tcp") {
			return d.DialContext(ctx, kind, stream.Addr().String())
		}
		return d.DialContext(ctx, kind, packet.LocalAddr().String())
	}}
}

func truncated(reply []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(reply) != nil {
		return nil
	}
	m.Truncated, m.Answers = true, nil
	short, _ := m.Pack()
	return short
}

// reply answers one query; for rebind.test with another address each time. An entry of
// the zone that is no address is an alias.
func (r *rig) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	name := strings.TrimSuffix(q.Name.String(), ".")
	entries, known := r.zone[name]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	if name == "rebind.test" && q.Type == dnsmessage.TypeA {
		entries = entries[r.asked[name]%len(entries):][:1]
		r.asked[name]++
	}
	at := q.Name
	for len(entries) == 1 {
		if _, err := netip.ParseAddr(entries[0]); err == nil {
			break
		}
		alias := dnsmessage.MustNewName(entries[0] + ".")
		m.Answers = append(m.Answers, dnsmessage.Resource{Body: &dnsmessage.CNAMEResource{CNAME: alias},
			Header: dnsmessage.ResourceHeader{Name: at, Class: q.Class}})
		at, entries = alias, r.zone[entries[0]]
	}
	for _, entry := range entries {
		ip := netip.MustParseAddr(entry)
		var body dnsmessage.ResourceBody = &dnsmessage.AAAAResource{AAAA: ip.As16()}
		if ip.Is4() {
			body = &dnsmessage.AResource{A: ip.As4()}
		}
		if ip.Is4() == (q.Type == dnsmessage.TypeA) {
			header := dnsmessage.ResourceHeader{Name: at, Class: q.Class}
			m.Answers = append(m.Answers, dnsmessage.Resource{Body: body, Header: header})
		}
	}
	reply, _ := m.Pack()
	return reply
}
