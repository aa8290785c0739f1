package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// State is how far a transaction has come.
type State string

// The states of a transaction. Proposed, Committed, Aborted and Discarded are at
// rest. In the others a process is working on it, or died.
const (
	Proposed   State = "proposed"   // kept for a later approval; nothing is written
	Staging    State = "staging"    // new contents are written beside their targets
	Committing State = "committing" // decided: it will be carried out, or wholly reversed
	Published  State = "published"  // every file is in its new state, durably; old ones are cleared away
	Committed  State = "committed"  // and that is done too
	Aborted    State = "aborted"    // every file is in its old state
	Discarded  State = "discarded"  // a proposal that the user rejected
)

// AtRest reports whether nothing has to be recovered.
func (s State) AtRest() bool { return s != Staging && s != Committing && s != Published }

// ErrNotFound says that a store has no such record or blob.
var ErrNotFound = errors.New("not found")

// Store stores the transactions of workspaces and the contents that undo needs. Dir
// is a Store in a directory. It must be outside the folder, so that no change of
// the folder can change it. Its methods may be called from many goroutines and by
// many processes.
type Store interface {
	// Lock waits until no other process or goroutine holds the workspace, and
	// locks it until unlock. The lock of a process that dies is released. If the
	// context ends first, the error names the holder.
	Lock(ctx context.Context, workspace string) (unlock func() error, err error)
	// Save keeps a record and the contents, all of them or nothing. Once it
	// has returned they survive a loss of power. A content whose bytes are not
	// those of its hash makes it fail.
	Save(ctx context.Context, r *Record, contents ...*Content) error
	// Load returns a record, or ErrNotFound.
	Load(ctx context.Context, id string) (*Record, error)
	// List returns the records of a workspace that are in one of the states,
	// the newest first; limit 0 is all of them.
	List(ctx context.Context, workspace string, limit int, states ...State) ([]*Record, error)
	// Open opens kept contents for reading, or returns ErrNotFound. The bytes
	// are checked against the hash while they are read.
	Open(ctx context.Context, hash Hash) (io.ReadCloser, error)
	// Prune drops the oldest records at rest, and the contents that no record needs any
	// more, until the rest fits.
	Prune(ctx context.Context, keep Keep) error
}

// Keep is the amount of history that a store keeps. Zero values mean no limit.
type Keep struct {
	Age   time.Duration // of a transaction
	Bytes int64         // of contents
}

// Record is a Store's entry for a transaction. A store treats it as one JSON document and
// interprets only the fields up to Updated.
type Record struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	State     State     `json:"state"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`

	Root   string       `json:"root"`
	Origin Origin       `json:"origin"`
	Group  string       `json:"group,omitempty"` // of the files of one best-effort commit
	Files  []FileChange `json:"files"`
	Steps  []Step       `json:"steps,omitempty"`  // changes of the folder, planned or done
	Made   []string     `json:"made,omitempty"`   // directories
	Unmake []string     `json:"unmake,omitempty"` // directories to remove if they are empty
	Kept   []KeptBytes  `json:"kept,omitempty"`   // bytes of other processes that were met
	Left   []Skipped    `json:"left,omitempty"`   // files that a reversal had to leave
	Key    []byte       `json:"key,omitempty"`    // of the approval token

	Findings []Finding `json:"findings,omitempty"`
	// Bases are the contents from which both versions of a file in conflict
	// were made, by the file's id.
	Bases   map[string]Fact `json:"bases,omitempty"`
	Receipt *Receipt        `json:"receipt,omitempty"` // if the transaction has ended
	// Attached belongs to the caller of Commit: a store may act on it in the
	// same step in which the record becomes Committed, such as queueing posts.
	Attached json.RawMessage `json:"attached,omitempty"`
}

// Hashes returns the hash of each content that the record needs for undo,
// redo, or a commit that is still to come.
func (r *Record) Hashes() []Hash {
	var all []Hash
	seen := map[Hash]bool{{}: true}
	add := func(h Hash) {
		if !seen[h] {
			seen[h] = true
			all = append(all, h)
		}
	}
	for i := range r.Files {
		add(r.Files[i].Pre.Hash)
		add(r.Files[i].Post.Hash)
		add(r.Bases[r.Files[i].ID].Hash)
		for _, reading := range r.Files[i].Readings {
			add(reading.Post.Hash)
		}
	}
	for _, k := range r.Kept {
		add(k.Hash)
	}
	return all
}

// Step is the publication of one file. The temporary file is beside the target, has
// a name that begins with ".airlock-", and holds the new content. A step exchanges
// the two; or moves the temporary file to a target that does not exist; or, for a
// removal, moves the target to the temporary name with "-old" appended. The inodes
// tell how far a dead process has come.
type Step struct {
	File string `json:"file"` // id of the FileChange
	Path string `json:"path"` // the target
	Temp string `json:"slot"` // path of the temporary file
	Pre  Fact   `json:"pre"`  // of the target, before
	Post Fact   `json:"post"` // of the target, afterwards; with the inode of the temporary file
}
