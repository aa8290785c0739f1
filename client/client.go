// Package client talks to an Airlock service: it runs code there, puts files
// in and takes files out.
//
//	c, err := client.New(client.Options{Server: "http://127.0.0.1:8000", Key: key})
//	run, err := c.Run(ctx, client.RunRequest{Language: "python", Code: "print(6*7)"})
//	fmt.Print(run.Stdout)
//
// A program that fails is a Run with a Status and an ExitCode. A Go error means
// that the service refused, which is an *Error, or could not be reached.
//
// Methods take a context, and cancelling it ends the call. For Run and Stream
// it ends the program too; for a program that is to outlive its caller there
// is Start.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/airlock-run/airlock/internal/outbound"
)

// Options configure a Client.
type Options struct {
	// Server is the service's address: "http://127.0.0.1:8000", or
	// "unix:///path/to/airlock.sock". A path after the host is kept.
	Server string
	// Key is a token such as "ak_..."; empty where the service needs none.
	Key string
	// HTTP makes the requests; nil: a client of its own, without a limit on
	// how long an answer takes. With a unix address its Transport is replaced.
	// Without a CheckRedirect of its own, redirects to other servers are errors.
	HTTP *http.Client
	// Dial replaces how connections are made, for listeners in memory. It is
	// used only when HTTP is nil.
	Dial func(ctx context.Context) (net.Conn, error)

	// Agent is the client's User-Agent, which the service shows in its list of runs; "": that of
	// Go's HTTP client.
	Agent string
}

// Client makes calls to one service. It is safe for concurrent use.
type Client struct {
	base  string // with /api/v1, without a slash at the end
	key   string
	agent string
	http  *http.Client
	own   *http.Transport // closed by Close; nil: the transport is the caller's
	calls *calls          // of WithHandler; else nil
}

// New returns a client. It does not connect yet.
func New(o Options) (*Client, error) {
	c := &Client{key: o.Key, agent: o.Agent, http: o.HTTP}
	dial := o.Dial
	socket, err := url.Parse(o.Server)
	local := err == nil && socket.Scheme == "unix"
	switch base, err := outbound.Base(o.Server); {
	case local && (socket.Path == "" || socket.Host != ""):
		return nil, fmt.Errorf("airlock server: %q names no socket, as unix:///path/to/airlock.sock does", o.Server)
	case local:
		dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket.Path)
		}
		c.base = "http://localhost/api/v1"
	case err != nil:
		return nil, fmt.Errorf("airlock server: %w; examples are http://127.0.0.1:8000 and unix:///path/to/airlock.sock", err)
	case base.User != nil:
		return nil, fmt.Errorf("airlock server: %q has a user: the service knows keys alone", base.Redacted())
	default:
		c.base = base.String() + "/api/v1"
	}
	if c.http == nil || local {
		c.own = http.DefaultTransport.(*http.Transport).Clone()
		if dial != nil {
			c.own.Proxy = nil
			c.own.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
		}
		var own http.Client
		if o.HTTP != nil {
			own = *o.HTTP
		}
		own.Transport = c.own
		c.http = &own
	}
	c.http = outbound.Guard(*c.http)
	return c, nil
}

// Close closes idle connections. Of a client of a handler it ends the calls, and waits until the handler has
// returned from them.
func (c *Client) Close() {
	if c.calls != nil {
		c.calls.close()
	}
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// request is one call before it is made.
type request struct {
	method, path string // the path below /api/v1, escaped
	query        url.Values
	header       http.Header
	body         any       // sent as JSON
	raw          io.Reader // sent as it is
	length       int64     // of raw; 0: not known
}

// do makes a call and returns an answer below 300, whose body the caller
// closes. Every other answer is an *Error.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	if c.http == nil {
		return nil, errors.New("airlock: the Client has no server: client.New makes one that has")
	}
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	body := r.raw
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, err
	}
	if r.length > 0 {
		req.ContentLength = r.length
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, readError(resp)
	}
	return resp, nil
}

// call makes a call and decodes its answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(target(out)); err != nil {
		return fmt.Errorf("airlock: the answer to %s %s cannot be read: %w", r.method, r.path, err)
	}
	_, err = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	return err
}

func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query}
}

func post(path string, body any) request {
	return request{method: http.MethodPost, path: path, body: body}
}

func del(path string) request { return request{method: http.MethodDelete, path: path} }

// fetch makes a call and returns its decoded answer.
func fetch[T any](ctx context.Context, c *Client, r request) (*T, error) {
	out := new(T)
	if err := c.call(ctx, r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// list returns the named list of an answer, and the After of the next page.
func list[T any](
	ctx context.Context, c *Client, path, name string, query url.Values,
) (all []T, next string, err error) {
	var out map[string]json.RawMessage
	if err := c.call(ctx, get(path, query), &out); err != nil {
		return nil, "", err
	}
	for member, into := range map[string]any{name: &all, "next": &next} {
		if text, ok := out[member]; ok {
			err = errors.Join(err, json.Unmarshal(text, into))
		}
	}
	if err != nil {
		err = fmt.Errorf("airlock: the answer to GET %s cannot be read: %w", path, err)
	}
	return all, next, err
}

// save copies the body of an answer to w.
func (c *Client) save(ctx context.Context, r request, w io.Writer) error {
	if w == nil {
		return errNoWriter
	}
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}

var errNoWriter = errors.New("airlock: there is nowhere to write to: the writer is nil")

// segment escapes an id as one segment of a path. An empty id would name the list.
func segment(id string) string {
	if id == "" || strings.Trim(id, ".") == "" {
		return "-"
	}
	return url.PathEscape(id)
}
