package client

import (
	"context"
	"net/http"
)

// SessionNetwork is what the programs of a live session may contact, and what may be asked for.
type SessionNetwork struct {
	Allow []string `json:"allow"` // rules, as in Network
	Deny  []string `json:"deny"`  // what is refused of that
	// By says whose rules these are: "session", which was made or changed so, or "key", which has them; empty if there
	// are none.
	By    string   `json:"by,omitempty"`
	May   []string `json:"may"`              // rules that the caller may ask for
	MayBy string   `json:"may_by,omitempty"` // who allows that: the caller's "key", or the "service" to all
}

// SessionNetwork returns what the programs of a live session may contact.
func (c *Client) SessionNetwork(ctx context.Context, session string) (*SessionNetwork, error) {
	var n SessionNetwork
	err := c.call(ctx, request{path: "/sessions/" + segment(session) + "/network"}, &n)
	return &n, err
}

// SetSessionNetwork changes what the programs of a live session may contact, from now on: its interpreters end, and the
// next cell starts a new one. Variables and processes are lost, files are there.
func (c *Client) SetSessionNetwork(ctx context.Context, session string, network Network) (*SessionNetwork, error) {
	var n SessionNetwork
	err := c.call(ctx, request{method: http.MethodPut, path: "/sessions/" + segment(session) + "/network",
		body: network}, &n)
	return &n, err
}

// InstallPackages installs packages for a live session, by pip or npm, and returns how that ended as a cell. The
// caller must be allowed to ask for the package registries; the session's own programs get no network by that.
func (c *Client) InstallPackages(ctx context.Context, session string, names ...string) (*Cell, error) {
	var cell Cell
	err := c.call(ctx, request{method: http.MethodPost, path: "/sessions/" + segment(session) + "/packages",
		body: map[string]any{"names": names}}, &cell)
	return &cell, err
}
