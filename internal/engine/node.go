package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// An Epoch names one life of a node, from its start to its end. It is random, so that it
// is never reused, also after the database was restored from a backup. Zero is no node,
// and the epoch of a service that does not share its index.
type Epoch int64

// NewEpoch returns a random epoch.
func NewEpoch() Epoch {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return Epoch(binary.BigEndian.Uint64(raw[:])>>2 | 1)
}

// epochDigits is the length of an epoch in an id.
const epochDigits = 12

// Prefix returns the epoch as the prefix of the id of an object that only a node's memory
// has; empty for zero.
func (e Epoch) Prefix() string {
	if e == 0 {
		return ""
	}
	text := strconv.FormatInt(int64(e), 36)
	return strings.Repeat("0", epochDigits-len(text)) + text
}

// EpochOf returns the epoch that an id begins with, zero if there is none.
func EpochOf(id string) Epoch {
	if len(id) < epochDigits {
		return 0
	}
	e, err := strconv.ParseInt(id[:epochDigits], 36, 64)
	if err != nil || e <= 0 {
		return 0
	}
	return Epoch(e)
}

// NodeRole is the role of a node.
type NodeRole string

// The roles.
const (
	RoleAll    NodeRole = "all"    // both
	RoleAPI    NodeRole = "api"    // answers requests
	RoleWorker NodeRole = "worker" // runs programs
)

const (
	// BeatInterval is the time between two beats of a node.
	BeatInterval = time.Second
	// DeadAfter is how long a node may be silent before its peers declare it dead.
	DeadAfter = 2500 * time.Millisecond
)

// Node is a process that shares the index with others.
type Node struct {
	Epoch     Epoch
	Name      string
	Role      NodeRole
	Address   string // URL under which its peers reach it
	Version   string
	Slots     int   // programs that it runs at once
	Memory    int64 // for programs, in bytes
	Languages []string
	Packages  []string // sets
	Load      Load
	Draining  bool // refuses new work
	Dead      bool // declared dead by its peers
	Revoked   bool // a worker that an operator has revoked
	Since     time.Time
	Silent    time.Duration // since its last beat, as of the query
}

// State returns the state of a node: alive, draining, silent, dead or revoked.
func (n *Node) State() string {
	switch {
	case n.Revoked:
		return "revoked"
	case n.Dead:
		return "dead"
	case n.Silent > DeadAfter:
		return "silent"
	case n.Draining:
		return "draining"
	}
	return "alive"
}

// Load is the load of a node.
type Load struct {
	Running, Queued int   // programs
	Held            int   // workspaces that stay
	Memory          int64 // in use by programs, in bytes
	DiskFree        int64 // on the disk of the data directory, in bytes; 0: not known
	MemoryFree      int64 // that new programs could have, in bytes; 0: not known
}

// NodeIndex records nodes. Only its own clock counts.
type NodeIndex interface {
	// AddNode records a node, whose first beat is now.
	AddNode(ctx context.Context, node Node) error
	// Beat records that a node is alive. It reports whether the node was asked to drain.
	// ErrNotFound means that its peers have declared it dead: it must begin a new epoch,
	// without the objects of the old epoch.
	Beat(ctx context.Context, epoch Epoch, load Load, draining bool) (drain bool, err error)
	// Nodes returns all nodes by name, including dead nodes that are not removed yet.
	Nodes(ctx context.Context) ([]Node, error)
	// GiveUp marks a node as dead, for good, if it has been silent for DeadAfter.
	GiveUp(ctx context.Context, epoch Epoch) (bool, error)
	// RemoveNode deletes a node.
	RemoveNode(ctx context.Context, epoch Epoch) error
	// DrainNode asks the nodes of a name to drain, or revokes that. Without such nodes it
	// returns ErrNotFound.
	DrainNode(ctx context.Context, name string, drain bool) error
	// AdmitWorker returns ErrForbidden for the name of a worker that is revoked, or that nobody has approved if that is
	// needed.
	AdmitWorker(ctx context.Context, name string, approval bool) error
	// BeatWorker is Beat for a worker: ErrNotFound also if the epoch is not that of a worker of that name.
	BeatWorker(ctx context.Context, node Node) (drain bool, err error)
	// RemoveWorker deletes a worker, if the epoch is that of one of that name.
	RemoveWorker(ctx context.Context, name string, epoch Epoch) error
	// ClaimSession gives a session a new place, if it is still at the given generation
	// and no other live node holds it; else ErrConflict.
	ClaimSession(ctx context.Context, id ID, from int64, to Place) (Place, error)
	// Agree returns the agreed value of a name: the first value that any node proposed.
	Agree(ctx context.Context, name, value string) (string, error)
}

// WorkerState is what operators say about the workers of a name.
type WorkerState string

// The states.
const (
	WorkerPending  WorkerState = "pending" // it waits for approval
	WorkerApproved WorkerState = "approved"
	WorkerRevoked  WorkerState = "revoked"
)

// WorkerName is a name of workers with its state.
type WorkerName struct {
	Name  string
	State WorkerState
	At    time.Time
}

// Place is the location of a session that has more than files.
type Place struct {
	Holder     Epoch // the node that leads it; zero: none
	Worker     Epoch // the node that has its workspace; zero: the holder
	Generation int64 // counts the places, so that writes from a former place can be refused
}

// Cluster describes the other services that share an index.
type Cluster interface {
	// Self is this life of this node.
	Self() Epoch
	// Check returns an error when its peers may have declared this node dead.
	Check() error
	// Node returns a live node.
	Node(epoch Epoch) (Node, bool)
	// Life returns a context that ends when a node is not alive.
	Life(epoch Epoch) context.Context
	// Claim makes this node the holder of a session, as ClaimSession.
	Claim(ctx context.Context, id ID, from int64, worker Epoch) (Place, error)
}
