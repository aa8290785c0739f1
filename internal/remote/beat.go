package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Registry keeps the list of workers.
type Registry interface {
	// BeatWorker notes that a worker is alive. Epoch 0 registers it under a new epoch. If drain
	// is set the worker shall take nothing new. BeatWorker returns ErrNotFound if the epoch was
	// declared dead: the worker must register anew, without its workspaces.
	BeatWorker(ctx context.Context, node Node) (epoch int64, drain bool, err error)
	// LeaveWorker notes that the worker of a name has shut down.
	LeaveWorker(ctx context.Context, name string, epoch int64) error
	// Workers returns the workers that are alive.
	Workers() []Node
	// APIs returns the epochs of the apis that are alive.
	APIs() []int64
}

// A worker beats every beatEvery, and is dead after deadAfter without a beat.
const (
	beatEvery = time.Second
	deadAfter = 2500 * time.Millisecond
)

// LinkPath is the path at which apis accept links from workers.
const LinkPath = "/worker/v1/link"

const beatPath = "/worker/v1/beat"

// beatReply answers a beat.
type beatReply struct {
	Epoch int64
	Drain bool     `json:",omitempty"`
	Error *failure `json:",omitempty"`
	APIs  []int64  `json:",omitempty"` // epochs of those that are alive
	// Images are the ids of all images that the cluster has, if Known.
	Images []string `json:",omitempty"`
	Known  bool     `json:",omitempty"`
}

// BeatHandler serves the beats of workers at an api, over links. It calls changed after each. A worker whose name
// may refuses is told so; nil: it refuses none.
// images returns the ids of the cluster's images, and false if it does not know; nil: it never does.
func BeatHandler(
	registry Registry, changed func(), images func() ([]string, bool), may func(r *http.Request, name string) error,
) http.Handler {
	mux := http.NewServeMux()
	handle := func(method string, serve func(r *http.Request, n Node) (beatReply, error)) {
		mux.HandleFunc(method+" "+beatPath, func(w http.ResponseWriter, r *http.Request) {
			var n Node
			if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&n); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			var reply beatReply
			var err error
			if may != nil {
				err = may(r, n.Name)
			}
			if err == nil {
				reply, err = serve(r, n)
			} else {
				reply.Error, err = newFailure(err), nil
			}
			if reply.Error != nil && reply.Error.Kind == engine.ErrForbidden {
				w.Header().Set("Connection", "close")
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(reply)
			changed()
		})
	}
	handle(http.MethodPost, func(r *http.Request, n Node) (reply beatReply, _ error) {
		n.Address = reachableAddress(n.Address, r.RemoteAddr)
		var err error
		if reply.Epoch, reply.Drain, err = registry.BeatWorker(r.Context(), n); err != nil {
			reply.Error = newFailure(err)
		}
		reply.APIs = registry.APIs()
		if images != nil {
			reply.Images, reply.Known = images()
		}
		return reply, nil
	})
	handle(http.MethodDelete, func(r *http.Request, n Node) (beatReply, error) {
		return beatReply{}, registry.LeaveWorker(r.Context(), n.Name, n.Epoch)
	})
	return mux
}

// reachableAddress returns the address of a worker. If the worker listens on all of its
// addresses, the host is that from which it sent the beat.
func reachableAddress(address, from string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsUnspecified() {
		return address
	}
	if host, _, err := net.SplitHostPort(from); err == nil {
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u.String()
}

// Beats sends the beats of a worker to apis.
type Beats struct {
	Worker  *Worker
	Node    Node         // the fields that do not change; Epoch 0
	APIs    []string     // URLs; beats go to one of them, and to the next when it does not answer
	Client  *http.Client // follows no redirect to another server: outbound.Guard
	Expired func()       // called when the epoch was declared dead, to release the workspaces
	Machine func() (diskFree, memoryFree int64)

	next       int
	low        bool
	registered atomic.Bool
}

// Ready returns nil while an api has registered this worker, and the worker takes programs.
func (b *Beats) Ready() error {
	switch {
	case !b.registered.Load():
		return errors.New("no api has taken this worker")
	case b.Worker.isDraining():
		return errors.New("the worker takes nothing new")
	}
	return b.Worker.room()
}

// Run sends beats until ctx ends, and then reports that the worker leaves.
func (b *Beats) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	var last error
	for {
		former := b.Node.Epoch
		err := b.beat(ctx)
		switch {
		case ctx.Err() != nil:
			b.leave()
			return
		case err != nil && (last == nil || last.Error() != err.Error()):
			b.Worker.config.Log.Warn("no api takes this worker: it tries again each second", "error", err)
		case err == nil && (last != nil || b.Node.Epoch != former):
			b.Worker.config.Log.Info("an api has taken this worker", "epoch", b.Node.Epoch)
		}
		last = err
		b.registered.Store(err == nil)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (b *Beats) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), beatEvery)
	defer cancel()
	_, _ = b.send(ctx, http.MethodDelete)
}

func (b *Beats) beat(ctx context.Context) (err error) {
	low := b.Worker.room()
	if (low != nil) != b.low {
		b.low = low != nil
		b.Worker.config.Log.Warn("room on the disk: below min_free the worker takes no programs", "low", b.low)
	}
	b.Node.Free, b.Node.Draining = b.Worker.admission.free(), b.low || b.Worker.isDraining()
	if b.Machine != nil {
		b.Node.DiskFree, b.Node.MemoryFree = b.Machine()
	}
	held, failed := b.Worker.config.Sandbox.Held(ctx)
	if failed == nil {
		b.Node.Held = len(held)
	}
	for range b.APIs {
		var reply beatReply
		if reply, err = b.send(ctx, http.MethodPost); err == nil {
			switch {
			case reply.Error == nil:
				b.Node.Epoch = reply.Epoch
				b.Worker.setResting(reply.Drain)
				if failed == nil && len(reply.APIs) > 0 {
					b.Worker.sweepSoon(ctx, reply.APIs, held)
				}
				if images := b.Worker.config.Images; images != nil && reply.Known {
					images.Keep(reply.Images)
				}
				return nil
			case reply.Error.Kind != engine.ErrNotFound:
				return reply.Error.err()
			case b.Node.Epoch == 0:
				return errors.New("the api does not know a new worker")
			}
			b.Worker.config.Log.Warn("this worker was silent for so long that it was given up: it begins anew")
			b.Node.Epoch = 0
			b.Expired()
			return b.beat(ctx)
		}
		b.next = (b.next + 1) % len(b.APIs)
	}
	return err
}

// send sends one beat. A registration may take as long as deadAfter, so that no second api
// registers the worker too; a later beat must leave time to reach the next api before the
// worker is declared dead.
func (b *Beats) send(ctx context.Context, method string) (reply beatReply, err error) {
	timeout := beatEvery
	if b.Node.Epoch == 0 {
		timeout = deadAfter
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(b.Node)
	if err != nil {
		return reply, err
	}
	address := strings.TrimSuffix(b.APIs[b.next], "/") + beatPath
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(string(body)))
	if err != nil {
		return reply, err
	}
	answer, err := b.Client.Do(r)
	if err != nil {
		return reply, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return reply, fmt.Errorf("%s answered %s", b.APIs[b.next], answer.Status)
	}
	if method == http.MethodPost {
		err = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&reply)
	}
	return reply, err
}

// Local is a Registry for a single api, in its memory.
type Local struct {
	self  int64
	mu    sync.Mutex
	last  int64
	nodes map[int64]Node
	beats map[int64]time.Time
}

// NewLocal returns a Local without workers.
func NewLocal() *Local {
	return &Local{self: int64(engine.NewEpoch()), nodes: map[int64]Node{}, beats: map[int64]time.Time{}}
}

// Self returns the epoch of the api.
func (l *Local) Self() int64 { return l.self }

// APIs implements Registry.
func (l *Local) APIs() []int64 { return []int64{l.self} }

// BeatWorker implements Registry.
func (l *Local) BeatWorker(_ context.Context, n Node) (int64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Epoch == 0 {
		for epoch, other := range l.nodes {
			if other.Name == n.Name { // the worker has restarted
				delete(l.nodes, epoch)
			}
		}
		l.last = max(l.last+1, time.Now().UnixNano()) // larger than those of former processes of this api
		n.Epoch, n.Since = l.last, time.Now()
	} else if known, ok := l.nodes[n.Epoch]; !ok || known.Name != n.Name || time.Since(l.beats[n.Epoch]) > deadAfter {
		if known.Name == n.Name {
			delete(l.nodes, n.Epoch)
		}
		return 0, false, &engine.Error{Op: "beat", Kind: engine.ErrNotFound, Err: errors.New("this worker was given up")}
	}
	if known, ok := l.nodes[n.Epoch]; ok {
		n.Since = known.Since
	}
	n.Heard = time.Now()
	l.nodes[n.Epoch], l.beats[n.Epoch] = n, n.Heard
	return n.Epoch, false, nil
}

// LeaveWorker implements Registry.
func (l *Local) LeaveWorker(_ context.Context, name string, epoch int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes[epoch].Name == name {
		delete(l.nodes, epoch)
	}
	return nil
}

// Workers implements Registry.
func (l *Local) Workers() []Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Node
	for epoch, n := range l.nodes {
		if time.Since(l.beats[epoch]) <= deadAfter {
			list = append(list, n)
		}
	}
	return list
}
