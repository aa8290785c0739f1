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

// Registry remembers which workers there are.
type Registry interface {
	// BeatWorker notes that a worker lives. Epoch 0 is a new life of it, which gets an
	// epoch; drain asks it to take nothing new; ErrNotFound: that life was given up, and nothing of it counts any more.
	BeatWorker(ctx context.Context, node Node) (epoch int64, drain bool, err error)
	// LeaveWorker notes that a worker has ended in order.
	LeaveWorker(ctx context.Context, epoch int64) error
	// Workers are those that live.
	Workers() []Node
}

// How often a worker says that it lives, and after which silence it does not.
const (
	beatEvery = time.Second
	deadAfter = 2500 * time.Millisecond
)

// LinkPath is where apis take links from workers.
const LinkPath = "/worker/v1/link"

const beatPath = "/worker/v1/beat"

// beatReply is what an api says to a beat.
type beatReply struct {
	Epoch int64
	Drain bool     `json:",omitempty"`
	Error *failure `json:",omitempty"`
}

// Desk takes the beats of workers, at an api. It is what a link serves.
func Desk(registry Registry, changed func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+beatPath, func(w http.ResponseWriter, r *http.Request) {
		var n Node
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n.Address = reachedAt(n.Address, r.RemoteAddr)
		epoch, drain, err := registry.BeatWorker(r.Context(), n)
		reply := beatReply{Epoch: epoch, Drain: drain}
		if err != nil {
			reply.Error = newFailure(err)
		}
		_ = json.NewEncoder(w).Encode(reply)
		changed()
	})
	mux.HandleFunc("DELETE "+beatPath, func(w http.ResponseWriter, r *http.Request) {
		var n Node
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := registry.LeaveWorker(r.Context(), n.Epoch); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		changed()
	})
	return mux
}

// reachedAt is the address of a worker that listens on all of its addresses: with that one
// from which it speaks.
func reachedAt(address, from string) string {
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

// Beats tells apis that a worker lives.
type Beats struct {
	Worker *Worker
	Node   Node     // what does not change; Epoch 0
	APIs   []string // URLs; one at a time is told, the next when it does not answer
	Client *http.Client
	GaveUp func() // the life that the worker had counts no more: all that is held is released

	next  int
	taken atomic.Bool
}

// Ready returns nil while an api has this worker among its own, and it takes programs.
func (b *Beats) Ready() error {
	switch {
	case !b.taken.Load():
		return errors.New("no api has taken this worker")
	case b.Worker.isDraining():
		return errors.New("the worker takes nothing new")
	}
	return nil
}

// Run tells until ctx ends, then that the worker leaves.
func (b *Beats) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	var told error
	for {
		former := b.Node.Epoch
		err := b.beat(ctx)
		switch {
		case ctx.Err() != nil:
			b.leave()
			return
		case err != nil && (told == nil || told.Error() != err.Error()):
			b.Worker.config.Log.Warn("no api takes this worker: it tries again each second", "error", err)
		case err == nil && (told != nil || b.Node.Epoch != former):
			b.Worker.config.Log.Info("an api has taken this worker", "epoch", b.Node.Epoch)
		}
		told = err
		b.taken.Store(err == nil)
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
	b.Node.Free, b.Node.Draining = b.Worker.admission.free(), b.Worker.isDraining()
	if held, err := b.Worker.config.Sandbox.Held(ctx); err == nil {
		b.Node.Held = len(held)
	}
	for range b.APIs {
		var reply beatReply
		if reply, err = b.send(ctx, http.MethodPost); err == nil {
			switch {
			case reply.Error == nil:
				b.Node.Epoch = reply.Epoch
				b.Worker.rest(reply.Drain)
				return nil
			case reply.Error.Kind != engine.ErrNotFound:
				return reply.Error.err()
			case b.Node.Epoch == 0:
				return errors.New("the api does not know a new worker")
			}
			b.Worker.config.Log.Warn("this worker was silent for so long that it was given up: it begins anew")
			b.Node.Epoch = 0
			b.GaveUp()
			return b.beat(ctx)
		}
		b.next = (b.next + 1) % len(b.APIs)
	}
	return err
}

// send tells one api. To register it has the time that it takes, lest another one registers
// the same life again; else the next one has to hear of it before the worker is given up.
func (b *Beats) send(ctx context.Context, method string) (reply beatReply, err error) {
	patience := beatEvery
	if b.Node.Epoch == 0 {
		patience = deadAfter
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
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
	mu    sync.Mutex
	last  int64
	nodes map[int64]Node
	beats map[int64]time.Time
}

// NewLocal returns one that knows nobody.
func NewLocal() *Local { return &Local{nodes: map[int64]Node{}, beats: map[int64]time.Time{}} }

// BeatWorker implements Registry.
func (l *Local) BeatWorker(_ context.Context, n Node) (int64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Epoch == 0 {
		for epoch, other := range l.nodes {
			if other.Name == n.Name { // it is a new process by that name
				delete(l.nodes, epoch)
			}
		}
		l.last = max(l.last+1, time.Now().UnixNano()) // larger than those of processes before us
		n.Epoch, n.Since = l.last, time.Now()
	} else if _, ok := l.nodes[n.Epoch]; !ok || time.Since(l.beats[n.Epoch]) > deadAfter {
		delete(l.nodes, n.Epoch)
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
func (l *Local) LeaveWorker(_ context.Context, epoch int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, epoch)
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
