package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/mutual"
)

// Sandbox is the engine.Sandbox of an api. It runs programs on workers.
type Sandbox struct {
	config    Config
	scheduler *Scheduler
	places    places
	streams   *http.Transport // HTTP/2, one connection to each worker
	single    *http.Transport // a connection for each request
	sampled   func() bool     // whether a file that a worker has stored is read back

	life    context.Context //nolint:containedctx // of the goroutines that look for workers
	end     context.CancelFunc
	closing sync.Mutex
	probes  sync.WaitGroup
}

var _ engine.Sandbox = (*Sandbox)(nil)

// Config sets up a Sandbox.
type Config struct {
	Blobs  engine.Blobs
	Signer Signer // of the bucket, to which workers then go themselves; nil: they send bytes here
	// SignImage presigns the address of an image's archive; nil: workers have the images that they need.
	SignImage func(ctx context.Context, id string) (address string, err error)
	TLS       *tls.Config  // of package mutual; nil: only workers of this user on loopback are asked
	Ring      *mutual.Ring // tokens of workers, by name; nil: all have that of TLS
	Temp      string       // directory for files that are read from workspaces
	// Slots is called with the number of programs that may compute at once, as far as is known.
	Slots func(slots int)
	// Trace makes a span of each request; nil: there are none.
	Trace func(http.RoundTripper) http.RoundTripper
	// QueueTime is how long a program waits for a worker that admits it.
	QueueTime time.Duration
	// Self returns the epoch of this api, by which workers know whether it is alive; nil: there is none.
	Self func() int64
	Log  *slog.Logger
}

// Signer presigns addresses of blobs: each is valid for one object and a short time.
type Signer interface {
	SignGet(ctx context.Context, b engine.Blob) (address string, err error)
	// SignPut reports whether the bucket has the blob, and keeps it until it can be recorded.
	// If not, the object that is stored at the address carries the mark. Without an address
	// the bytes must go through Put.
	SignPut(ctx context.Context, b engine.Blob, mark string) (address string, header http.Header, there bool, err error)
	// Marked reports whether the bucket has the blob with that mark.
	Marked(ctx context.Context, b engine.Blob, mark string) (bool, error)
}

// A connection that is idle for silence is pinged, and closed without an answer within
// answerTime. Both together are less than the time after which another api takes over sessions.
const (
	silence    = 1000 * time.Millisecond
	answerTime = 1500 * time.Millisecond
	dialTime   = 2 * time.Second
)

// sampleOf means that one of so many runs with files in the bucket has a file read back.
const sampleOf = 32

// New returns a sandbox without workers.
func New(c Config) *Sandbox {
	if c.QueueTime <= 0 {
		c.QueueTime = 10 * time.Second
	}
	dialer := &net.Dialer{Timeout: dialTime}
	dial := dialer.DialContext
	if c.TLS == nil {
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if err := mutual.CheckUser(ctx, conn); err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		}
	}
	var s *Sandbox
	transport := func(protocols ...string) *http.Transport {
		t := &http.Transport{DialContext: dial, Protocols: new(http.Protocols), DisableCompression: true}
		switch {
		case c.Ring != nil:
			t.DialTLSContext = c.Ring.Dial(dial, dialTime, protocols, func(address string) (string, bool) {
				return s.scheduler.nameAt(address)
			})
		case c.TLS != nil:
			t.TLSClientConfig, t.TLSHandshakeTimeout = c.TLS.Clone(), dialTime
		}
		return t
	}
	if c.Self == nil {
		c.Self = func() int64 { return 0 }
	}
	s = &Sandbox{config: c, scheduler: NewScheduler(c.Slots, time.Now), streams: transport("h2"), single: transport()}
	s.sampled = func() bool { return rand.IntN(sampleOf) == 0 }
	s.life, s.end = context.WithCancel(context.Background())
	s.streams.Protocols.SetHTTP2(true)
	s.streams.Protocols.SetUnencryptedHTTP2(c.TLS == nil)
	s.streams.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: answerTime, WriteByteTimeout: answerTime}
	s.single.Protocols.SetHTTP1(true)
	s.single.MaxIdleConnsPerHost = 8
	return s
}

// Update replaces the list of workers. Programs on workers that are missing in it are lost.
func (s *Sandbox) Update(nodes []Node) { s.scheduler.Update(nodes) }

// Distant implements engine.Sandbox.
func (s *Sandbox) Distant() bool { return true }

// Close closes connections. Workers end the programs that still run.
func (s *Sandbox) Close() error {
	s.closing.Lock()
	s.end()
	s.closing.Unlock()
	s.probes.Wait()
	s.streams.CloseIdleConnections()
	s.single.CloseIdleConnections()
	return nil
}

var errLost = errors.New("worker_lost")

var errSilent = errors.New("the worker is silent")

var errRevoked = errors.New("the worker was revoked by an operator")

// lostWorker returns the error for a program whose worker failed.
func lostWorker(err error) error {
	cause := "worker_lost, the worker that ran it is gone"
	if errors.Is(err, errRevoked) {
		cause = "worker_lost, the worker that ran it was revoked by an operator"
	}
	return &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.Join(errLost, err),
		Hint: "try again: the run is not repeated of itself", RetryAfter: time.Second, Cause: cause}
}

func noWorkspace(id engine.ID) error {
	return &engine.Error{Op: "sandbox", Kind: engine.ErrNotFound, ID: id.String(),
		Err: errors.New("no worker holds this workspace")}
}

// address returns the URL of a path at a worker. Without a token, only workers on this machine have one.
func (s *Sandbox) address(t *target, path string) (string, error) {
	u, err := url.Parse(t.address)
	if err != nil {
		return "", err
	}
	u.Scheme, u.Path = "http", path
	if s.config.TLS != nil {
		u.Scheme = "https"
	} else if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("worker %s is on another machine (%s), and there is no worker token", t.name, u.Host)
	}
	return u.String(), nil
}

// query asks a worker one question.
func (s *Sandbox) query(ctx context.Context, t *target, q question) (reply, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return reply{}, err
	}
	answer, err := s.request(ctx, s.streams, t, "/worker/v1/ask", nil, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	var a reply
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil {
		return reply{}, lostWorker(err)
	}
	return a, nil
}

// unreached wraps the error for a worker that was not reached: it has done nothing.
type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

// at returns the worker that holds a workspace, and its answer to a request with a connection
// of its own: a reader that stops must not hold up other requests.
func (s *Sandbox) at(
	ctx context.Context, held engine.ID, name string, q func(l lease) any, body io.Reader,
) (*target, *http.Response, error) {
	t, l, err := s.worker(held)
	if err != nil {
		return nil, nil, err
	}
	answer, err := s.request(ctx, s.single, t, "/worker/v1/"+name, q(l), body)
	return t, answer, err
}

// request sends a request, and returns its answer unless the worker refuses. The request is
// in the header if head is set.
func (s *Sandbox) request(
	ctx context.Context, by http.RoundTripper, t *target, path string, head any, body io.Reader,
) (*http.Response, error) {
	address, err := s.address(t, path)
	if err != nil {
		return nil, &engine.Error{Op: "worker", Kind: engine.ErrUnavailable, Err: err,
			Hint: mutual.Hint}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return nil, err
	}
	if head != nil {
		text, err := json.Marshal(head)
		if err != nil {
			return nil, err
		}
		r.Header.Set(headRequest, string(text))
	}
	if path == "/worker/v1/dial" || path == "/worker/v1/start" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "airlock")
	}
	var sent atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	if s.config.Trace != nil {
		by = s.config.Trace(by)
	}
	answer, err := by.RoundTrip(r)
	switch {
	case err != nil && sent.Load(): // the worker may have begun
		return nil, lostWorker(withoutAddress(err))
	case err != nil:
		if ctx.Err() == nil {
			s.probe(t)
		}
		return nil, unreached{lostWorker(withoutAddress(err))}
	}
	if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusSwitchingProtocols {
		return answer, nil
	}
	defer answer.Body.Close()
	var f failure
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&f); err != nil || f.Kind == "" {
		return nil, unreached{lostWorker(fmt.Errorf("it answered %s", answer.Status))}
	}
	return nil, f.err()
}

// worker returns the worker that holds a workspace, and its lease.
func (s *Sandbox) worker(held engine.ID) (*target, lease, error) {
	if at, ok := s.places.get(held); ok {
		if t, ok := s.scheduler.at(at.worker); ok {
			return t, at.lease, nil
		}
	}
	return nil, lease{}, noWorkspace(held)
}

// Release implements engine.Sandbox. If this api does not know which worker holds the
// workspace, it may be one of an api that has ended: all workers release it.
func (s *Sandbox) Release(ctx context.Context, id engine.ID, generation int64) error {
	at, _ := s.places.get(id)
	if at.Generation > generation {
		return nil
	}
	if t, l, err := s.worker(id); err == nil {
		if _, err := s.query(ctx, t, question{Release: &id, Lease: l}); err != nil {
			return err
		}
	} else {
		short, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		all := s.scheduler.all()
		atOnce(len(all), func(i int) {
			q := question{Release: &id, Lease: lease{Generation: generation}}
			_, _ = s.query(short, all[i], q) // a silent worker soon registers anew, without workspaces
		})
	}
	s.places.drop(id, at)
	return nil
}

// Held implements engine.Sandbox. Workspaces of another api, or of one that has ended, are not
// among them: no program of this api can run there.
func (s *Sandbox) Held(ctx context.Context) (map[engine.ID]int64, error) {
	all := map[engine.ID]int64{}
	for a := range s.queryAll(ctx, question{Held: true}) {
		maps.Copy(all, a.Held)
	}
	maps.DeleteFunc(all, func(id engine.ID, _ int64) bool {
		_, _, err := s.worker(id)
		return err != nil
	})
	return all, nil
}

// queryAll returns the answers of the workers. One that does not answer is dead, or will be
// declared so.
func (s *Sandbox) queryAll(ctx context.Context, q question) iter.Seq[reply] {
	return func(yield func(reply) bool) {
		for _, t := range s.scheduler.all() {
			if a, err := s.query(ctx, t, q); err == nil && !yield(a) {
				return
			}
		}
	}
}

// Usage implements engine.Inside.
func (s *Sandbox) Usage(ctx context.Context, held engine.ID) (engine.SandboxUsage, error) {
	t, l, err := s.worker(held)
	if err != nil {
		return engine.SandboxUsage{}, err
	}
	a, err := s.query(ctx, t, question{Usage: &held, Lease: l})
	return a.Usage, err
}

// Isolation implements engine.Sandbox. It returns that of the weakest worker.
func (s *Sandbox) Isolation(ctx context.Context) (found engine.Isolation, err error) {
	found = engine.Isolation{Backend: "workers", Summary: "no worker is there"}
	first := true
	for a := range s.queryAll(ctx, question{Isolation: true}) {
		if a.Isolation == nil {
			continue
		}
		if first || weaker(*a.Isolation, found) {
			found = *a.Isolation
			found.Summary = "on workers: " + found.Summary
		}
		first = false
	}
	return found, nil
}

func weaker(a, b engine.Isolation) bool {
	missing := func(i engine.Isolation) (n int) {
		for _, l := range i.Layers {
			if l.State != engine.LayerEnforced {
				n++
			}
		}
		return n
	}
	return b.Strict && !a.Strict || a.Strict == b.Strict && missing(a) > missing(b)
}

// Pools implements engine.Sandbox. It returns the sums over the workers.
func (s *Sandbox) Pools(ctx context.Context) ([]engine.Pool, error) {
	var names []string
	all := map[string]engine.Pool{}
	for a := range s.queryAll(ctx, question{Pools: true}) {
		for _, p := range a.Pools {
			sum, ok := all[p.Name]
			if !ok {
				names = append(names, p.Name)
			}
			all[p.Name] = engine.Pool{Name: p.Name, Ready: p.Ready || sum.Ready, Waiting: p.Waiting + sum.Waiting,
				Wanted: p.Wanted + sum.Wanted, Cold: cmp.Or(sum.Cold, p.Cold)}
		}
	}
	pools := make([]engine.Pool, len(names))
	for i, name := range names {
		pools[i] = all[name]
	}
	return pools, nil
}

// temporary returns a new file without a name.
func (s *Sandbox) temporary() (*os.File, error) {
	f, err := os.CreateTemp(s.config.Temp, "airlock-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
