package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// peer is a node of a cluster of two, 1 and 2.
type peer struct {
	self  engine.Epoch
	nodes map[engine.Epoch]engine.Node
}

func (p *peer) Self() engine.Epoch { return p.self }
func (p *peer) Check() error       { return nil }
func (p *peer) Node(e engine.Epoch) (engine.Node, bool) {
	n, ok := p.nodes[e]
	return n, ok
}
func (p *peer) Life(e engine.Epoch) context.Context {
	if _, ok := p.nodes[e]; ok {
		return context.Background()
	}
	ended, end := context.WithCancel(context.Background())
	end()
	return ended
}
func (p *peer) Claim(context.Context, engine.ID, int64, engine.Epoch) (engine.Place, error) {
	return engine.Place{}, nil
}

// elsewhere answers for node 2, and fails at any other node.
func elsewhere(self engine.Epoch) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/duplex" {
			echo(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if self != 2 || r.URL.Path == "/loop" {
			engine.NoteHolder(r.Context(), 3-self)
			w.Header().Set("X-First", "yes")
			http.Error(w, "another node has it", http.StatusServiceUnavailable)
			return
		}
		c := Caller(r)
		fmt.Fprintf(w, "owner=%s key=%s path=%s body=%s header=%s", c.Owner, c.Key, r.URL.Path, body,
			r.Header.Get(forwardHeader))
	})
}

// echo answers with each part of the body as it comes.
func echo(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	if err := out.EnableFullDuplex(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	buffer := make([]byte, 64)
	for {
		n, err := r.Body.Read(buffer)
		_, _ = w.Write(buffer[:n])
		_ = out.Flush()
		if err != nil {
			return
		}
	}
}

// twoNodes starts both, and returns the address of the first.
func twoNodes(t *testing.T, secrets ...string) (first, second string) {
	t.Helper()
	nodes := map[engine.Epoch]engine.Node{}
	var listeners []net.Listener
	for i := range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		nodes[engine.Epoch(i+1)] = engine.Node{Name: fmt.Sprint("node", i+1), Address: "http://" + l.Addr().String()}
	}
	var urls []string
	for i, l := range listeners {
		self := engine.Epoch(i + 1)
		_, url := start(t, Options{
			Listen: []net.Listener{l}, Mounts: []Mount{{Prefix: "/x", Handler: elsewhere(self)},
				{Prefix: "/page", Handler: elsewhere(self), Public: true, Holder: func(*http.Request) engine.Epoch { return 2 },
					SignedIn: func(r *http.Request) (engine.Caller, bool) {
						return engine.Caller{Owner: "ada"}, self == 2 && r.Header.Get("Cookie") == "in"
					}}},
			Peers: &Peers{Cluster: &peer{self, nodes}, Secret: []byte(secrets[i]), Now: time.Now},
		})
		urls = append(urls, url)
	}
	return urls[0], urls[1]
}

// The node that holds an object answers for it, on behalf of the original caller.
func TestPassedOn(t *testing.T) {
	first, second := twoNodes(t, "secret", "secret")
	for _, url := range []string{first, second} {
		res, body := request(t, "POST", url+"/x/thing", "X-Api-Key: "+aliceKey, "the body")
		if res.StatusCode != http.StatusOK || !strings.HasSuffix(body, "path=/thing body=the body header=") ||
			!strings.HasPrefix(body, "owner=alice key=alicealice22") || res.Header.Get("X-First") != "" {
			t.Errorf("%s: %d %q", url, res.StatusCode, body)
		}
	}
	if res, _ := request(t, "POST", first+"/x/thing", "", "the body"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d", res.StatusCode)
	}
	if res, body := request(t, "POST", first+"/x/loop", "X-Api-Key: "+aliceKey, ""); res.StatusCode != 503 {
		t.Errorf("what nobody has: %d %q", res.StatusCode, body)
	}
}

// A peer may answer before it has the whole body.
func TestAnswerBeforeEndOfBody(t *testing.T) {
	first, _ := twoNodes(t, "secret", "secret")
	body, send := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", first+"/page/duplex", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len("first last"))
	go func() { _, _ = io.WriteString(send, "first ") }()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	go func() {
		_, _ = io.WriteString(send, "last")
		send.Close()
	}()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "first last" {
		t.Errorf("%q, %v", got, err)
	}
}

// Who signed in at a node is known to that one alone.
func TestSignedInElsewhere(t *testing.T) {
	first, second := twoNodes(t, "secret", "secret")
	for _, url := range []string{first, second} {
		if _, body := request(t, "GET", url+"/page/x", "Cookie: in", ""); !strings.HasPrefix(body, "owner=ada ") {
			t.Errorf("signed in: %q", body)
		}
		if _, body := request(t, "GET", url+"/page/x", "Cookie: out", ""); !strings.HasPrefix(body, "owner= ") {
			t.Errorf("not signed in: %q", body)
		}
	}
}

// lately is a peer that learns of the end of nodes late, after they have answered.
type lately struct {
	*peer
	life context.Context //nolint:containedctx // of the other node
}

func (l lately) Life(engine.Epoch) context.Context { return l.life }

// What was meant for a node that has begun anew at its address is done here, once that is known, and else refused in a
// way that clients try again.
func TestPassedOnLate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[engine.Epoch]engine.Node{2: {Name: "node2", Address: "http://" + l.Addr().String()}}
	start(t, Options{Listen: []net.Listener{l}, Mounts: []Mount{{Prefix: "/x", Handler: elsewhere(2)}},
		Peers: &Peers{Cluster: &peer{3, nodes}, Secret: []byte("secret"), Now: time.Now}})
	life, end := context.WithTimeout(t.Context(), 2*time.Second)
	defer end()
	_, url := start(t, Options{Mounts: []Mount{{Prefix: "/x", Handler: elsewhere(1)}},
		Peers: &Peers{Cluster: lately{&peer{1, nodes}, life}, Secret: []byte("secret"), Now: time.Now}})
	res, body := request(t, "POST", url+"/x/thing", "X-Api-Key: "+aliceKey, "the body")
	if res.Header.Get("X-First") == "" || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d %q: not answered by the node that was asked", res.StatusCode, body)
	}
}

// A node with another secret is not a peer.
func TestOtherSecret(t *testing.T) {
	first, _ := twoNodes(t, "secret", "other")
	res, body := request(t, "GET", first+"/x/thing", "X-Api-Key: "+aliceKey, "")
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// A signature is valid for one request, one receiver and a short time.
func TestForwardSignature(t *testing.T) {
	now := time.Now()
	p := &Peers{Cluster: &peer{self: 2}, Secret: []byte("secret"), Now: func() time.Time { return now }}
	good := forward{To: 2, At: now, Method: "POST", Host: "example.com", URI: "/x?y=z",
		Caller: &engine.Caller{Owner: "ada"}}
	for name, change := range map[string]func(*forward){
		"good":             func(*forward) {},
		"another method":   func(f *forward) { f.Method = "GET" },
		"another address":  func(f *forward) { f.URI = "/x?y=w" },
		"another host":     func(f *forward) { f.Host = "other.com" },
		"another receiver": func(f *forward) { f.To = 1 },
		"old":              func(f *forward) { f.At = now.Add(-2 * forwardTime) },
		"of the future":    func(f *forward) { f.At = now.Add(2 * forwardTime) },
	} {
		f := good
		change(&f)
		header, err := p.header(&f)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "http://example.com/x?y=z", nil)
		want := map[string]error{"good": nil, "another receiver": errLate, "old": errLate, "of the future": errLate}
		expected, listed := want[name]
		if !listed {
			expected = errForged
		}
		if _, err := p.verify(r, header); !errors.Is(err, expected) {
			t.Errorf("%s: %v, not %v", name, err, expected)
		}
		if _, err := p.verify(r, "x"+header); !errors.Is(err, errForged) {
			t.Errorf("%s, changed: taken", name)
		}
	}
	for _, header := range []string{"", ".", "e30.", "e30.AAAA"} {
		if _, err := p.verify(httptest.NewRequest("GET", "/", nil), header); !errors.Is(err, errForged) {
			t.Errorf("%q: taken", header)
		}
	}
}
