package remote

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// holds has an api believe that a worker holds a workspace, and returns a program for it.
func holds(t *testing.T, s *Sandbox, epoch int64) *engine.Spec {
	t.Helper()
	spec := sandboxtest.Python("1")
	spec.Held = engine.NewID()
	s.places.set(spec.Held, place{worker: epoch})
	return spec
}

// A workspace is lost for an api if its worker is declared dead, if no process listens there,
// or if the worker does not answer.
func TestHeldWorkerLost(t *testing.T) {
	for name, lose := range map[string]func(net.Listener, *Sandbox){
		"refuses":  func(l net.Listener, _ *Sandbox) { l.Close() },
		"silent":   func(net.Listener, *Sandbox) {},
		"given up": func(_ net.Listener, s *Sandbox) { s.Update(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			s := api(t, token, Node{Name: "w", Epoch: 1, Address: "http://" + l.Addr().String(), Slots: 1, Free: 1})
			spec := holds(t, s, 1)
			ended := make(chan error, 1)
			lose(l, s)
			go func() {
				_, err := s.Run(t.Context(), spec, &sink{})
				ended <- err
			}()
			if err := <-ended; engine.KindOf(err) != engine.ErrNotFound {
				t.Errorf("%v", err)
			}
		})
	}
}

// An api that does not reach a worker which the others hear places nothing there, and
// returns to it when it answers. Then the worker releases workspaces that were restored elsewhere.
func TestCutOffFromWorker(t *testing.T) {
	var far, near atomic.Int32
	sandbox := sandboxtest.NewFake(func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		far.Add(1)
		return sandboxtest.Exit(0), nil
	})
	worker, first := serve(t, sandbox, "")
	_, second := serve(t, counted(&near, nil, open), "")
	second.Name, second.Epoch = "near", 2
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	first.Name, first.Address = "far", "http://"+l.Addr().String()
	s := api(t, "", first, second)
	held := holds(t, s, 1)
	if err := sandbox.Hold(t.Context(), held.Held, 0, "", nil, engine.Limits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), held, &sink{}); engine.KindOf(err) != engine.ErrNotFound {
		t.Fatalf("%v", err)
	}
	for range 20 {
		if _, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := near.Load(); n != 20 {
		t.Errorf("%d programs ran on the worker that answers", n)
	}
	if cut, _ := s.scheduler.at(1); s.scheduler.setUnreached(cut) {
		t.Error("the worker that does not answer is tried all the same")
	}

	back, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := Server(back, worker.Handler(), nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = Serve(server, back) }()
	defer server.Close()
	late := time.After(time.Minute)
	for far.Load() == 0 {
		if _, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-late:
			t.Fatal("the api does not return to the worker")
		default:
		}
	}
	if left := sandbox.Workspaces(); len(left) > 0 {
		t.Errorf("the worker still holds %v", left)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An api that has lost its database answers no beats. The worker leaves time for another
// one to hear of it.
func TestBeatElsewhere(t *testing.T) {
	good := httptest.NewServer(BeatHandler(NewLocal(), func() {}, nil, nil))
	defer good.Close()
	var waited time.Duration
	b := &Beats{Worker: NewWorker(WorkerConfig{Log: quiet, Sandbox: sandboxtest.NewFake(nil)}), Node: Node{Name: "w"},
		APIs: []string{"http://hangs.example", good.URL}, Client: &http.Client{Transport: roundTrip(
			func(r *http.Request) (*http.Response, error) {
				if r.URL.Host != "hangs.example" {
					return http.DefaultTransport.RoundTrip(r)
				}
				end, _ := r.Context().Deadline()
				waited = time.Until(end)
				return nil, context.DeadlineExceeded
			})}}
	if err := b.beat(t.Context()); err != nil || b.Node.Epoch == 0 {
		t.Fatalf("%v", err)
	}
	b.next = 0
	if err := b.beat(t.Context()); err != nil || b.next != 1 {
		t.Errorf("%v", err)
	}
	if waited+beatEvery >= deadAfter {
		t.Errorf("it waits for %v: nobody else hears of it before it is given up", waited)
	}
}

// A worker that listens on all addresses of its machine is reached where it speaks from.
func TestAddressOfAll(t *testing.T) {
	for told, known := range map[string]string{
		"http://[::]:9000":        "http://127.0.0.1:9000",
		"http://0.0.0.0:9000":     "http://127.0.0.1:9000",
		"http://10.1.2.3:9000":    "http://10.1.2.3:9000",
		"http://worker.test:9000": "http://worker.test:9000",
	} {
		registry := NewLocal()
		service := httptest.NewServer(BeatHandler(registry, func() {}, nil, nil))
		defer service.Close()
		b := &Beats{Worker: NewWorker(WorkerConfig{Log: quiet, Sandbox: sandboxtest.NewFake(nil)}),
			Node: Node{Name: "w", Address: told}, APIs: []string{service.URL}, Client: http.DefaultClient}
		if err := b.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if list := registry.Workers(); len(list) != 1 || list[0].Address != known {
			t.Errorf("%s: %+v", told, list)
		}
	}
}

// A worker reports to the apis that it was given, not to where one redirects.
func TestBeatsAreNotRedirected(t *testing.T) {
	heard := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard = true }))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	w := NewWorker(WorkerConfig{Log: quiet, Sandbox: sandboxtest.NewFake(nil)})
	b := &Beats{Worker: w, Node: Node{Name: "w"}, APIs: []string{away.URL},
		Client: outbound.Guard(http.Client{})}
	if err := b.beat(t.Context()); err == nil || heard {
		t.Errorf("a beat: %v, heard by another: %v", err, heard)
	}
	if _, err := w.get(t.Context(), blobAddress{URL: away.URL}); err == nil || heard {
		t.Errorf("a download: %v, asked of another: %v", err, heard)
	}
	if err := w.put(t.Context(), blobAddress{URL: away.URL}, engine.Blob{}, strings.NewReader("")); err == nil || heard {
		t.Errorf("an upload: %v, sent to another: %v", err, heard)
	}
}
