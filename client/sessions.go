package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"time"
)

// SessionKind is how a session keeps its workspace.
type SessionKind string

// The kinds of sessions.
const (
	KindFiles SessionKind = "files" // its files are kept in the store
	KindHeld  SessionKind = "held"  // kept as a workspace in memory
	KindLive  SessionKind = "live"  // with an interpreter that stays
)

// FileRole is how a file came to its session.
type FileRole string

// A file was given to the session, or made by its programs.
const (
	RoleInput  FileRole = "input"
	RoleOutput FileRole = "output"
)

// Session is a workspace over several runs.
type Session struct {
	ID        string      `json:"id"`
	Kind      SessionKind `json:"kind"`
	Language  string      `json:"language,omitempty"` // of a live one
	Image     string      `json:"image,omitempty"`    // of a live one; empty: none
	Wall      Wall        `json:"wall,omitempty"`     // of its programs; of KindFiles at least; empty: not known
	Secrets   []Secret    `json:"secrets,omitempty"`  // of a live one, without their values
	CreatedAt time.Time   `json:"created_at"`
	ExpiresAt time.Time   `json:"expires_at"`

	Live *LiveState `json:"live,omitempty"` // of a live one, from GetSession
}

// SessionRequest asks for a session. Everything in it may be zero.
type SessionRequest struct {
	Kind SessionKind `json:"kind,omitempty"` // empty: KindFiles
	// of a live one: "python", "javascript", "typescript", "bash" or "r"; empty: python, or what the
	// image has
	Language string        `json:"language,omitempty"`
	Packages string        `json:"python_packages,omitempty"` // of a live one: a set of Python packages
	Image    string        `json:"image,omitempty"`           // of a live one; see RunRequest
	Wall     Wall          `json:"wall,omitempty"`            // see RunRequest
	Mounts   []string      `json:"mounts,omitzero"`           // of a live one; see RunRequest
	Volumes  []VolumeMount `json:"volumes,omitempty"`         // of a live one; see RunRequest
	Network  *Network      `json:"network,omitempty"`         // of a live one; nil: what the key says
	Secrets  []Secret      `json:"secrets,omitempty"`         // of a live one; in memory alone, see SetSecrets
	TTL      time.Duration `json:"ttl_seconds,omitempty"`     // in whole seconds
	Files    []FileRef     `json:"files,omitempty"`
	// of a held one WorkspaceBytes and Inodes; Timeout of a live one is the default of its cells
	Limits *Limits `json:"limits,omitempty"`
	// Snapshot is the id of a snapshot, or a name, of which the newest counts. The session is of its
	// kind, with its files; beside it only TTL and Secrets may be set.
	Snapshot string `json:"snapshot,omitempty"`
}

func (r *SessionRequest) wire() any {
	type plain SessionRequest
	return &struct {
		*plain
		TTL amount `json:"ttl_seconds,omitzero"`
	}{(*plain)(r), seconds(&r.TTL)}
}

// MarshalJSON implements json.Marshaler.
func (r SessionRequest) MarshalJSON() ([]byte, error) { return marshal(r.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *SessionRequest) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, r.wire()) }

// SessionFile is a file and its place in a session.
type SessionFile struct {
	File
	Role     FileRole `json:"role"`
	ReadOnly bool     `json:"read_only"`
}

// CreateSession makes a session.
func (c *Client) CreateSession(ctx context.Context, req SessionRequest) (*Session, error) {
	return fetch[Session](ctx, c, post("/sessions", req))
}

// GetSession returns a session.
func (c *Client) GetSession(ctx context.Context, id string) (*Session, error) {
	return fetch[Session](ctx, c, get("/sessions/"+segment(id), nil))
}

// ListSessions returns sessions, and the After of the next page, which is
// empty after the last.
func (c *Client) ListSessions(ctx context.Context, page Page) (sessions []Session, next string, err error) {
	return list[Session](ctx, c, "/sessions", "sessions", page.query())
}

// AllSessions yields sessions as ListSessions returns them, over as many pages as necessary. An error ends
// the sequence.
func (c *Client) AllSessions(ctx context.Context) iter.Seq2[Session, error] {
	return everyPage(func(page Page) ([]Session, string, error) { return c.ListSessions(ctx, page) })
}

// DeleteSession ends the programs of a session and deletes it. Its files stay until they expire.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.call(ctx, del("/sessions/"+segment(id)), nil)
}

// SessionFiles returns the files of a session in order of path.
func (c *Client) SessionFiles(ctx context.Context, id string) ([]SessionFile, error) {
	all, _, err := list[SessionFile](ctx, c, "/sessions/"+segment(id)+"/files", "files", nil)
	return all, err
}

// Archive writes the files of a session to w as a zip. Hidden files, programs
// and files that tools run by themselves are left out; LEFT-OUT.txt in the zip
// names them.
func (c *Client) Archive(ctx context.Context, id string, w io.Writer) error {
	return c.archive(ctx, id, nil, w)
}

// ArchiveHeld is Archive with the files that a person should review before a tool reads them. Git's
// own files are left out all the same.
func (c *Client) ArchiveHeld(ctx context.Context, id string, w io.Writer) error {
	return c.archive(ctx, id, url.Values{"held": {"true"}}, w)
}

func (c *Client) archive(ctx context.Context, id string, query url.Values, w io.Writer) error {
	return c.save(ctx, get(sessionPath(id, "/archive"), query), w)
}
