package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// counted is a sandbox whose programs are counted, and go on until release closes.
func counted(began *atomic.Int32, started chan<- struct{}, release <-chan struct{}) engine.Sandbox {
	return sandboxtest.NewFake(func(ctx context.Context, _ *engine.Spec, h engine.Host) (*engine.Outcome, error) {
		began.Add(1)
		h.Output(engine.Stdout, []byte("hello"))
		if started != nil {
			started <- struct{}{}
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return sandboxtest.Exit(0), nil
	})
}

var open = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// A worker that is lost in the middle of a program takes it along: the run is not tried
// elsewhere. Silence in the registry is as good as a connection that ends.
func TestWorkerLost(t *testing.T) {
	for name, lose := range map[string]func(*tracked, *Sandbox, Node){
		"connection": func(l *tracked, _ *Sandbox, _ Node) { l.cut() },
		"silence":    func(_ *tracked, s *Sandbox, other Node) { s.Update([]Node{other}) },
	} {
		t.Run(name, func(t *testing.T) {
			var began atomic.Int32
			started := make(chan struct{}, 2)
			worker, first := serve(t, counted(&began, started, t.Context().Done()), "")
			_, second := serve(t, counted(&began, started, t.Context().Done()), "")
			between := httptest.NewUnstartedServer(worker.Handler())
			between.Config.Protocols = new(http.Protocols)
			between.Config.Protocols.SetUnencryptedHTTP2(true)
			cuts := &tracked{Listener: between.Listener}
			between.Listener = cuts
			between.Start()
			defer between.Close()
			first.Address, first.Free, second.Epoch, second.Free = between.URL, 16, 2, 1
			s := api(t, "", first, second)
			ended := make(chan error, 1)
			go func() {
				_, err := s.Run(context.WithoutCancel(t.Context()), sandboxtest.Python("1"), &sink{})
				ended <- err
			}()
			<-started
			lose(cuts, s, second)
			if err := <-ended; engine.KindOf(err) != engine.ErrUnavailable || !strings.Contains(err.Error(), "worker_lost") {
				t.Errorf("%v", err)
			}
			if n := began.Load(); n != 1 {
				t.Errorf("%d programs began", n)
			}
		})
	}
}

// tracked is a listener whose connections can be cut.
type tracked struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *tracked) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	return conn, err
}

func (l *tracked) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		if conn != nil {
			conn.Close()
		}
	}
}

type sink struct {
	sandboxtest.Host
	bytes.Buffer
}

func (s *sink) Output(_ engine.Stream, data []byte) { s.Write(data) }
func (s *sink) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("nobody to call")
}

// What a worker has not begun another one does.
func TestElsewhere(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *Worker, *Node){
		"full":     func(_ *testing.T, w *Worker, _ *Node) { w.admission.slots = 0 },
		"stopping": func(_ *testing.T, w *Worker, _ *Node) { _ = w.Drain(context.Background()) },
		"gone": func(t *testing.T, _ *Worker, n *Node) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			n.Address = "http://" + l.Addr().String()
			l.Close()
		},
		"far, without a token": func(_ *testing.T, _ *Worker, n *Node) { n.Address = "http://192.0.2.1:9001" },
	} {
		t.Run(name, func(t *testing.T) {
			var bad, good atomic.Int32
			worker, first := serve(t, counted(&bad, nil, open), "")
			_, second := serve(t, counted(&good, nil, open), "")
			second.Epoch, second.Free = 2, 1
			spoil(t, worker, &first)
			s := api(t, "", first, second)
			out := &sink{}
			if _, err := s.Run(t.Context(), sandboxtest.Python("1"), out); err != nil {
				t.Fatal(err)
			}
			if out.String() != "hello" || bad.Load() != 0 || good.Load() != 1 {
				t.Errorf("%q, %d and %d programs", out, bad.Load(), good.Load())
			}
		})
	}
}

// What a worker said once counts once: an api that looks at the table again does not
// forget what it has placed since.
func TestFreeSlotsAreTakenOnce(t *testing.T) {
	s := NewScheduler(nil, time.Now)
	node := Node{Name: "w", Epoch: 1, Slots: 4, Free: 2, Heard: time.Unix(1, 0)}
	s.Update([]Node{node})
	var first *Slot
	for range 2 {
		if first, _ = s.pick("", "python", nil); first == nil {
			t.Fatal("a free slot is not taken")
		}
		s.Update([]Node{node})
	}
	at, _ := s.pick("", "python", nil)
	if at != nil {
		t.Error("a slot was taken twice")
	}
	first.Started(3) // it let one in, and somebody else's program ended
	for range 2 {
		if at, _ = s.pick("", "python", nil); at == nil {
			t.Fatal("a slot that the worker has reported is not taken")
		}
	}
	if at, _ = s.pick("", "python", nil); at != nil {
		t.Error("a program that is on its way does not count")
	}
}

// Requests to a worker go on while its reports come in: what they read of it does not change.
func TestReportsBesideRequests(t *testing.T) {
	node := Node{Name: "w", Epoch: 1, Address: "http://127.0.0.1:1", Slots: 4, Free: 4, Heard: time.Unix(1, 0)}
	s := api(t, "", node)
	at, _ := s.scheduler.pick("", "python", nil)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		node.Heard = time.Unix(2, 0)
		s.Update([]Node{node})
	}()
	if address, err := s.address(at.target, "/x"); err != nil || address != "http://127.0.0.1:1/x" || at.Epoch() != 1 {
		t.Errorf("%s, epoch %d: %v", address, at.Epoch(), err)
	}
	<-reported
}

// Without a worker, or with full ones alone, a program waits and is refused then.
func TestNoRoom(t *testing.T) {
	s := api(t, "")
	s.config.QueueTime = 10 * time.Millisecond
	_, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{})
	var e *engine.Error
	if !errors.As(err, &e) || e.Kind != engine.ErrUnavailable || e.RetryAfter == 0 {
		t.Errorf("%v", err)
	}
}

// Both sides accept only peers that have the token.
func TestToken(t *testing.T) {
	other := strings.Repeat("x", mutual.ShortestToken)
	for _, c := range []struct {
		name, worker, api string
		good              bool
	}{
		{"same", token, token, true}, {"none", "", "", true}, {"another", token, other, false},
		{"api has none", token, "", false}, {"worker has none", "", token, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var began atomic.Int32
			_, node := serve(t, counted(&began, nil, open), c.worker)
			s := api(t, c.api, node)
			s.config.QueueTime = time.Second
			_, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{})
			if (err == nil) != c.good || (began.Load() == 1) != c.good {
				t.Errorf("%v, %d programs", err, began.Load())
			}
		})
		t.Run("link, "+c.name, func(t *testing.T) {
			registry := NewLocal()
			there, err := mutual.Optional(c.api)
			if err != nil {
				t.Fatal(err)
			}
			links := mutual.NewLinks(there, BeatHandler(registry, func() {}, nil, nil))
			defer links.Close()
			service := httptest.NewServer(links)
			defer service.Close()
			here, err := mutual.Optional(c.worker)
			if err != nil {
				t.Fatal(err)
			}
			transport := mutual.Transport(here, LinkPath)
			defer transport.CloseIdleConnections()
			b := &Beats{Worker: NewWorker(WorkerConfig{Log: quiet, Sandbox: sandboxtest.NewFake(nil)}), Node: Node{Name: "w"},
				APIs: []string{service.URL}, Client: &http.Client{Transport: transport}}
			err = b.beat(t.Context())
			if known := len(registry.Workers()) == 1; (err == nil) != c.good || known != c.good {
				t.Errorf("%v, known %v", err, known)
			}
		})
	}
	if _, err := mutual.Config("short"); err == nil {
		t.Error("a short token is taken")
	}
}

// has is the end of a program that left a file.
func has(b engine.Blob) result {
	return result{Outcome: sandboxtest.Exit(0), Outputs: []output{{Path: "a.txt", Blob: b}}}
}

// bucket is a store that workers write to themselves, and what it has from whom.
type bucket struct {
	engine.Blobs
	there map[engine.Digest]string // marks
}

func (b *bucket) SignGet(context.Context, engine.Blob) (string, error) { return "", nil }

func (b *bucket) SignPut(_ context.Context, blob engine.Blob, mark string) (string, http.Header, bool, error) {
	if _, there := b.there[blob.SHA256]; there {
		return "", nil, true, nil
	}
	return "http://bucket.example", http.Header{"Mark": {mark}}, false, nil
}

func (b *bucket) Marked(_ context.Context, blob engine.Blob, mark string) (bool, error) {
	return b.there[blob.SHA256] == mark, nil
}

// A worker asks for inputs of its program and for nothing else, and names as outputs only
// what it has shown to have: that the bucket has it, from another tenant, is not enough.
func TestLies(t *testing.T) {
	anothers := engine.Blob{SHA256: engine.Digest{3}, Size: 5}
	announce := func(f *frames, b engine.Blob) (addresses []blobAddress) {
		_ = f.sendJSON(kindOutputs, []engine.Blob{b})
		_, text, _ := f.receive()
		_ = json.Unmarshal(text, &addresses)
		return append(addresses, blobAddress{})
	}
	for name, lie := range map[string]func(*frames, *bucket){
		"another's file": func(f *frames, _ *bucket) { _ = f.sendJSON(kindNeed, anothers) },
		"other bytes": func(f *frames, _ *bucket) {
			_ = f.sendJSON(kindOutputs, []engine.Blob{{SHA256: engine.Digest{1}, Size: 5}})
			_ = f.sendBytes(strings.NewReader("hello"))
		},
		"what was not announced": func(f *frames, _ *bucket) { _ = f.sendJSON(kindDone, has(anothers)) },
		"what was not stored": func(f *frames, _ *bucket) {
			b := engine.Blob{SHA256: engine.Digest{2}, Size: 5}
			announce(f, b)
			_ = f.sendJSON(kindDone, has(b))
		},
		"another's, which is there": func(f *frames, _ *bucket) {
			if p := announce(f, anothers)[0]; p.isStored() {
				t.Error("it need not show another's file")
			}
			_ = f.sendJSON(kindDone, has(anothers))
		},
		"another's, announced before it was there": func(f *frames, b *bucket) {
			delete(b.there, anothers.SHA256)
			announce(f, anothers)
			b.there[anothers.SHA256] = "another's mark"
			_ = f.sendJSON(kindDone, has(anothers))
		},
		"the same, announced twice": func(f *frames, b *bucket) {
			delete(b.there, anothers.SHA256)
			announce(f, anothers)
			b.there[anothers.SHA256] = "another's mark"
			if p := announce(f, anothers)[0]; !p.Stream {
				t.Error("it need not show what somebody else has stored")
			}
			_ = f.sendBytes(strings.NewReader("hello"))
			_ = f.sendJSON(kindDone, has(anothers))
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &bucket{there: map[engine.Digest]string{anothers.SHA256: "another's mark"}}
			liar := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				f := &frames{r: r.Body, w: rw, flush: http.NewResponseController(rw).Flush}
				_, _, _ = f.receive()
				_ = f.send(kindStarted, nil)
				lie(f, store)
				_, _ = io.Copy(io.Discard, r.Body)
			}))
			liar.Config.Protocols = new(http.Protocols)
			liar.Config.Protocols.SetUnencryptedHTTP2(true)
			liar.Start()
			defer liar.Close()
			s := api(t, "", Node{Name: "liar", Epoch: 1, Address: liar.URL, Slots: 1, Free: 1})
			s.sampled = func() bool { return false }
			if name != "other bytes" {
				store.Blobs, s.config.Blobs, s.config.Signer = s.config.Blobs, store, store
			}
			if _, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{}); engine.KindOf(err) != engine.ErrUnavailable {
				t.Errorf("%v", err)
			}
		})
	}
}

// Inputs come from the api once, and then from the cache.
func TestCache(t *testing.T) {
	fake := sandboxtest.NewFake(func(_ context.Context, spec *engine.Spec, h engine.Host) (*engine.Outcome, error) {
		for _, in := range spec.Inputs {
			text, err := io.ReadAll(in.File)
			if err != nil {
				return nil, err
			}
			h.Output(engine.Stdout, text)
		}
		return sandboxtest.Exit(0), nil
	})
	w, node := serve(t, fake, "")
	s := api(t, "", node)
	spec := sandboxtest.Python("1")
	b, err := s.config.Blobs.Put(t.Context(), strings.NewReader("some text"), 9)
	if err != nil {
		t.Fatal(err)
	}
	spec.Inputs = []engine.Input{{Path: "a.txt", SHA256: b.SHA256, Size: b.Size}}
	for round := range 2 {
		out := &sink{}
		if _, err := s.Run(t.Context(), spec, out); err != nil || out.String() != "some text" {
			t.Fatalf("%q, %v", out, err)
		}
		if round == 0 { // what is not in the cache now cannot be had any more
			if !w.config.Cache.Has(t.Context(), b.SHA256, 9) {
				t.Error("it is not in the cache")
			}
			s.config.Blobs = nil
		}
	}
}

// drains is a registry that asks workers to take nothing new.
type drains struct {
	*Local
	drain bool
}

func (d *drains) BeatWorker(ctx context.Context, n Node) (int64, bool, error) {
	epoch, _, err := d.Local.BeatWorker(ctx, n)
	return epoch, d.drain, err
}

// A worker that is asked to rest takes nothing new, and says so; until it is asked back.
func TestDrainAsked(t *testing.T) {
	var began atomic.Int32
	worker, node := serve(t, counted(&began, nil, open), "")
	registry := &drains{Local: NewLocal()}
	links := mutual.NewLinks(nil, BeatHandler(registry, func() {}, nil, nil))
	defer links.Close()
	service := httptest.NewServer(links)
	defer service.Close()
	transport := mutual.Transport(nil, LinkPath)
	defer transport.CloseIdleConnections()
	b := &Beats{Worker: worker, Node: Node{Name: "w", Slots: 16, Address: node.Address}, APIs: []string{service.URL},
		Client: &http.Client{Transport: transport}}
	s := api(t, "")
	s.config.QueueTime = 10 * time.Millisecond
	for _, drain := range []bool{false, true, false} {
		registry.drain = drain
		for range 2 { // what it is told with one beat it says with the next
			if err := b.beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		known := registry.Workers()
		if len(known) != 1 || known[0].Draining != drain || known[0].Since.IsZero() {
			t.Fatalf("%+v", known)
		}
		before := began.Load()
		known[0].Draining = false // an api that has not heard of it yet
		s.Update(known)
		_, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{})
		if ran := began.Load() > before; ran == drain || (err == nil) == drain {
			t.Errorf("drain %v: ran %v, %v", drain, ran, err)
		}
	}
}

// tape remembers what is sent through it.
type tape struct {
	net.Conn
	mu   *sync.Mutex
	sent *bytes.Buffer
}

func (c tape) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// What a worker has sent to register is worth nothing to who has heard it. Without a
// token, which is for one machine, it is: so the test would see it.
func TestReplay(t *testing.T) {
	for _, secret := range []string{"", token} {
		secured, err := mutual.Optional(secret)
		if err != nil {
			t.Fatal(err)
		}
		registry := NewLocal()
		beaten := make(chan struct{}, 8)
		links := mutual.NewLinks(secured, BeatHandler(registry, func() { beaten <- struct{}{} }, nil, nil))
		ended := make(chan struct{}, 8)
		service := httptest.NewUnstartedServer(links)
		service.Start()
		address := service.Listener.Addr().String()

		var mu sync.Mutex
		var sent bytes.Buffer
		between, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			client, err := between.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(client, server); client.Close() }()
			_, _ = io.Copy(tape{server, &mu, &sent}, client)
			server.Close()
			ended <- struct{}{}
		}()
		transport := mutual.Transport(secured, LinkPath)
		b := &Beats{Worker: NewWorker(WorkerConfig{Log: quiet, Sandbox: sandboxtest.NewFake(nil)}),
			Node: Node{Name: "w"}, APIs: []string{"http://" + between.Addr().String()},
			Client: &http.Client{Transport: transport}}
		if err := b.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-beaten
		transport.CloseIdleConnections()
		<-ended
		if err := registry.LeaveWorker(t.Context(), b.Node.Name, b.Node.Epoch); err != nil {
			t.Fatal(err)
		}

		again, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = again.Write(sent.Bytes())
		if secret == "" {
			<-beaten
		} else {
			_, _ = io.Copy(io.Discard, again) // until it is hung up
		}
		again.Close()
		if known := len(registry.Workers()) == 1; known != (secret == "") {
			t.Errorf("token %q: known %v", secret, known)
		}
		between.Close()
		service.Close()
		links.Close()
	}
}
