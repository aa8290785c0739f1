// Package xai is xAI's Grok as a [provider.Provider]: the Responses API with its code tool,
// and the Files API, over a small REST client.
//
// There is no official SDK for Go, and OpenAI's does not fit (openai-go v3.95.0): xAI's
// errors are a string instead of an object, so that it loses the status, and the list of
// files has no has_more, so that it may never end.
//
// There are no sessions and no downloads of files that code made: code has to print files in
// frames ([provider.Frame]). It is not documented whether code can read an attached file:
// small texts are also copied into the prompt, with a notice to the user.
package xai

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// DefaultURL is xAI's own service.
const DefaultURL = "https://api.x.ai/v1"

// Options make a Client. Key is required.
type Options struct {
	Key   string
	URL   string         // empty: DefaultURL
	HTTP  *http.Client   // nil: provider.DefaultHTTPClient
	Clock provider.Clock // nil: the system's
	// Retry is for the later requests of a turn that takes several.
	Retry provider.Retry
	// PromptBytes bounds the text of small files in a prompt; 0: 32 KiB, the most.
	// Negative: none.
	PromptBytes int
}

// maxPrompt bounds the text of files in a prompt.
const maxPrompt = 32 << 10

// Client is one account.
type Client struct {
	options Options
	rest    exchange.Client
}

var _ provider.Provider = (*Client)(nil)

// New returns a client. It sends no request.
func New(o Options) (*Client, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, &provider.Error{Kind: provider.Auth, Provider: provider.XAI, Message: "no key is set",
			Hint: "Set XAI_API_KEY to a key from https://console.x.ai."}
	}
	var err error
	if o.URL, err = exchange.Base(provider.XAI, cmp.Or(o.URL, DefaultURL), DefaultURL); err != nil {
		return nil, err
	}
	exchange.Defaults(&o.HTTP, &o.Clock, &o.Retry)
	if o.PromptBytes == 0 || o.PromptBytes > maxPrompt {
		o.PromptBytes = maxPrompt
	}
	c := &Client{options: o}
	c.rest = exchange.Client{Provider: provider.XAI, URL: o.URL, HTTP: exchange.WithoutRepeats(o.HTTP),
		Refused: c.refused,
		Header:  http.Header{"Authorization": {"Bearer " + o.Key}}}
	return c, nil
}

// Name implements provider.Provider.
func (c *Client) Name() string { return provider.XAI }

// Account implements provider.Provider.
func (c *Client) Account() string { return provider.AccountOf(c.options.URL, c.options.Key) }

// Caps implements provider.Provider.
func (c *Client) Caps() provider.Capabilities {
	return provider.Capabilities{
		Outputs: provider.OutputStdout, UploadReadable: true, UploadTTL: true, InlineUpload: true, Stream: true, See: true,
		Functions: true, Schema: true,
		Limits: provider.Limits{Upload: 48 << 20, Inline: 8 << 20, Output: provider.MaxFrame}, // the pages say 48 and 50 MB
		TTLMin: time.Hour, TTLMax: 30 * 24 * time.Hour,
		Tools: []provider.Tool{provider.ToolPython}, Languages: []string{"python"},
	}
}

// Check implements provider.Provider.
func (c *Client) Check(ctx context.Context, model string) error {
	where, op := "/models", "check the key"
	if model != "" {
		where, op = "/models/"+model, "check the model"
	}
	var answer struct{ ID string }
	return c.call(ctx, op, http.MethodGet, where, nil, &answer)
}

// Files implements provider.Provider.
func (c *Client) Files() provider.FileStore { return files{c} }

// Sessions implements provider.Provider: there are none.
func (c *Client) Sessions() provider.SessionStore { return provider.NoSessions{Provider: c.Name()} }
