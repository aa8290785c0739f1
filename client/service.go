package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// Key lets a caller in.
type Key struct {
	ID        string    `json:"id"`
	Owner     string    `json:"owner"`
	Admin     bool      `json:"admin"`
	CreatedAt time.Time `json:"created_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"` // zero: in force
	// set of Python packages of its programs; empty: as the protocol's
	Packages string `json:"python_packages,omitempty"`
	// Images are those that its programs can have, the first by default; empty: all. "host" is none.
	Images []string `json:"images,omitempty"`
	// Network has the rules of what its programs may contact; see Network.
	Network []string `json:"network,omitempty"`
	// Mounts are those that its programs may ask for, and have unless a request says otherwise; see RunRequest.
	Mounts []string `json:"mounts,omitempty"`
	// Users is how many users of an application may have something at once, and Shares how many times
	// as much as one owner all of them together; 0: any number of users, and as much as one owner.
	Users  int      `json:"users,omitempty"`
	Shares int      `json:"shares,omitempty"`
	Only   []string `json:"only,omitempty"` // protocols that it opens; empty: all
	Wall   Wall     `json:"wall,omitempty"` // that its programs have at least; empty: that of the service
	// Month is what all callers with the key may use in a month, as in "runs=1000,cpu=10h"; see MonthQuota. Empty: as
	// their owner may.
	Month string `json:"month,omitempty"`
	Token string `json:"token,omitempty"` // only in the answer of CreateKey
}

// NewKey is a key to be made.
type NewKey struct {
	Owner    string   `json:"owner"`
	Admin    bool     `json:"admin"`
	Packages string   `json:"python_packages,omitempty"` // set of Python packages of its programs
	Images   []string `json:"images,omitempty"`          // see Key

	Network []string `json:"network,omitempty"` // rules of what its programs may contact; empty: the service's for all
	Mounts  []string `json:"mounts,omitempty"`  // see Key

	Users  int      `json:"users,omitempty"`  // see Key; Shares 0: as many
	Shares int      `json:"shares,omitempty"` // at most Users are useful
	Only   []string `json:"only,omitempty"`   // as jupyter, terminal or api; empty: all
	Wall   Wall     `json:"wall,omitempty"`   // see Key
	Month  string   `json:"month,omitempty"`  // see Key
}

// CreateKey creates a key. Only its result has the Token. It needs an admin key, as ListKeys and
// RevokeKey do.
func (c *Client) CreateKey(ctx context.Context, wanted NewKey) (*Key, error) {
	return fetch[Key](ctx, c, post("/keys", wanted))
}

// ListKeys returns every key, revoked ones too.
func (c *Client) ListKeys(ctx context.Context) ([]Key, error) {
	all, _, err := list[Key](ctx, c, "/keys", "keys", nil)
	return all, err
}

// RevokeKey ends a key at once.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.call(ctx, del("/keys/"+segment(id)), nil)
}

// Language is a language of the service.
type Language struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Title   string   `json:"title"`
	Entry   string   `json:"entry"`   // the file that the code is written to
	Version string   `json:"version"` // what is installed, as it calls itself; empty if nothing is

	// PackageSets are the sets of packages that a run can name; only Python has some.
	PackageSets []PackageSet `json:"package_sets,omitempty"`
}

// PackageSet is a set of Python packages, and whose programs get it.
type PackageSet struct {
	Name    string   `json:"name"`              // for RunRequest.Packages
	Default bool     `json:"default,omitempty"` // for programs that no rule gives another one
	For     []string `json:"for"`               // protocols whose programs get it: "native", "onyx", "librechat"
	Instead string   `json:"instead,omitempty"` // the set that they get because this one is not installed
}

// Languages returns the languages that a run can name.
func (c *Client) Languages(ctx context.Context) ([]Language, error) {
	var out []Language
	err := c.call(ctx, get("/languages", nil), &out)
	return out, err
}

// ServiceLimits are the default and maximum limits of a service.
type ServiceLimits struct {
	Defaults     Limits `json:"defaults"`
	Maxima       Limits `json:"maxima"`
	UploadBytes  int64  `json:"upload_bytes"`
	RequestBytes int64  `json:"request_bytes"` // of one JSON body
}

// Limits returns the limits of the service.
func (c *Client) Limits(ctx context.Context) (*ServiceLimits, error) {
	return fetch[ServiceLimits](ctx, c, get("/limits", nil))
}

// ServiceStatus is the status of a service, counted since its start.
type ServiceStatus struct {
	Runs RunStats   `json:"runs"`
	Live *LiveStats `json:"live"` // nil: it has no live sessions
	// Nodes are the nodes that share the service's database, and its workers; empty: there is no
	// other node.
	Nodes []Node `json:"nodes"`
	Pools []Pool `json:"pools"` // of warm sandboxes; empty: every program starts cold
	// Walls are those in use, first that of programs for which none is asked. Another one starts with the first
	// program that needs it.
	Walls []WallState `json:"walls"`
}

// WallState is a wall that is in use.
type WallState struct {
	Wall    Wall   `json:"wall"` // empty: not known
	Backend string `json:"backend"`
	Strict  bool   `json:"strict"`
	Summary string `json:"summary"`
}

// Pool is a pool of sandboxes in which programs of one kind start warm.
type Pool struct {
	Name    string `json:"name"`    // of the kind: the packages that its programs have imported
	Ready   bool   `json:"ready"`   // its interpreter has started
	Waiting int    `json:"waiting"` // sandboxes
	Wanted  int    `json:"wanted"`  // the current target for Waiting
	Cold    string `json:"cold"`    // why its interpreter does not start, so that every program starts cold; empty: it does
}

// NodeRole is what a node does.
type NodeRole string

// The roles of nodes.
const (
	RoleAll    NodeRole = "all"
	RoleAPI    NodeRole = "api"
	RoleWorker NodeRole = "worker"
)

// NodeState is how a node stands.
type NodeState string

// The states of nodes.
const (
	NodeAlive    NodeState = "alive"
	NodeDraining NodeState = "draining" // it takes no new runs
	NodeSilent   NodeState = "silent"
	NodeDead     NodeState = "dead"
	NodePending  NodeState = "pending" // a worker that waits for approval
	NodeRevoked  NodeState = "revoked" // a worker that may not come back
)

// Node is a process of a cluster.
type Node struct {
	Name    string        `json:"name"`
	Role    NodeRole      `json:"role"`
	State   NodeState     `json:"state"`
	Address string        `json:"address"`
	Version string        `json:"version"`
	Slots   int           `json:"slots"`
	Running int           `json:"running"`
	Queued  int           `json:"queued"`
	Held    int           `json:"held"` // workspaces and interpreters that stay
	Since   time.Time     `json:"since"`
	Silent  time.Duration `json:"silent_ms"` // since its last beat
}

func (n *Node) wire() any {
	type plain Node
	return &struct {
		*plain
		Silent amount `json:"silent_ms"`
	}{(*plain)(n), millis(&n.Silent)}
}

// MarshalJSON implements json.Marshaler.
func (n Node) MarshalJSON() ([]byte, error) { return marshal(n.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Node) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, n.wire()) }

// RunStats counts runs.
type RunStats struct {
	Slots    int              `json:"slots"` // that can compute at the same time
	Running  int              `json:"running"`
	Resting  int              `json:"resting"` // of these, those that wait for something and need no slot
	Queued   int              `json:"queued"`
	Rejected int64            `json:"rejected"`
	Ended    map[Status]int64 `json:"ended"`
}

// LiveStats counts the interpreters of live sessions.
type LiveStats struct {
	Interpreters int    `json:"interpreters"`
	Busy         int    `json:"busy"` // that run a cell
	Limit        int    `json:"limit"`
	OwnerLimit   int    `json:"owner_limit"`
	Cells        uint64 `json:"cells"`
	Lost         uint64 `json:"lost"`    // ended in a cell, or were killed
	Evicted      uint64 `json:"evicted"` // ended because another needed the room
	Expired      uint64 `json:"expired"` // ended idle
}

// Status returns the status of the service. It needs an admin key.
func (c *Client) Status(ctx context.Context) (*ServiceStatus, error) {
	return fetch[ServiceStatus](ctx, c, get("/status", nil))
}

// HealthStatus is how a service is.
type HealthStatus string

// The states of a service.
const (
	HealthOK       HealthStatus = "ok"
	HealthDegraded HealthStatus = "degraded"
	HealthDraining HealthStatus = "draining"
)

// Health is how a service is.
type Health struct {
	Status    HealthStatus `json:"status"`
	Problem   string       `json:"problem"` // why runs are not accepted, and what to do about it; empty: they are
	Version   string       `json:"version"`
	Isolation *Isolation   `json:"isolation"` // nil: the sandbox does not answer
}

// Isolation describes how programs are isolated from the host.
type Isolation struct {
	Wall    Wall    `json:"wall"` // of programs for which none is asked; empty: not known
	Backend string  `json:"backend"`
	Strict  bool    `json:"strict"`
	Summary string  `json:"summary"`
	Layers  []Layer `json:"layers"`
}

// LayerState is how a layer of the isolation stands.
type LayerState string

// The states of layers.
const (
	LayerEnforced LayerState = "enforced"
	LayerWeaker   LayerState = "weaker"
	LayerMissing  LayerState = "missing"
)

// Layer is one layer of the isolation.
type Layer struct {
	Name   string     `json:"name"`
	State  LayerState `json:"state"`
	Detail string     `json:"detail"`
	Cure   string     `json:"cure"`
}

// Health asks how the service is. It needs no key.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return fetch[Health](ctx, c, get("/health", nil))
}

// Network is what a program may contact. Without one it is the default of the caller's key, which
// for most is nothing; with an empty Allow it is nothing.
type Network struct {
	// Allow are rules: a host, *.DOMAIN, an address or a network, each perhaps with a
	// port; https://HOST/PATH/*; * for every public address; packages for the
	// registries of pip and npm. Without a port they are for 80 and 443.
	Allow    []string `json:"allow"`
	Deny     []string `json:"deny,omitempty"`      // of what Allow names
	MaxBytes int64    `json:"max_bytes,omitempty"` // in both directions together; 0: the service's limit
}

// Verdict is what became of a connection.
type Verdict string

// The verdicts.
const (
	VerdictAllowed Verdict = "allowed"
	VerdictRefused Verdict = "refused"
	VerdictFailed  Verdict = "failed"
)

// Contact is a connection that a program asked for.
type Contact struct {
	Run      string        `json:"run"`
	Owner    string        `json:"owner"`
	At       time.Time     `json:"at"`
	Host     string        `json:"host"` // as it was asked for
	Port     int           `json:"port"`
	Address  string        `json:"address,omitempty"` // that it was connected to
	Sent     int64         `json:"sent"`
	Received int64         `json:"received"`
	Took     time.Duration `json:"took_ms"`
	Verdict  Verdict       `json:"verdict"`
	Reason   string        `json:"reason,omitempty"`
	More     int           `json:"more,omitempty"` // further ones that are not listed one by one
}

func (k *Contact) wire() any {
	type plain Contact
	return &struct {
		*plain
		Took amount `json:"took_ms"`
	}{(*plain)(k), millis(&k.Took)}
}

// MarshalJSON implements json.Marshaler.
func (k Contact) MarshalJSON() ([]byte, error) { return marshal(k.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (k *Contact) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, k.wire()) }

// Contacts returns the connections of the caller's programs, newest first: of one run, or of all if
// run is empty. An admin gets those of all owners.
func (c *Client) Contacts(ctx context.Context, run string) ([]Contact, error) {
	q := url.Values{}
	if run != "" {
		q.Set("run", run)
	}
	all, _, err := list[Contact](ctx, c, "/network", "contacts", q)
	return all, err
}
