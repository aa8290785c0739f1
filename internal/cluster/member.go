// Package cluster registers a node in the table of the nodes that share a database, and
// reads the others from it.
//
// A node beats each second. Its peers read the table as often, and declare a node dead that
// was silent for engine.DeadAfter by the database's clock: from then on its work is lost or
// belongs to other nodes. A node that continues after it was declared dead, because it was
// stopped or cut off, learns that from its next beat. It drops all that it held and
// registers again under another epoch. Until that beat it takes no new work, because it
// knows for how long its beats have failed.
//
// After an outage of the database all nodes have been silent. So a node declares others dead
// only after its own beats have succeeded without a break for a while.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Service is the service of this node.
type Service interface {
	// Reap repairs what dead nodes left half done.
	Reap(ctx context.Context) error
	// CutOff ends the work of a former epoch of this node.
	CutOff(former engine.Epoch)
	// Refresh reads changes of other nodes that revoke access.
	Refresh(ctx context.Context) error
}

// Config sets up a Member.
type Config struct {
	Index    engine.NodeIndex
	Node     engine.Node        // as it is registered; Epoch is set here
	Load     func() engine.Load // nil: none
	Log      *slog.Logger
	Interval time.Duration // of beats; 0: engine.BeatInterval
	Approval bool          // a worker of a new name waits until an operator lets it in
	// Former is the last epoch of this node, whose process has certainly ended; zero: it is not known.
	Former engine.Epoch
	// Registered is called with each epoch of this node; nil: it is not wanted.
	Registered func(engine.Epoch) error
}

// Member is the membership of this process. Its methods may be called from many
// goroutines.
type Member struct {
	config Config
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	self     engine.Epoch
	nodes    map[engine.Epoch]life // alive
	all      []engine.Node
	looked   time.Time // when all was read
	beat     time.Time // when the last beat that succeeded was sent
	since    time.Time // since when beats have succeeded without a break
	draining bool      // this node shuts down
	asked    bool      // an administrator has asked it to take nothing new
	service  Service
}

// life is a node that is alive.
type life struct {
	engine.Node
	context.Context
	end context.CancelFunc
}

// beatTime bounds one exchange with the database.
const beatTime = 5 * time.Second

// Join registers this process. Follow sends its beats.
func Join(ctx context.Context, config Config) (*Member, error) {
	config.Interval = cmp.Or(config.Interval, engine.BeatInterval)
	if config.Load == nil {
		config.Load = func() engine.Load { return engine.Load{} }
	}
	if config.Registered == nil {
		config.Registered = func(engine.Epoch) error { return nil }
	}
	m := &Member{config: config, done: make(chan struct{}), cancel: func() {}}
	if config.Former != 0 { // what it had is free at once: nobody needs to wait for its silence
		if err := config.Index.RemoveNode(ctx, config.Former); err != nil {
			return nil, err
		}
	}
	if err := m.register(ctx); err != nil {
		return nil, err
	}
	return m, m.look(ctx)
}

// register adds this node under a new epoch.
func (m *Member) register(ctx context.Context) error {
	sent := time.Now()
	node := m.config.Node
	node.Epoch, node.Load = engine.NewEpoch(), m.config.Load()
	if err := m.config.Index.AddNode(ctx, node); err != nil {
		return err
	}
	if err := m.config.Registered(node.Epoch); err != nil {
		return errors.Join(err, m.config.Index.RemoveNode(ctx, node.Epoch))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self, m.beat, m.since = node.Epoch, sent, sent
	return nil
}

// Follow sends beats until Leave is called, for a service that is open.
func (m *Member) Follow(service Service) {
	ctx, cancel := context.WithCancel(context.Background())
	m.mu.Lock()
	m.cancel, m.service = cancel, service
	m.mu.Unlock()
	go func() {
		defer close(m.done)
		ticker := time.NewTicker(m.config.Interval)
		defer ticker.Stop()
		failing := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := m.round(ctx)
			if err != nil && !failing && ctx.Err() == nil {
				m.config.Log.Error("the database does not hear this node: no new work is taken until it does", "error", err)
			}
			failing = err != nil
		}
	}()
}

// round sends one beat, and reads the table.
func (m *Member) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	m.mu.Lock()
	self, draining, service := m.self, m.draining || m.asked, m.service
	m.mu.Unlock()
	sent := time.Now()
	asked, err := m.config.Index.Beat(ctx, self, m.config.Load(), draining)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		if err := m.register(ctx); err != nil {
			return err
		}
		m.config.Log.Warn("this node was silent for so long that the others gave it up: it begins anew")
		service.CutOff(self)
		if err := service.Reap(ctx); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		m.noteBeat(sent, asked)
	}
	if err := m.look(ctx); err != nil {
		return err
	}
	return errors.Join(service.Refresh(ctx), m.removeDead(ctx))
}

// noteBeat notes a beat that has succeeded.
func (m *Member) noteBeat(sent time.Time, asked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sent.Sub(m.beat) > engine.DeadAfter {
		m.since = sent
	}
	m.beat, m.asked = sent, asked
}

// look reads the table.
func (m *Member) look(ctx context.Context) error {
	looked := time.Now()
	all, err := m.config.Index.Nodes(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	alive := map[engine.Epoch]life{}
	for _, n := range all {
		if n.Dead {
			continue
		}
		l, known := m.nodes[n.Epoch]
		if !known {
			l.Context, l.end = context.WithCancel(context.Background())
		}
		l.Node = n
		alive[n.Epoch] = l
		delete(m.nodes, n.Epoch)
	}
	for _, dead := range m.nodes {
		dead.end()
	}
	m.all, m.nodes, m.looked = all, alive, looked
	return nil
}

// steadyTime is for how long beats of a node must have succeeded before it declares others
// dead. After an outage that hit all nodes, some recover later than others.
const steadyTime = 2 * engine.DeadAfter

// removeDead declares silent nodes dead, repairs what they left, and removes them. Several
// nodes may do it at once.
func (m *Member) removeDead(ctx context.Context) error {
	m.mu.Lock()
	all, steady, service := m.all, time.Since(m.since) > steadyTime, m.service
	m.mu.Unlock()
	var dead []engine.Node
	for _, n := range all {
		if !n.Dead && n.Silent > engine.DeadAfter && steady {
			declared, err := m.config.Index.GiveUp(ctx, n.Epoch)
			if err != nil {
				return err
			}
			n.Dead = declared
			if declared {
				m.config.Log.Warn("a node does not answer: it was given up", "node", n.Name, "address", n.Address)
			}
		}
		if n.Dead {
			dead = append(dead, n)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	if err := service.Reap(ctx); err != nil {
		return err
	}
	for _, n := range dead {
		if n.Revoked && n.Silent < revokedTime {
			continue // until all apis have seen why
		}
		if err := m.config.Index.RemoveNode(ctx, n.Epoch); err != nil {
			return err
		}
	}
	return m.look(ctx)
}

// revokedTime is how long a revoked worker stays in the table.
const revokedTime = 10 * time.Second

// Drain has this node take nothing new.
func (m *Member) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.draining = true
}

// Leave ends the beats and removes this node. What it still holds is lost.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	cancel, self, follows := m.cancel, m.self, m.service != nil
	m.mu.Unlock()
	cancel()
	if follows {
		<-m.done
	}
	return m.config.Index.RemoveNode(ctx, self)
}

// Self implements engine.Cluster.
func (m *Member) Self() engine.Epoch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// Node implements engine.Cluster.
func (m *Member) Node(epoch engine.Epoch) (engine.Node, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.nodes[epoch]
	return n.Node, ok
}

// Life implements engine.Cluster.
func (m *Member) Life(epoch engine.Epoch) context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.nodes[epoch]; ok {
		return n.Context
	}
	ended, end := context.WithCancel(context.Background())
	end()
	return ended
}

// Nodes returns all nodes as of the last beat.
func (m *Member) Nodes() []engine.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all
}

// Alone reports whether this node is the only one that serves requests, as far as is known.
func (m *Member) Alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for epoch, n := range m.nodes {
		if epoch != m.self && n.Role != engine.RoleWorker {
			return false
		}
	}
	return true
}

// Check implements engine.Cluster.
func (m *Member) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.beat) > engine.DeadAfter {
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Refusal: engine.RefusedDatabase,
			RetryAfter: 2 * time.Second, Hint: "Try again in some seconds.",
			Err: errors.New("this node cannot reach the database of its cluster")}
	}
	if m.draining || m.asked {
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Refusal: engine.RefusedDrain, RetryAfter: time.Second,
			Hint: "Try again: another node takes it.", Err: errors.New("this node was asked to take nothing new")}
	}
	return nil
}

// Looked returns when the result of Nodes was read.
func (m *Member) Looked() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looked
}

// Claim implements engine.Cluster.
func (m *Member) Claim(ctx context.Context, id engine.ID, from int64, worker engine.Epoch) (engine.Place, error) {
	if err := m.Check(); err != nil {
		return engine.Place{}, err
	}
	return m.config.Index.ClaimSession(ctx, id, from, engine.Place{Holder: m.Self(), Worker: worker})
}

// BeatWorker notes a beat of a worker, which has no database of its own. Without an epoch the
// worker is registered under a new one, and a former one of its name is removed. BeatWorker
// returns ErrNotFound if the worker was declared dead: it must register again, without its
// workspaces. If drain is set the worker shall take nothing new.
func (m *Member) BeatWorker(ctx context.Context, node engine.Node) (epoch engine.Epoch, drain bool, err error) {
	if err := m.config.Index.AdmitWorker(ctx, node.Name, m.config.Approval); err != nil {
		return 0, false, err
	}
	if node.Epoch != 0 {
		drain, err := m.config.Index.BeatWorker(ctx, node)
		return node.Epoch, drain, err
	}
	for _, n := range m.Nodes() {
		if n.Role == engine.RoleWorker && n.Name == node.Name {
			if err := m.config.Index.RemoveNode(ctx, n.Epoch); err != nil {
				return 0, false, err
			}
		}
	}
	node.Epoch, node.Role = engine.NewEpoch(), engine.RoleWorker
	return node.Epoch, false, m.config.Index.AddNode(ctx, node)
}

// LeaveWorker removes a worker, if the epoch is that of one of that name.
func (m *Member) LeaveWorker(ctx context.Context, name string, epoch engine.Epoch) error {
	return m.config.Index.RemoveWorker(ctx, name, epoch)
}
