package egress

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// What the names of the zone lead to is refused, however it is written; good.test is
// the control.
func TestNamesOfPrivateAddresses(t *testing.T) {
	bad := map[string]string{
		"loopback.test": "127.0.0.1", "metadata.test": "169.254.169.254", "mapped.test": "::ffff:10.0.0.1",
		"none.test": "0.0.0.0", "local6.test": "fd00::1", "private.test": "192.168.1.1", "shared.test": "100.64.0.1",
		"multicast.test": "224.0.0.1", "nat64.test": "64:ff9b::a00:1", "six2four.test": "2002:a00:1::",
		"link6.test": "fe80::1",
		"loop6.test": "::1", "broadcast.test": "255.255.255.255", "metadata6.test": "fd00:ec2::254",
		"compatible.test": "::10.0.0.1",
	}
	r := newRig(t, grantOf(t, "*.test:443", "*.test:8443", "good.test:1"))
	for name, address := range bad {
		r.name(name, address)
	}
	r.name("alias.test", "alias2.test")
	r.name("alias2.test", "10.1.1.1")
	bad["alias.test"] = "10.1.1.1"
	for name := range bad {
		if _, line := r.connect(name + ":443"); !strings.Contains(line, "403 network_denied") {
			t.Errorf("%s (%s): %s", name, bad[name], line)
		}
	}
	if got := r.refusals(); len(got) != len(bad) {
		t.Errorf("%d refusals in the log, not %d: %v", len(got), len(bad), got)
	}
}

// The same addresses are refused where a rule names every host, in each notation.
func TestAddressesInUnusualNotation(t *testing.T) {
	r := newRig(t, grantOf(t, "*"))
	for _, to := range []string{
		"127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]",
		"[::ffff:10.0.0.1]", "169.254.169.254", "0.0.0.0", "0", "[fd00::1]", "[fe80::1%25lo]", "[::]", "127.0.0.1.",
		"localhost..",
	} {
		if _, line := r.connect(to + ":443"); !strings.Contains(line, "403 network_denied") {
			t.Errorf("%s: %s", to, line)
		}
	}
	_, line := r.connect("no-such-name.test:443")
	if !strings.Contains(line, "502") {
		t.Errorf("a name that does not exist: %s", line)
	}
}

// A name that resolves differently the second time is checked the second time, and the
// connection goes to the address that was checked.
func TestRebinding(t *testing.T) {
	port := listenPublic(t, each(func(c net.Conn) { _, _ = io.WriteString(c, "x") }))
	r := newRig(t, grantOf(t, "rebind.test:"+port))
	r.name("rebind.test", "127.0.0.2", "127.0.0.1")
	_, first := r.connect("rebind.test:" + port)
	_, second := r.connect("rebind.test:" + port)
	if !strings.Contains(first, "200") || !strings.Contains(second, "127.0.0.1 is not a public address") {
		t.Errorf("first %q, second %q", first, second)
	}
	list := r.audit()
	if len(list) != 2 || r.asked["rebind.test"] != 2 {
		t.Errorf("%d contacts, %d look-ups: one each", len(list), r.asked["rebind.test"])
	}
}

// What was not allowed is refused, in every spelling; what was is allowed in each.
func TestNames(t *testing.T) {
	port := listenPublic(t, each(func(c net.Conn) { _, _ = io.WriteString(c, "hi") }))
	r := newRig(t, grantOf(t, "good.test:"+port, "*.wild.test:"+port, "bücher.test:"+port))
	for _, name := range []string{"a.wild.test", "wild.test", "xn--bcher-kva.test"} {
		r.name(name, "127.0.0.2")
	}
	for name, want := range map[string]string{
		"good.test": "200", "GOOD.test": "200", "good.test.": "200", "a.wild.test": "200", "xn--bcher-kva.test": "200",
		"wild.test": "403", "evilgood.test": "403", "good.test.evil.test": "403", "gооd.test": "40", // Cyrillic
		"good.test..": "403", "awild.test": "403", "other.test": "403",
	} {
		if _, line := r.connect(name + ":" + port); !strings.Contains(line, " "+want) {
			t.Errorf("%s: %q, not %s", name, line, want)
		}
	}
	for _, to := range []string{"good.test:25", "good.test:443", "good.test:0", "good.test", "good.test:70000"} {
		if _, line := r.connect(to); !strings.Contains(line, "403") && !strings.Contains(line, "400") {
			t.Errorf("%s: %s", to, line)
		}
	}
}

// TLS has to ask for the name that was allowed.
func TestServerName(t *testing.T) {
	hello := func(name string) []byte { return clientHello(t, &tls.Config{ServerName: name}) }
	at := target{"good.test", 443}
	if err := checkHello(hello("good.test"), at); err != nil {
		t.Error("the control:", err)
	}
	if err := checkHello(hello("GOOD.test"), at); err != nil {
		t.Error("upper case:", err)
	}
	none := hello("")
	for what, b := range map[string][]byte{
		"another name": hello("evil.test"), "no name": none, "no TLS": []byte("SSH-2.0-x\r\n"),
		"half a hello":       hello("good.test")[:40],
		"a hello of nothing": {22, 3, 1, 0, 0},
	} {
		if err := checkHello(b, at); err == nil {
			t.Errorf("%s was let through", what)
		}
	}
	ech := clientHello(t, &tls.Config{ServerName: "good.test", EncryptedClientHelloConfigList: echConfig(t),
		MinVersion: tls.VersionTLS13})
	if err := checkHello(ech, target{"public.test", 443}); err == nil || !strings.Contains(err.Error(), "ECH") {
		t.Errorf("ECH: %v", err)
	}
}

// clientHello returns the first bytes that a client sends.
func clientHello(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	if config.ServerName == "" {
		config.InsecureSkipVerify = true
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _ = tls.Client(theirs, config).Handshake(); theirs.Close() }()
	_ = ours.SetDeadline(time.Now().Add(time.Minute))
	b := make([]byte, 16<<10)
	n, err := ours.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	for !wholeHello(b[:n]) {
		more, err := ours.Read(b[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += more
	}
	return b[:n]
}

// echConfig is a list of one configuration (RFC 9849) for public.test.
func echConfig(t *testing.T) []byte {
	t.Helper()
	name := "public.test"
	key := bytes.Repeat([]byte{9}, 32)
	body := append([]byte{7, 0, 0x20, 0, 32}, key...)
	body = append(body, 0, 4, 0, 1, 0, 1, 32, byte(len(name)))
	body = append(append(body, name...), 0, 0)
	config := append([]byte{0xfe, 0x0d, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{byte(len(config) >> 8), byte(len(config))}, config...)
}

// An allowed name with another name in TLS gets no byte through.
func TestOtherNameInTunnel(t *testing.T) {
	s := serveHTTPS(t)
	r := newRig(t, grantOf(t, "good.test:"+s.port, "other.test:"+s.port), s)
	c, line := r.connect("good.test:" + s.port)
	if got, err := r.get(c, "good.test", "good.test", "/x"); err != nil || !strings.HasPrefix(got, "200 good.test/x") {
		t.Fatalf("the control: %q %v after %q", got, err, line)
	}
	c, _ = r.connect("good.test:" + s.port)
	if got, err := r.get(c, "other.test", "other.test", "/"); err == nil {
		t.Errorf("answered %q", got)
	}
	if got := r.refusals(); len(got) != 1 || !strings.Contains(got[0], "other.test") {
		t.Errorf("refusals: %q", got)
	}
}

// Plain HTTP is read request by request: another host, a newline in a header, a request
// that says where it goes twice.
func TestRequests(t *testing.T) {
	r := newRig(t, grantOf(t, "good.test:80"))
	for what, text := range map[string]string{
		"another host":           "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"another in the address": "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"a user":                 "GET http://good.test@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"https without a tunnel": "GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"no proxy request":       "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"a newline":              "GET http://good.test:81/ HTTP/1.1\r\nHost: good.test\r\nX: a\nHost: evil.test\r\n\r\n",
		"nonsense":               "\x00\x01\x02\r\n\r\n",
		"HTTP/2 without TLS":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"two lengths": "POST http://evil.test/ HTTP/1.1\r\nHost: e\r\nContent-Length: 1\r\n" +
			"Content-Length: 2\r\n\r\nxx",
	} {
		c := r.dial()
		_, _ = io.WriteString(c, text)
		line := r.answer(c)
		if !strings.Contains(line, " 403") && !strings.Contains(line, " 400") && line != "" &&
			!strings.Contains(line, "505") {
			t.Errorf("%s: %q", what, line)
		}
	}
	// On a tunnel to port 80 each request has to be for its host.
	c, _ := r.connect("good.test:80")
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if line := r.answer(c); !strings.Contains(line, "403") {
		t.Errorf("another host in a tunnel: %q", line)
	}
	// And what is not HTTP does not get through port 80.
	c, _ = r.connect("good.test:80")
	_, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n")
	if line := r.answer(c); strings.Contains(line, "200") {
		t.Errorf("not HTTP: %q", line)
	}
}

// A program can say what it likes to the proxy's socket.
func TestRawBytes(t *testing.T) {
	r := newRig(t, grantOf(t, "good.test:80"))
	for _, text := range []string{
		"", "\x05", "\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", "\x05\xff",
		"\x04\x01\x00\x50\x00\x00\x00\x01x\x00\x00",
		strings.Repeat("A", 100_000), "CONNECT \r\n\r\n", "CONNECT good.test:80\r\n\r\n",
		strings.Repeat("X: y\r\n", 20_000),
	} {
		c := r.dial()
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	if _, line := r.connect("evil.test:80"); !strings.Contains(line, "403") {
		t.Errorf("after all of it: %q", line)
	}
}

// SOCKS names are subject to the same rules.
func TestSocks(t *testing.T) {
	port := listenPublic(t, each(func(c net.Conn) { _, _ = io.WriteString(c, "hi") }))
	r := newRig(t, grantOf(t, "good.test:"+port))
	number := netip.MustParseAddrPort("127.0.0.1:" + port).Port()
	ask := func(name string) (byte, string) {
		c := r.dial()
		asked := append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(name))}, name...)
		_, _ = c.Write(append(asked, byte(number>>8), byte(number)))
		answer := make([]byte, 12)
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		rest, _ := io.ReadAll(c)
		return answer[3], string(rest)
	}
	if code, text := ask("good.test"); code != socksSuccess || text != "hi" {
		t.Errorf("allowed: %d %q", code, text)
	}
	if code, _ := ask("evil.test"); code != socksNotAllowed {
		t.Errorf("refused: %d", code)
	}
}

// A run that has used up its bytes gets no more, whatever it opens.
func TestBytes(t *testing.T) {
	port := listenPublic(t, each(func(c net.Conn) {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}))
	grant := grantOf(t, "good.test:"+port)
	grant.MaxBytes = 10 << 20
	r := newRig(t, grant)
	c, _ := r.connect("good.test:" + port)
	n, _ := io.Copy(io.Discard, c)
	if n > grant.MaxBytes || n < grant.MaxBytes/2 {
		t.Errorf("got %d bytes of %d", n, grant.MaxBytes)
	}
	if _, line := r.connect("good.test:" + port); !strings.Contains(line, "used up") {
		t.Errorf("after that: %q", line)
	}
	var received int64
	for _, c := range r.audit() {
		received += c.Received
	}
	if received != n {
		t.Errorf("the log says %d bytes, the program got %d", received, n)
	}
}

// DNS answers of many addresses come by TCP, and are as good as others.
func TestLongAnswer(t *testing.T) {
	r := newRig(t, grantOf(t, "long.test:443", "good.test:443"))
	var all []string
	for i := range 3500 {
		all = append(all, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	r.name("long.test", all...)
	if _, line := r.connect("long.test:443"); !strings.Contains(line, "403") {
		t.Errorf("%q", line)
	}
}

// More connections than a run may have are refused, and the next run has its own.
func TestManyConnections(t *testing.T) {
	r := newRig(t, grantOf(t, "good.test:80"))
	refused := 0
	for range 10_000 {
		c, err := net.Dial("tcp", r.proxy)
		if err != nil { // reset before it was there
			refused++
			continue
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			refused++
		}
		if refused >= 10 {
			break
		}
	}
	if refused == 0 {
		t.Error("none of them was refused")
	}
	other := newRig(t, grantOf(t, "good.test:80"))
	if _, line := other.connect("evil.test:80"); !strings.Contains(line, "403") {
		t.Errorf("another run: %q", line)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // as it came from the connection
	return ok && e.Timeout()
}

// Paths are compared inside of TLS, for a program that trusts its run's authority, and
// a header is added that the program never sees.
func TestInspection(t *testing.T) {
	s := serveHTTPS(t)
	grant := grantOf(t, "https://good.test:"+s.port+"/v1/*", "other.test:"+s.port)
	grant.Inject = []engine.Injection{{Host: "good.test", Header: "X-Secret", Value: "hidden"}}
	r := newRig(t, grant, s)
	for path, want := range map[string]string{
		"/v1/x": "200 good.test/v1/x hidden", "/v2/x": "403", "/v1/../v2": "403", "/v1/%2e%2e/v2": "403", "/v1/%2f": "403",
		"/v1": "403",
	} {
		c, line := r.connect("good.test:" + s.port)
		got, err := r.get(c, "good.test", "good.test:"+s.port, path)
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q %v, not %q (%s)", path, got, err, want, line)
		}
	}
	c, _ := r.connect("good.test:" + s.port)
	if got, err := r.get(c, "good.test", "other.test:"+s.port, "/v1/x"); err != nil || !strings.HasPrefix(got, "403") {
		t.Errorf("another host on the same connection: %q %v", got, err)
	}
	c, _ = r.connect("other.test:" + s.port)
	if got, err := r.get(c, "other.test", "other.test", "/any"); err != nil || got != "200 other.test/any " {
		t.Errorf("a host without a path: %q %v", got, err)
	}
}
