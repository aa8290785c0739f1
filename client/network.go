package client

import (
	"context"
	"net/url"
	"time"
)

// Network is what a program may contact. Without one it gets what the caller's key
// has, which for most is nothing; with an empty Allow nothing.
type Network struct {
	// Allow are rules: a host, *.DOMAIN, an address or a network, each perhaps with a
	// port; https://HOST/PATH/*; * for every public address; packages for the
	// registries of pip and npm. Without a port they are for 80 and 443.
	Allow    []string `json:"allow"`
	Deny     []string `json:"deny,omitempty"`      // of what Allow names
	MaxBytes int64    `json:"max_bytes,omitempty"` // in both directions together; 0: the service's limit
}

// Contact is one connection that a program asked for.
type Contact struct {
	Run      string    `json:"run"`
	Owner    string    `json:"owner"`
	At       time.Time `json:"at"`
	Host     string    `json:"host"` // as it was asked for
	Port     int       `json:"port"`
	Address  string    `json:"address,omitempty"` // that it was connected to
	Sent     int64     `json:"sent"`
	Received int64     `json:"received"`
	TookMS   int64     `json:"took_ms"`
	Verdict  string    `json:"verdict"` // allowed, refused or failed
	Reason   string    `json:"reason,omitempty"`
	More     int       `json:"more,omitempty"` // further ones that are not listed one by one
}

// Contacts returns what the caller's programs contacted, newest first: those of one
// run, or of all if run is empty. An admin gets those of every owner.
func (c *Client) Contacts(ctx context.Context, run string) ([]Contact, error) {
	q := url.Values{}
	if run != "" {
		q.Set("run", run)
	}
	all, _, err := list[Contact](ctx, c, "/network", "contacts", q)
	return all, err
}
