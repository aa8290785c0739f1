package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// Epoch names one life of a node. It is random, so that none is ever used twice, also
// after the database was put back from a backup. Zero is nobody's, and of a service that
// shares its index with no other one its own.
type Epoch int64

// NewEpoch returns one that nobody has had.
func NewEpoch() Epoch {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return Epoch(binary.BigEndian.Uint64(raw[:])>>2 | 1)
}

// epochDigits is the length of an epoch in an id.
const epochDigits = 12

// Prefix is the epoch as the beginning of an id of what is in a node's memory alone;
// empty for zero.
func (e Epoch) Prefix() string {
	if e == 0 {
		return ""
	}
	text := strconv.FormatInt(int64(e), 36)
	return strings.Repeat("0", epochDigits-len(text)) + text
}

// EpochOf returns the epoch that an id begins with. One that begins with none has one that
// no node has.
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

// NodeRole is what a node does.
type NodeRole string

// The roles.
const (
	RoleAll    NodeRole = "all"    // both
	RoleAPI    NodeRole = "api"    // answers requests
	RoleWorker NodeRole = "worker" // runs programs
)

const (
	// BeatInterval is how often a node says that it is there.
	BeatInterval = time.Second
	// DeadAfter is how long a node may be silent before its peers give it up.
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
	Draining  bool // takes nothing new
	Dead      bool // its peers have given it up
	Since     time.Time
	Silent    time.Duration // since it was last heard, when it was asked for
}

// State is how a node is, in a word: alive, draining, silent or dead.
func (n *Node) State() string {
	switch {
	case n.Dead:
		return "dead"
	case n.Silent > DeadAfter:
		return "silent"
	case n.Draining:
		return "draining"
	}
	return "alive"
}

// Load is what a node has to do.
type Load struct {
	Running, Queued int   // programs
	Held            int   // workspaces that stay
	Memory          int64 // in use by programs, in bytes
}

// NodeIndex remembers nodes. Only its own clock counts.
type NodeIndex interface {
	// AddNode records a node, heard just now.
	AddNode(ctx context.Context, node Node) error
	// Beat notes that a node is there. It returns whether the node was asked to take
	// nothing new, and ErrNotFound when its peers have given it up: it is to begin a new
	// life, with nothing of the old one.
	Beat(ctx context.Context, epoch Epoch, load Load, draining bool) (drain bool, err error)
	// Nodes returns all nodes, those given up and not yet forgotten too, by name.
	Nodes(ctx context.Context) ([]Node, error)
	// GiveUp marks a node as dead, for good, if it has been silent for DeadAfter.
	GiveUp(ctx context.Context, epoch Epoch) (bool, error)
	// RemoveNode forgets a node.
	RemoveNode(ctx context.Context, epoch Epoch) error
	// DrainNode asks the nodes of a name to take nothing new, or takes that back:
	// ErrNotFound if there are none.
	DrainNode(ctx context.Context, name string, drain bool) error
	// ClaimSession gives a session a new place, if it is still at the given generation
	// and nobody alive other than the claimant holds it; else ErrConflict.
	ClaimSession(ctx context.Context, id ID, from int64, to Place) (Place, error)
	// Agree returns what the nodes agreed on under a name: the first value that one had.
	Agree(ctx context.Context, name, value string) (string, error)
}

// SomeWorker is the Worker of a Place whose holder has it on one of its workers, with its
// files stored: another holder can make it anew.
const SomeWorker Epoch = 1

// Place is where a session is that is more than its files.
type Place struct {
	Holder     Epoch // the node that leads it; zero: nobody
	Worker     Epoch // the node that has its workspace; zero: the holder
	Generation int64 // counts the places, so that what a former one stores can be refused
}

// Cluster is what a service knows of the others that share its index.
type Cluster interface {
	// Self is this life of this node.
	Self() Epoch
	// Check returns an error when this node may have been given up by its peers.
	Check() error
	// Node returns a node that is alive.
	Node(epoch Epoch) (Node, bool)
	// Claim makes this node the holder of a session, as ClaimSession.
	Claim(ctx context.Context, id ID, from int64, worker Epoch) (Place, error)
}
