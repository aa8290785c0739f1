package httpd

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/mutual"
)

// plainly is the way without encryption.
type plainly struct{ t *testing.T }

func (c plainly) RoundTrip(*http.Request) (*http.Response, error) {
	c.t.Error("a request was passed on in the clear")
	return nil, errors.New("not to be used")
}

// A node forwards a request over a link encrypted, and only to a peer with the secret.
func TestPassedOnByLink(t *testing.T) {
	const path = "/node/link"
	for _, other := range []string{"", "other"} {
		nodes := map[engine.Epoch]engine.Node{}
		var listeners []net.Listener
		for i := range 2 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listeners = append(listeners, l)
			nodes[engine.Epoch(i+1)] = engine.Node{Name: fmt.Sprint("node", i+1), Address: "http://" + l.Addr().String() + path}
		}
		var urls []string
		for i, l := range listeners {
			secret := strings.Repeat("s", mutual.ShortestToken)
			if i == 1 {
				secret += other
			}
			config, err := mutual.Config(secret)
			if err != nil {
				t.Fatal(err)
			}
			var server *Server
			links := mutual.NewLinks(config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				server.Handler().ServeHTTP(w, r)
			}))
			defer links.Close()
			transport := mutual.Transport(config, path)
			defer transport.CloseIdleConnections()
			self := engine.Epoch(i + 1)
			var url string
			server, url = start(t, Options{
				Listen: []net.Listener{l}, Mounts: []Mount{{Prefix: "/x", Handler: elsewhere(self)},
					{Prefix: path, Handler: links, Public: true}},
				Peers: &Peers{Cluster: &peer{self, nodes}, Secret: []byte("secret"), Now: time.Now, Transport: plainly{t},
					Link: transport},
			})
			urls = append(urls, url)
		}
		res, body := request(t, "POST", urls[0]+"/x/thing", "X-Api-Key: "+aliceKey, "the body")
		passed := res.StatusCode == http.StatusOK &&
			strings.HasPrefix(body, "owner=alice key=alicealice22 path=/thing body=the body")
		if passed != (other == "") {
			t.Errorf("%q: %d %q", other, res.StatusCode, body)
		}
	}
}
