// Package exchange is the part that the clients of several providers share: requests that
// do not use an SDK, downloads, and turns of several requests.
package exchange

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/outbound"
)

// maxAnswer bounds an answer that is neither a file nor a stream.
const maxAnswer = 32 << 20

// maxError bounds an error.
const maxError = 256 << 10

// Client makes the requests of an account.
type Client struct {
	Provider string
	URL      string // prefix of paths, without a slash at its end
	HTTP     *http.Client
	Header   http.Header // of every request
	// Refused returns the error of an answer without a status of success.
	Refused func(op string, status int, header http.Header, body []byte) *provider.Error
}

// Defaults sets the defaults of a client's options.
func Defaults(client **http.Client, clock *provider.Clock, retry *provider.Retry) {
	*client = outbound.Guard(*cmp.Or(*client, provider.DefaultHTTPClient))
	*clock = cmp.Or(*clock, provider.Clock(provider.SystemClock{}))
	retry.Clock = cmp.Or(retry.Clock, *clock)
}

// Base returns the address of a provider without a slash at its end. The example is for the hint of
// an address that is none.
func Base(name, address, example string) (string, error) {
	u, err := outbound.Base(address)
	if err != nil {
		return "", &provider.Error{Kind: provider.Invalid, Provider: name, Message: err.Error(),
			Hint: "Give an address such as " + example + "."}
	}
	return u.String(), nil
}

// Request returns a request for a path, or for an absolute URL.
func (c *Client) Request(ctx context.Context, op, method, where string, body io.Reader) (*http.Request, error) {
	if strings.HasPrefix(where, "/") {
		where = c.URL + where
	}
	r, err := http.NewRequestWithContext(ctx, method, where, body)
	if err != nil {
		return nil, provider.Failed(c.Provider, op, err)
	}
	for name, values := range c.Header {
		r.Header[name] = values
	}
	return r, nil
}

// Do sends a request and returns the answer if its status is one of success.
func (c *Client) Do(op string, r *http.Request) (*http.Response, error) {
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, provider.Failed(c.Provider, op, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a part of an error will do
		return nil, c.Refused(op, resp.StatusCode, resp.Header, body)
	}
	return resp, nil
}

// Send sends a body as JSON, or no body if it is nil.
func (c *Client) Send(ctx context.Context, op, method, where string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, &provider.Error{Kind: provider.Invalid, Provider: c.Provider, Op: op,
				Message: "a part of the request is not JSON", Err: err}
		}
		content = bytes.NewReader(b)
	}
	r, err := c.Request(ctx, op, method, where, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.Do(op, r)
}

// Answer is a complete answer of success.
type Answer struct {
	Status int
	Header http.Header
	Data   []byte
}

// Fetch sends a request and reads the answer to its end.
func (c *Client) Fetch(op string, r *http.Request) (*Answer, error) {
	resp, err := c.Do(op, r)
	if err != nil {
		return nil, err
	}
	return c.Read(op, resp)
}

// Read reads an answer to its end.
func (c *Client) Read(op string, resp *http.Response) (*Answer, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, provider.Failed(c.Provider, op, err)
	}
	return &Answer{resp.StatusCode, resp.Header, data}, nil
}

// Upload sends a form, whose file it streams.
func (c *Client) Upload(
	ctx context.Context, op, where string, fields []provider.Field, name string, u provider.Upload,
) (*Answer, error) {
	body, kind, length, err := provider.Form(fields, name, u)
	if err != nil {
		return nil, provider.Failed(c.Provider, op, err)
	}
	r, err := c.Request(ctx, op, http.MethodPost, where, body)
	if err != nil {
		return nil, err
	}
	r.ContentLength = length
	r.Header.Set("Content-Type", kind)
	return c.Fetch(op, r)
}

// Open starts a download at an offset. It asks for no encoding, so that the length is that of
// the file.
func (c *Client) Open(
	ctx context.Context, op, where string, ref provider.FileRef, offset int64,
) (io.ReadCloser, provider.FileInfo, error) {
	info := provider.FileInfo{Ref: ref, Size: -1}
	r, err := c.Request(ctx, op, http.MethodGet, where, nil)
	if err != nil {
		return nil, info, err
	}
	r.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := c.Do(op, r) //nolint:bodyclose // the caller closes the body that this returns
	if err != nil {
		return nil, info, err
	}
	body, size, err := provider.Body(resp, offset)
	info.Size, info.MIME, info.Readable = size, resp.Header.Get("Content-Type"), true
	return body, info, err
}
