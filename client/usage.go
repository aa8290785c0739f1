package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// Amounts are what was used in a time.
type Amounts struct {
	Runs int64         `json:"runs"` // programs: runs, cells of live sessions, and processes beside them
	CPU  time.Duration `json:"cpu_ms"`
	// MemoryByteSeconds is memory times time. That of a run is its peak, for as long as it ran; that of a live
	// interpreter is measured while it lives, also while it is idle.
	MemoryByteSeconds int64 `json:"memory_byte_seconds"`
	StoredBytes       int64 `json:"stored_bytes"` // of uploads, and of files that programs left
	SentBytes         int64 `json:"sent_bytes"`   // of answers, and what programs sent to the network
}

func (a *Amounts) wire() any {
	type plain Amounts
	return &struct {
		*plain
		CPU amount `json:"cpu_ms"`
	}{(*plain)(a), millis(&a.CPU)}
}

// MarshalJSON implements json.Marshaler.
func (a Amounts) MarshalJSON() ([]byte, error) { return marshal(a.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Amounts) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, a.wire()) }

// UsageDay is what an owner has used in a day of UTC, with a key.
type UsageDay struct {
	Day   string  `json:"day"` // as 2026-11-30
	Owner string  `json:"owner"`
	Key   string  `json:"key,omitempty"` // empty: without a key
	Used  Amounts `json:"used"`
}

// MonthQuota is what may be used in this month, and what is. Zero fields of Most are no bound.
type MonthQuota struct {
	Of   string  `json:"of"` // "owner:" and a name, or "key:" and an id
	Used Amounts `json:"used"`
	Most Amounts `json:"most"`
}

// Usage is what was used in a month.
type Usage struct {
	Month  string       `json:"month"`            // as 2026-11
	Days   []UsageDay   `json:"days"`             // the oldest first
	More   bool         `json:"more,omitempty"`   // there are more than one answer has: name an owner
	Quotas []MonthQuota `json:"quotas,omitempty"` // that hold for the caller
}

// UsageQuery selects what was used.
type UsageQuery struct {
	Month string // as 2026-11; empty: this one
	Owner string // for an operator; empty: all
	Users bool   // each user whom an application names by itself; false: together
}

// Usage returns what was used in a month: by the caller, or for an operator by all. Other nodes of a cluster count up
// to ten seconds later.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (*Usage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"month": q.Month, "owner": q.Owner} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Users {
		query.Set("users", "true")
	}
	return fetch[Usage](ctx, c, get("/usage", query))
}
