// Package gemini is Google's Gemini as a [provider.Provider]: generateContent with
// the code execution tool, and the Files API.
//
// There are no sessions: each turn has all files of the conversation, and code starts
// without state. The reply contains pictures, without names; code has to print any other
// file in a frame ([provider.Frame]).
//
// Requests and streams use the official SDK. Uploads and downloads do not: the SDK's
// Download returns the body of an error as the file (v1.77.0), and the errors of its Upload
// cannot be distinguished.
package gemini

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// DefaultURL is Google's own service.
const DefaultURL = "https://generativelanguage.googleapis.com"

const apiVersion = "v1beta"

// Options make a Client. Key is required.
type Options struct {
	Key   string
	URL   string         // empty: DefaultURL
	HTTP  *http.Client   // nil: provider.DefaultHTTPClient
	Clock provider.Clock // nil: the system's
	// Retry is for the parts of an upload and the later requests of a turn.
	Retry provider.Retry
	// PartSize is the size of the parts of an upload. One part is held in memory for
	// retries; 0: 8 MiB.
	PartSize int
}

// Client is one account.
type Client struct {
	options Options
	sdk     *genai.Client
	rest    exchange.Client
}

var _ provider.Provider = (*Client)(nil)

// New returns a client. It sends no request.
func New(o Options) (*Client, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, &provider.Error{Kind: provider.Auth, Provider: provider.Gemini, Message: "no key is set",
			Hint: "Set GEMINI_API_KEY to a key from https://aistudio.google.com/apikey."}
	}
	var err error
	if o.URL, err = exchange.Base(provider.Gemini, cmp.Or(o.URL, DefaultURL), DefaultURL); err != nil {
		return nil, err
	}
	exchange.Defaults(&o.HTTP, &o.Clock, &o.Retry)
	o.PartSize = cmp.Or(max(o.PartSize, 0), 8<<20)
	web := exchange.WithoutRepeats(o.HTTP)
	web.Transport = sseFilter{web.Transport}
	// The context would be for credentials, and there is a key.
	sdk, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: o.Key, Backend: genai.BackendGeminiAPI, HTTPClient: web,
		HTTPOptions: genai.HTTPOptions{BaseURL: o.URL + "/", APIVersion: apiVersion},
	})
	if err != nil {
		return nil, provider.Failed(provider.Gemini, "open", err)
	}
	c := &Client{options: o, sdk: sdk}
	c.rest = exchange.Client{Provider: provider.Gemini, URL: o.URL, HTTP: o.HTTP, Refused: c.refused,
		Header: http.Header{"X-Goog-Api-Key": {o.Key}}}
	return c, nil
}

// Name implements provider.Provider.
func (c *Client) Name() string { return provider.Gemini }

// Account implements provider.Provider.
func (c *Client) Account() string { return provider.AccountOf(c.options.URL, c.options.Key) }

// Caps implements provider.Provider.
func (c *Client) Caps() provider.Capabilities {
	return provider.Capabilities{
		Outputs: provider.OutputStdout, InlineUpload: true, Stream: true, See: true, Functions: true, Schema: true,
		// 20 MB per request, a quarter of which is for base64.
		Limits:  provider.Limits{Upload: 2 << 30, Inline: 14 << 20, NameLength: 512, Output: provider.MaxFrame},
		FileTTL: 48 * time.Hour,
		Tools:   []provider.Tool{provider.ToolPython}, Languages: []string{"python"},
	}
}

// Check implements provider.Provider.
func (c *Client) Check(ctx context.Context, model string) error {
	if model == "" {
		_, err := c.sdk.Models.List(ctx, &genai.ListModelsConfig{PageSize: 1})
		return c.failed("check the key", err)
	}
	_, err := c.sdk.Models.Get(ctx, model, nil)
	return c.failed("check the model", err)
}

// Files implements provider.Provider.
func (c *Client) Files() provider.FileStore { return files{c} }

// Sessions implements provider.Provider: there are none.
func (c *Client) Sessions() provider.SessionStore { return provider.NoSessions{Provider: c.Name()} }
