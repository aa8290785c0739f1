package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/airlock-run/airlock/internal/engine"
)

const secretValue = `v4lue"of/the+secret`

// withSecret adds a secret for hosts to a grant, and returns its placeholder.
func withSecret(grant *engine.Grant, header string, hosts ...string) string {
	placeholder := engine.PlaceholderPrefix + rand.Text()
	grant.SetSecrets(append(grant.Reveal(),
		engine.RevealedSecret{Placeholder: placeholder, Value: secretValue, Hosts: hosts, Header: header}))
	return placeholder
}

// echo is a server that remembers the headers that came, and returns them in the way that the path says.
type echo struct {
	mu   sync.Mutex
	came []string // headers of requests, with their hosts
}

func (e *echo) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	sent := q.Header.Get("X-Key")
	body, _ := io.ReadAll(q.Body)
	e.mu.Lock()
	e.came = append(e.came, fmt.Sprint(q.Host, " ", q.URL, " ", q.Header, " ", string(body)))
	e.mu.Unlock()
	flush := func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	switch q.URL.Path {
	case "/header":
		w.Header().Add("X-Echo", "it is "+sent)
	case "/name":
		w.Header()["x-"+hexOf(sent)] = []string{"1"}
	case "/chunks":
		for i := range sent {
			flush(sent[i : i+1])
		}
		flush(sent[:5] + sent + sent[:3])
	case "/part":
		flush("it begins with " + sent[:len(sent)-1])
	case "/json":
		_ = json.NewEncoder(w).Encode(map[string]string{"k": sent})
	case "/query":
		_, _ = io.WriteString(w, url.QueryEscape(sent))
	case "/base64":
		for i := range 3 {
			fmt.Fprintln(w, base64.StdEncoding.EncodeToString([]byte("abc"[:i]+sent+"z")))
		}
	case "/basic":
		_, _ = io.WriteString(w, q.Header.Get("Authorization"))
	case "/early":
		w.Header().Set("Link", sent)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	case "/trailer":
		w.Header().Set("Trailer", "X-Echo")
		flush("body")
		w.Header().Set("X-Echo", sent)
	case "/gzip":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, sent)
		z.Close()
	case "/redirect":
		http.Redirect(w, q, "https://other.test"+q.Host[strings.LastIndexByte(q.Host, ':'):]+"/?key="+url.QueryEscape(sent),
			http.StatusTemporaryRedirect)
	case "/hello":
		_, _ = io.WriteString(w, "hello ghosts")
	default:
		_, _ = io.WriteString(w, sent)
	}
}

func hexOf(text string) string { return strings.NewReplacer(`"`, "", "/", "").Replace(text) }

// last returns the last request that came.
func (e *echo) last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.came) == 0 {
		return ""
	}
	return e.came[len(e.came)-1]
}

// client returns a program's client of the proxy.
func (r *rig) client() *http.Client {
	proxy := &url.URL{Scheme: "http", Host: r.proxy}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: r.roots, MinVersion: tls.VersionTLS12}}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// exchange makes a request with headers, and returns all of the answer that a program sees.
func (r *rig) exchange(method, address string, headers map[string]string, body io.Reader) string {
	r.t.Helper()
	var seen bytes.Buffer
	trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		fmt.Fprintln(&seen, status, h)
		return nil
	}}
	q, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), method, address, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range headers {
		q.Header.Set(name, value)
	}
	answer, err := r.client().Do(q)
	if err != nil {
		return "error: " + err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Fprintln(&seen, answer.StatusCode, answer.Header, string(text), answer.Trailer, err)
	return seen.String()
}

// The host of a secret gets the value in place of the placeholder, in each header, and no answer has it, however the
// server returns the request.
func TestSecretAnswers(t *testing.T) {
	server := &echo{}
	s := serveSecure(t, server)
	grant := grantOf(t, "good.test:"+s.port)
	key := withSecret(&grant, "", "good.test:"+s.port)
	r := newRig(t, grant, s)
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + key))
	headers := map[string]string{"X-Key": key, "Authorization": "Basic " + basic, "Cookie": "a=1; k=" + key}
	for path, want := range map[string]string{
		"/":        key,
		"/header":  "it is " + key,
		"/chunks":  key + secretValue[:5] + key + secretValue[:3],
		"/part":    "it begins with " + key,
		"/json":    `{"k":"` + key + `"}`,
		"/query":   key,
		"/base64":  key,
		"/basic":   "Basic " + basic,
		"/early":   "103 map[Link:[" + key,
		"/trailer": "body map[X-Echo:[" + key,
		"/gzip":    "403",
		"/hello":   "hello ghosts",
	} {
		got := r.exchange("GET", "https://good.test:"+s.port+path, headers, nil)
		came := server.last()
		sent := base64.StdEncoding.EncodeToString([]byte("user:" + secretValue))
		if !strings.Contains(came, "X-Key:["+secretValue+"]") || !strings.Contains(came, "Basic "+sent) ||
			!strings.Contains(came, "k="+secretValue) || strings.Contains(came, key) {
			t.Errorf("%s: the server got %s", path, came)
		}
		if !strings.Contains(got, want) || shows(got) {
			t.Errorf("%s: the program got %s, not %s", path, got, want)
		}
	}
}

// shows reports whether a text has the value of the secret, or most of it, in a form in which servers repeat it.
func shows(text string) bool {
	if strings.Contains(text, secretValue[:12]) || strings.Contains(text, secretValue[8:]) {
		return true
	}
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte("abc"[:before] + secretValue))
		if strings.Contains(text, encoded[4:12]) {
			return true
		}
	}
	return false
}

// Whatever a program does with the placeholder, only the hosts of the secret get the value, by HTTPS, on their port.
func TestSecretElsewhere(t *testing.T) {
	server, plain := &echo{}, &echo{}
	s, another := serveSecure(t, server), serveSecure(t, server)
	another.ca, s.ca = append(another.ca, s.ca...), append(s.ca, another.ca...)
	clear := listenPublic(t, func(l net.Listener) {
		server := &http.Server{Handler: plain} //nolint:gosec // of a test
		t.Cleanup(func() { server.Close() })
		_ = server.Serve(l)
	})
	grant := grantOf(t, "good.test:"+s.port, "other.test:"+s.port, "good.test:"+another.port, "good.test:"+clear)
	key := withSecret(&grant, "Authorization: Bearer {}", "good.test:"+s.port, "good.test:"+clear)
	r := newRig(t, grant, s)
	second := grantOf(t, "good.test:"+s.port)
	foreign := withSecret(&second, "", "good.test:"+s.port)
	headers := map[string]string{"X-Key": key, "X-Foreign": foreign}

	got := r.exchange("GET", "https://good.test:"+s.port+"/", headers, nil)
	if came := server.last(); !strings.Contains(came, "X-Key:["+secretValue) ||
		!strings.Contains(came, "Bearer "+secretValue) {
		t.Errorf("its host got %s (the program: %s)", came, got)
	}
	if came := server.last(); !strings.Contains(came, "X-Foreign:["+foreign) {
		t.Errorf("the placeholder of another run: %s", came)
	}
	for name, c := range map[string]struct {
		address string
		body    string
		at      *echo
	}{
		"another host":      {"https://other.test:" + s.port + "/", "", server},
		"another port":      {"https://good.test:" + another.port + "/", "", server},
		"plain HTTP":        {"http://good.test:" + clear + "/", "", plain},
		"after a redirect":  {"https://good.test:" + s.port + "/redirect", "", server},
		"in the URL":        {"https://other.test:" + s.port + "/?k=" + key, "", server},
		"in another's body": {"https://other.test:" + s.port + "/", key, server},
	} {
		before := len(c.at.came)
		got := r.exchange("POST", c.address, headers, strings.NewReader(c.body))
		came := c.at.last()
		if len(c.at.came) == before || !strings.Contains(came, "X-Key:["+key) || shows(came) || shows(got) {
			t.Errorf("%s: the server got %s (the program: %s)", name, came, got)
		}
	}
	// In the host's own URL and body it stays a placeholder: they end up in logs and pages.
	r.exchange("POST", "https://good.test:"+s.port+"/?k="+key, nil, strings.NewReader(key))
	if came := server.last(); !strings.Contains(came, "?k="+key) || !strings.HasSuffix(came, key) {
		t.Errorf("URL and body: %s", came)
	}
}

// What an inspected connection refuses reaches no server with the value: another name in TLS or as the host, TRACE.
func TestSecretRefused(t *testing.T) {
	server := &echo{}
	s := serveSecure(t, server)
	grant := grantOf(t, "good.test:"+s.port, "other.test:"+s.port)
	key := withSecret(&grant, "", "good.test:"+s.port)
	r := newRig(t, grant, s)
	for name, c := range map[string]struct {
		to, sni, host, method string
		arrives               bool
	}{
		"control":                   {"good.test", "good.test", "good.test", "GET", true},
		"another name in TLS":       {"good.test", "other.test", "good.test", "GET", false},
		"its name in TLS elsewhere": {"other.test", "good.test", "good.test", "GET", false},
		"another host":              {"good.test", "good.test", "other.test", "GET", false},
		"its host elsewhere":        {"other.test", "other.test", "good.test", "GET", false},
		"TRACE":                     {"good.test", "good.test", "good.test", "TRACE", false},
		"TRACK":                     {"good.test", "good.test", "good.test", "TRACK", false},
	} {
		server.came = nil
		c2, _ := r.connect(c.to + ":" + s.port)
		secure := tls.Client(c2, &tls.Config{ServerName: c.sni, InsecureSkipVerify: true}) //nolint:gosec // a hostile program
		fmt.Fprintf(secure, "%s / HTTP/1.1\r\nHost: %s:%s\r\nX-Key: %s\r\nConnection: close\r\n\r\n",
			c.method, c.host, s.port, key)
		got, _ := io.ReadAll(secure)
		if came := server.last(); strings.Contains(came, secretValue) != c.arrives || shows(string(got)) {
			t.Errorf("%s: the server got %q, the program %q", name, came, got)
		}
	}
}

// The handshake of a WebSocket gets the value, the frames do not, and the answer does not show it.
func TestSecretWebSocket(t *testing.T) {
	var came string
	frames := make(chan string, 1)
	s := serveSecure(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		came = q.Header.Get("X-Key")
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"X-Echo: %s\r\nSec-WebSocket-Accept: %s\r\n\r\n", came, acceptOf(q.Header.Get("Sec-WebSocket-Key")))
		frame := make([]byte, 6+len(engine.PlaceholderPrefix)+26)
		_, _ = io.ReadFull(buffered, frame)
		frames <- string(frame[6:])
	}))
	grant := grantOf(t, "good.test:"+s.port)
	key := withSecret(&grant, "", "good.test:"+s.port)
	r := newRig(t, grant, s)
	c, _ := r.connect("good.test:" + s.port)
	secure := tls.Client(c, &tls.Config{ServerName: "good.test", RootCAs: r.roots, MinVersion: tls.VersionTLS12})
	fmt.Fprintf(secure, "GET / HTTP/1.1\r\nHost: good.test:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\nX-Key: %s\r\n\r\n", s.port,
		base64.StdEncoding.EncodeToString(make([]byte, 16)), key)
	var head strings.Builder
	for one := make([]byte, 1); !strings.HasSuffix(head.String(), "\r\n\r\n"); head.Write(one) {
		if _, err := io.ReadFull(secure, one); err != nil {
			t.Fatalf("%v after %s", err, head.String())
		}
	}
	_, _ = secure.Write(append([]byte{0x81, 0x80 | byte(len(key)), 0, 0, 0, 0}, key...))
	if got := <-frames; got != key || came != secretValue {
		t.Errorf("the handshake had %q, the frame %q", came, got)
	}
	if text := head.String(); !strings.Contains(text, "101") || !strings.Contains(text, "X-Echo: "+key) || shows(text) {
		t.Errorf("the program got %s", text)
	}
}

// A request cannot grow without bound: a value is longer than its placeholder.
func TestSecretSize(t *testing.T) {
	server := &echo{}
	s := serveSecure(t, server)
	grant := grantOf(t, "good.test:"+s.port)
	key := engine.PlaceholderPrefix + rand.Text()
	long := strings.Repeat("long", 2048)
	grant.SetSecrets([]engine.RevealedSecret{{Placeholder: key, Value: long, Hosts: []string{"good.test:" + s.port}}})
	r := newRig(t, grant, s)
	got := r.exchange("GET", "https://good.test:"+s.port+"/", map[string]string{"X-Key": strings.Repeat(key, 20)}, nil)
	if !strings.HasPrefix(got, "403") || len(server.came) > 0 {
		t.Errorf("20 of 8 KiB: %.200s", got)
	}
	got = r.exchange("GET", "https://good.test:"+s.port+"/", map[string]string{"X-Key": key}, nil)
	if !strings.Contains(server.last(), long) || !strings.Contains(got, key) {
		t.Errorf("one of 8 KiB: %.200s", got)
	}
}

// FuzzScrub compares the stream of an answer in pieces with the replacement of the whole.
func FuzzScrub(f *testing.F) {
	f.Add("aabaabaaab", "aab", "aaab", uint8(1))
	f.Add("xxabcabcdxx", "abcd", "bc", uint8(3))
	f.Fuzz(func(t *testing.T, text, one, other string, piece uint8) {
		if len(one) == 0 || len(other) == 0 || strings.ContainsAny(text+one+other, "<>") {
			t.Skip()
		}
		s := &sealed{needles: []needle{newNeedle(one, "<>"), newNeedle(other, "<<>>")}}
		want, _ := s.scrub(nil, []byte(text), true)
		if strings.Contains(string(want), one) || strings.Contains(string(want), other) {
			t.Errorf("%q without %q and %q is %q", text, one, other, want)
		}
		var got, rest []byte
		for i := 0; i < len(text); i += int(piece) + 1 {
			got, rest = s.scrub(got, append(bytes.Clone(rest), text[i:min(len(text), i+int(piece)+1)]...), false)
		}
		end, _ := s.scrub(nil, rest, true)
		if got = append(got, end...); string(got) != string(want) {
			t.Errorf("%q in pieces of %d without %q and %q is %q, not %q", text, piece+1, one, other, got, want)
		}
		body := &cleanBody{body: io.NopCloser(iotest.OneByteReader(strings.NewReader(text))), sealed: s, end: func() {}}
		read, err := io.ReadAll(iotest.HalfReader(body))
		last := string(s.last(nil, rest))
		if err != nil || string(read) != strings.TrimSuffix(string(want), string(end))+last {
			t.Errorf("read %q, %v; want %q", read, err, want)
		}
	})
}
