package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// carrier notes grants, and reports one contact of each at its end.
type carrier struct {
	fault error

	mu     sync.Mutex
	grants []engine.Grant
}

func (c *carrier) Open(_ context.Context, g engine.Grant, _ *os.File, report func([]engine.Contact)) (
	io.Closer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants = append(c.grants, g)
	return closing(func() { report([]engine.Contact{{Host: "api.example.com", Verdict: engine.VerdictAllowed}}) }), c.fault
}

func (c *carrier) Authority() (certificate, key []byte, err error) { return nil, nil, nil }

type closing func()

func (c closing) Close() error { c(); return nil }

// contacting is a host that notes what its program contacts.
type contacting struct {
	sink
	list  []engine.Contact
	fault string
}

func (c *contacting) Contacted(list []engine.Contact, fault string) {
	c.list, c.fault = append(c.list, list...), c.fault+fault
}

// networked asks for the network as the sandbox of this machine does.
func networked(_ context.Context, _ *engine.Spec, h engine.Host) (*engine.Outcome, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	h.Listener(file)
	return sandboxtest.Exit(0), nil
}

// A worker serves a grant as far as its own settings allow, and without any not at all:
// another one may. What was contacted is told before the end.
func TestNetwork(t *testing.T) {
	rules := func(texts ...string) []engine.NetworkRule {
		list, err := engine.ParseNetworkRules(texts)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, c := range []struct {
		name    string
		workers [][]string // what each allows
		asked   []string
		want    string // of the error
	}{
		{"by default", [][]string{nil}, []string{"api.example.com"}, "programs on this worker have no network"},
		{"another host", [][]string{{"other.example.com"}}, []string{"api.example.com"}, "is not allowed on this worker"},
		{"one host of two", [][]string{{"api.example.com"}}, []string{"api.example.com", "other.example.com"},
			"other.example.com"},
		{"allowed", [][]string{{"*.example.com"}}, []string{"api.example.com"}, ""},
		{"allowed elsewhere", [][]string{nil, {"*"}}, []string{"api.example.com"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			egress := &carrier{}
			var nodes []Node
			for i, allow := range c.workers {
				w, node := serve(t, sandboxtest.NewFake(networked), "")
				w.config.Network = engine.NetworkConfig{Allow: allow, Egress: egress, MaxBytes: 1000}
				node.Epoch, node.Free = int64(i+1), 16-8*i // the first is asked first
				nodes = append(nodes, node)
			}
			s := api(t, "", nodes...)
			spec := sandboxtest.Python("1")
			spec.Network = &engine.ProxySettings{Grant: &engine.Grant{Allow: rules(c.asked...), MaxBytes: 5000}}
			out := &contacting{}
			_, err := s.Run(t.Context(), spec, out)
			if c.want != "" {
				if !errors.Is(err, engine.ErrNetwork) || !strings.Contains(err.Error(), c.want) || len(egress.grants) > 0 {
					t.Errorf("%v, %d grants", err, len(egress.grants))
				}
				return
			}
			if err != nil || out.fault != "" || len(out.list) != 1 || out.list[0].Host != "api.example.com" {
				t.Fatalf("%v, %+v", err, out)
			}
			if g := egress.grants[0]; !slices.Equal(g.Allow, rules(c.asked...)) || g.MaxBytes != 1000 {
				t.Errorf("it served %+v", g)
			}
		})
	}
	t.Run("fault", func(t *testing.T) {
		w, node := serve(t, sandboxtest.NewFake(networked), "")
		w.config.Network = engine.NetworkConfig{Allow: []string{"*"}, Egress: &carrier{fault: errors.New("no process")}}
		s, out := api(t, "", node), &contacting{}
		spec := sandboxtest.Python("1")
		spec.Network = &engine.ProxySettings{Grant: &engine.Grant{Allow: rules("api.example.com"), MaxBytes: 5000}}
		if _, err := s.Run(t.Context(), spec, out); err != nil || !strings.Contains(out.fault, "no process") {
			t.Errorf("%v, %q", err, out.fault)
		}
	})
}
