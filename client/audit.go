package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// AuditEntry is an act of administration: of whom, on what, and what became of it.
type AuditEntry struct {
	At      time.Time `json:"at"`
	Owner   string    `json:"owner,omitempty"` // empty: not known
	Key     string    `json:"key,omitempty"`   // public id; empty: without one
	From    string    `json:"from,omitempty"`  // kind of the address: "socket", "loopback", "private network", "internet", "database"
	Action  string    `json:"action"`          // as "key made"
	Object  string    `json:"object,omitempty"`
	Outcome string    `json:"outcome"` // "done", "refused" or "failed"
	Detail  string    `json:"detail,omitempty"`
	More    int       `json:"more,omitempty"` // acts like it just before, that were too many to be recorded
}

// AuditQuery selects entries.
type AuditQuery struct {
	Since, Before time.Time // zero: no bound
	Limit         int       // 0: 100
}

// Audit returns acts of administration, newest first. It needs an admin key.
func (c *Client) Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error) {
	query := url.Values{}
	for name, at := range map[string]time.Time{"since": q.Since, "before": q.Before} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	all, _, err := list[AuditEntry](ctx, c, "/audit", "entries", query)
	return all, err
}
