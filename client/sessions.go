package client

import (
	"context"
	"io"
	"net/url"
	"time"
)

// Session is a workspace over several runs.
type Session struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`               // "files", "held" or "live"
	Language  string    `json:"language,omitempty"` // of a live one
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`

	Live *LiveState `json:"live,omitempty"` // of a live one, from GetSession
}

// SessionRequest asks for a session. Everything in it may be zero.
type SessionRequest struct {
	// "files": kept in the store; "held": kept as a workspace in memory; "live": with an interpreter that stays
	Kind string `json:"kind,omitempty"`
	// of a live one: "python", "javascript", "typescript" or "bash"; empty: python
	Language   string    `json:"language,omitempty"`
	Packages   string    `json:"python_packages,omitempty"` // of a live one: a set of Python packages
	Network    *Network  `json:"network,omitempty"`         // of a live one; nil: what the key says
	TTLSeconds int64     `json:"ttl_seconds,omitempty"`
	Files      []FileRef `json:"files,omitempty"`
	// of a held one WorkspaceBytes and Inodes; TimeoutMS of a live one is the default of its cells
	Limits *Limits `json:"limits,omitempty"`
}

// SessionFile is a file and its place in a session.
type SessionFile struct {
	File
	Role     string `json:"role"` // "input" or "output"
	ReadOnly bool   `json:"read_only"`
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
