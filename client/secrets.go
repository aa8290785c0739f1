package client

import (
	"context"
	"net/http"
)

// Secret is a value for requests of a program to some hosts, by HTTPS. The program does not see it: its variable Name
// holds a placeholder, and Airlock puts the value in its place in the headers of requests to Hosts, and the placeholder
// in place of the value in their answers. It needs the setting network_inspect, and a Network with the hosts.
type Secret struct {
	Name  string   `json:"name"`
	Value string   `json:"value,omitempty"` // 8 to 8192 bytes; empty in answers
	Hosts []string `json:"hosts"`           // names, each perhaps with a port; without 443
	// Header is set in each request to Hosts, as "Authorization: Bearer {}", where {} becomes the value. If it is
	// empty, the value is only where the program puts the placeholder.
	Header string `json:"header,omitempty"`
}

// String returns the name of the secret, without its value.
func (s Secret) String() string { return "secret " + s.Name }

// GoString is String, for fmt's %#v.
func (s Secret) GoString() string { return s.String() }

// SetSecrets gives a live session the values of all its secrets again, by name: they are gone after a restart of the
// service. An interpreter that runs keeps those that it has.
func (c *Client) SetSecrets(ctx context.Context, session string, values map[string]string) error {
	return c.call(ctx, request{method: http.MethodPut, path: "/sessions/" + segment(session) + "/secrets",
		body: map[string]any{"values": values}}, nil)
}
