package client

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// Snapshot is the files of a session at one moment, of which any number of sessions can be made:
// see SessionRequest.
type Snapshot struct {
	ID        string        `json:"id"`
	Name      string        `json:"name,omitempty"`
	Session   string        `json:"session"` // of which it was made
	Kind      SessionKind   `json:"kind"`
	Language  string        `json:"language,omitempty"` // of a live one
	Wall      Wall          `json:"wall,omitempty"`     // that sessions of it have at least; empty: not known
	Memory    bool          `json:"memory"`             // variables and processes are in it
	Files     int           `json:"files"`
	Bytes     int64         `json:"bytes"`
	CreatedAt time.Time     `json:"created_at"`
	ExpiresAt time.Time     `json:"expires_at"`
	Dropped   []DroppedFile `json:"dropped,omitempty"` // files of the session that it lacks; from CreateSnapshot
}

// Copies are the sessions that ForkSession has made.
type Copies struct {
	Sessions []Session     `json:"sessions"`
	Memory   bool          `json:"memory"`            // they have variables and processes of their source
	Dropped  []DroppedFile `json:"dropped,omitempty"` // files of the source that they lack
}

// PauseSession ends what runs in a live session, and leaves it to its files: the next use starts
// a new interpreter.
func (c *Client) PauseSession(ctx context.Context, id string) error {
	return c.call(ctx, post("/sessions/"+segment(id)+"/pause", map[string]bool{"memory": false}), nil)
}

// CreateSnapshot makes a snapshot of the files of a session; name may be empty.
func (c *Client) CreateSnapshot(ctx context.Context, session, name string) (*Snapshot, error) {
	return fetch[Snapshot](ctx, c, post("/sessions/"+segment(session)+"/snapshots", map[string]string{"name": name}))
}

// ForkSession makes copies of a session, whose interpreters are new.
func (c *Client) ForkSession(ctx context.Context, id string, count int) (*Copies, error) {
	return fetch[Copies](ctx, c, post("/sessions/"+segment(id)+"/fork", map[string]int{"count": count}))
}

// GetSnapshot returns a snapshot by its id, or the newest of a name.
func (c *Client) GetSnapshot(ctx context.Context, id string) (*Snapshot, error) {
	return fetch[Snapshot](ctx, c, get("/snapshots/"+segment(id), nil))
}

// ListSnapshots returns the snapshots of a session, or all if session is empty, and the After of
// the next page, which is empty after the last.
func (c *Client) ListSnapshots(
	ctx context.Context, session string, page Page,
) (snapshots []Snapshot, next string, err error) {
	query := page.query()
	if session != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set("session", session)
	}
	return list[Snapshot](ctx, c, "/snapshots", "snapshots", query)
}

// AllSnapshots yields snapshots as ListSnapshots returns them, over as many pages as necessary. An
// error ends the sequence.
func (c *Client) AllSnapshots(ctx context.Context, session string) iter.Seq2[Snapshot, error] {
	return everyPage(func(page Page) ([]Snapshot, string, error) { return c.ListSnapshots(ctx, session, page) })
}

// DeleteSnapshot deletes a snapshot. Sessions that were made of it keep their files.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.call(ctx, del("/snapshots/"+segment(id)), nil)
}
