package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Owner is the tenant that an object belongs to. Every row has an owner, and
// every query names it.
type Owner string

// SubjectOwner returns the owner for a subject of an identity provider. It is a hash, so that neither can choose the
// name of another owner.
func SubjectOwner(issuer, subject string) Owner {
	sum := sha256.Sum256([]byte(issuer + "\x00" + subject))
	return Owner("oauth-" + hex.EncodeToString(sum[:16]))
}

// A Caller is the authenticated sender of a request.
type Caller struct {
	Owner Owner
	Key   string // public id of the key that was used; empty: none was needed
	Admin bool   // may manage keys
	Name  string // of a person who has signed in, for people; empty: not known

	Packages string // set of Python packages of the key's programs; empty: as their protocol's
	Images   string // of the key, as in Key
	Network  string // of the key, as in Key; empty: its programs may ask for Config.Network.Allow
	Mounts   string // of the key, as in Key
	Wall     Wall   // of the key: its programs have this one at least
	Month    string // of the key, as in Key
}

// Operator reports whether the caller may know of all owners: it has a key with admin rights, or needs none.
func (c Caller) Operator() bool { return c.Admin || c.Owner == Local && c.Key == "" }

// Local is the caller that needs no key: on loopback, on the unix socket, and
// from trusted networks.
const Local Owner = "local"

// Digest is a SHA-256. It is the address of a file's bytes.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads the 64 hexadecimal digits that String wrote.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	raw, err := hex.DecodeString(s)
	if err != nil || copy(d[:], raw) != len(d) || len(raw) != len(d) {
		return Digest{}, ErrNotFound
	}
	return d, nil
}

// File is a name and a lifetime for bytes that are kept by Blobs.
type File struct {
	ID        ID
	Owner     Owner
	Origin    Origin
	Name      string // as the caller named it; data, never a path on this host
	Path      string // relative path in the workspace where the file was made or lies; empty for an upload
	Size      int64
	MIME      string
	SHA256    Digest
	Run       ID // that made it; zero: uploaded
	CreatedAt time.Time
	ExpiresAt time.Time
	TTL       time.Duration // a use moves ExpiresAt to now + TTL
}

// FileQuery selects files for a list, newest first.
type FileQuery struct {
	Owner  Owner
	Origin Origin // empty: every origin
	Page   Page
}

// Upload describes a file that is being stored.
type Upload struct {
	ID     ID // from NewID, already sent to the edge's client; zero: a new one
	Name   string
	Origin Origin
	MIME   string        // empty: found from name and content
	TTL    time.Duration // zero: the service's default
	Max    int64         // bytes; zero: the service's maximum
}

// SessionKind is the place of a session's files between runs.
type SessionKind string

const (
	// SessionFiles keeps files in the store: staged for each run, captured
	// after it. It survives a restart.
	SessionFiles SessionKind = "files"
	// SessionHeld keeps the workspace itself, in memory. It is restored from the
	// stored files if it is lost.
	SessionHeld SessionKind = "held"
	// SessionLive is SessionFiles with an interpreter that stays between cells.
	// Their changes are stored after each cell. See the package live.
	SessionLive SessionKind = "live"
)

// A Session is a workspace that several runs share, one after the other.
type Session struct {
	ID        ID
	Owner     Owner
	Origin    Origin
	Kind      SessionKind
	Implicit  bool   // made on the side: for a single run, or by an edge for an upload
	Scope     string // data of the edge that made it, about its caller; ignored by the engine
	Live      string // of a live session: how to start its interpreter; ignored by the engine
	CreatedAt time.Time
	ExpiresAt time.Time
	TTL       time.Duration // a use moves ExpiresAt to now + TTL
	Place     Place         // in a cluster
	Wall      Wall          // of its programs; of SessionFiles at least; empty: not known
	Name      string        // that its owner gave it; empty: none
}

// SessionRequest asks for a session.
type SessionRequest struct {
	Origin Origin
	Kind   SessionKind   // empty: SessionFiles
	TTL    time.Duration // zero: the service's default
	Files  []FileRef     // placed into the workspace at once
	Limits Limits        // of a held workspace: Workspace and Inodes
	Wall   Wall          // empty: as the key and the service say; a weaker one is rejected

	Implicit bool   // see Session
	Scope    string // see Session
	Live     string // see Session; of SessionLive, and not empty
}

// SessionQuery selects sessions for a list, newest first. Implicit sessions
// are left out.
type SessionQuery struct {
	Owner  Owner
	Origin Origin
	Page   Page
}

// Role is the reason why a file is in a session.
type Role string

// A session's file was added by a caller or written by a run.
const (
	RoleInput  Role = "input"
	RoleOutput Role = "output"
)

// SessionFile is a file's place in a session. One file may be in many.
type SessionFile struct {
	Session  ID
	File     ID
	Path     string // unique in the session: a later link replaces an earlier one
	Role     Role
	ReadOnly bool
}

// Key authenticates a caller. Only a hash of its secret is stored.
type Key struct {
	ID        string // public: the part of the token before the secret
	Owner     Owner
	Admin     bool
	Hash      Digest // SHA-256 of the whole token
	CreatedAt time.Time
	RevokedAt time.Time // zero: in force
	Packages  string    // set of Python packages of its programs; empty: as their protocol's
	Images    string    // that its programs may have, separated by commas, the first by default; empty: all
	Network   string    // rules for its programs, separated by commas; see Caller
	Mounts    string    // that its programs have unless a request says otherwise, separated by commas
	Allowance Allowance // of its owner, if no other key of it has more
	Only      string    // protocols that it opens, separated by commas; empty: all
	Wall      Wall      // that its programs have at least; empty: that of the service
	Month     string    // a MonthQuota, which all callers with the key use up together; empty: none
}

// Protocols returns the list of Only.
func (k Key) Protocols() []string { return list(k.Only) }

// ImageNames returns the list of Images.
func (k Key) ImageNames() []string { return list(k.Images) }

// Rules returns the list of Network.
func (k Key) Rules() []string {
	return list(k.Network)
}

// MountNames returns the list of Mounts.
func (k Key) MountNames() []string { return list(k.Mounts) }

// list splits a list at its commas.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// NewKey holds the settings of a new key.
type NewKey struct {
	Owner    Owner
	Admin    bool
	Packages string
	Images   []string
	Network  []string
	Mounts   []string // see MountName
	Wall     Wall     // see Key
	Month    string   // see Key

	Allowance Allowance // Shares 0: as many as Users
	Only      []string  // protocols that it opens; empty: all
}
