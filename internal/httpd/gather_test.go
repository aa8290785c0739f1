package httpd

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A list has the parts of all nodes, each requested once and for the same caller, and names
// the nodes that did not answer. Nodes with different secrets do not trust each other.
func TestGather(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	nodes := map[engine.Epoch]engine.Node{
		4: {Name: "worker", Epoch: 4, Role: engine.RoleWorker, Address: "http://127.0.0.1:1"},
		5: {Name: "dead", Epoch: 5, Dead: true, Address: "http://127.0.0.1:1"},
		6: {Name: "frozen", Epoch: 6, Address: "http://" + frozen.Addr().String()},
	}
	all := func() (list []engine.Node) {
		for _, n := range nodes {
			list = append(list, n)
		}
		return list
	}
	var first string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		self, secret := engine.Epoch(i+1), "secret"
		if self == 3 {
			secret = "another"
		}
		nodes[self] = engine.Node{Name: fmt.Sprint("node", self), Epoch: self, Address: "http://" + l.Addr().String()}
		peers := &Peers{Cluster: &peer{self, nodes}, Secret: []byte(secret), Now: time.Now, Nodes: all}
		list := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answers := peers.Gather(w, r)
			fmt.Fprintf(w, "%d: %s %s?%s;", self, Caller(r).Owner, r.URL.Path, r.URL.RawQuery)
			for _, answer := range answers {
				_, _ = w.Write(answer)
			}
		})
		_, url := start(t, Options{Listen: []net.Listener{l}, Mounts: []Mount{{Prefix: "/x", Handler: list}}, Peers: peers})
		if self == 1 {
			first = url
		}
	}
	res, body := request(t, "GET", first+"/x/list?of=what", "X-Api-Key: "+aliceKey, "")
	if want := "1: alice /list?of=what;2: alice /list?of=what;"; body != want {
		t.Errorf("%q, not %q", body, want)
	}
	missing := res.Header.Get("Airlock-Unanswered")
	if !slices.Contains([]string{"frozen, node3", "node3, frozen"}, missing) {
		t.Errorf("not answered: %q", missing)
	}
}
