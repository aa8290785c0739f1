// Package local is Airlock's own sandbox as a [provider.Provider], with any model behind an
// endpoint with OpenAI's chat completions: Ollama, vLLM, llama.cpp, LM Studio, GitHub
// Models. Files never leave the machine; the model sees only the output of code.
//
// The model runs code with the run_python tool of package pytool. The [Runner] runs it: the
// engine in this process, or a service.
package local

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/pytool"
)

// Runner is the sandbox and its store of files.
type Runner interface {
	pytool.Runner
	// Files returns all stored files, inputs and outputs.
	Files(ctx context.Context) iter.Seq2[provider.FileInfo, error]
}

// Options make a Client. URL and Runner are required.
type Options struct {
	URL    string // of the model's endpoint: "http://localhost:11434/v1"
	Key    string // most local endpoints need none
	Runner Runner
	HTTP   *http.Client   // nil: provider.DefaultHTTPClient
	Clock  provider.Clock // nil: the system's
	// Retry is for the later requests of a turn that takes several.
	Retry   provider.Retry
	Config  pytool.Config // of the tool: time and sizes
	IdleTTL time.Duration // of a session; 0: an hour
}

// Client is the provider.
type Client struct {
	options  Options
	rest     exchange.Client
	sessions *sessions
}

var _ provider.Provider = (*Client)(nil)

// New returns a client. It sends no request; see [Client.Check].
func New(o Options) (*Client, error) {
	if o.Runner == nil {
		return nil, errors.New("local: a runner is needed")
	}
	var err error
	o.URL, err = exchange.Base(provider.Local, o.URL, "--model-url http://localhost:11434/v1, as Ollama has it")
	if err != nil {
		return nil, err
	}
	exchange.Defaults(&o.HTTP, &o.Clock, &o.Retry)
	o.IdleTTL = cmp.Or(max(o.IdleTTL, 0), time.Hour)
	c := &Client{options: o}
	c.rest = exchange.Client{Provider: provider.Local, URL: o.URL, HTTP: o.HTTP, Refused: c.refused,
		Header: http.Header{}}
	if o.Key != "" {
		c.rest.Header.Set("Authorization", "Bearer "+o.Key)
	}
	c.sessions = &sessions{c: c, open: map[string]*session{}}
	return c, nil
}

// Name implements provider.Provider.
func (c *Client) Name() string { return provider.Local }

// Account implements provider.Provider.
func (c *Client) Account() string { return provider.AccountOf(c.options.URL, c.options.Key) }

// Caps implements provider.Provider.
func (c *Client) Caps() provider.Capabilities {
	return provider.Capabilities{
		Outputs:  provider.OutputListing,
		Sessions: true, SessionCreate: true, SessionFiles: true, SessionDelete: true, SessionTouch: true,
		UploadReadable: true, ExitCode: true, SplitStderr: true, Stream: true, See: true, Functions: true, Schema: true,
		Limits:  provider.Limits{Upload: 200 << 20, Output: 64 << 20, NameLength: 200},
		IdleTTL: c.options.IdleTTL,
		Tools:   []provider.Tool{provider.ToolPython}, Languages: []string{"python"},
	}
}

// Check implements provider.Provider. It accepts any model if the endpoint has no list of
// models.
func (c *Client) Check(ctx context.Context, model string) error {
	if h := c.options.Runner.Health(ctx); !h.OK() {
		return &provider.Error{Kind: provider.Transient, Provider: c.Name(), Op: "check the sandbox",
			Message: "it cannot run code: " + cmp.Or(h.Error, "no answer"), Hint: "airlock doctor says what is missing."}
	}
	ids, err := c.models(ctx)
	if kind := provider.KindOf(err); kind == provider.FileNotFound || kind == provider.Invalid {
		return nil
	}
	if err != nil || model == "" || len(ids) == 0 {
		return err
	}
	for _, id := range ids {
		if id == model || id == model+":latest" { // as Ollama has it
			return nil
		}
	}
	return &provider.Error{Kind: provider.Invalid, Provider: c.Name(), Op: "check the model",
		Message: "there is no model " + model,
		Hint:    "The endpoint has: " + strings.Join(ids[:min(len(ids), 10)], ", ") + "."}
}

// Files implements provider.Provider.
func (c *Client) Files() provider.FileStore { return files{c} }

// Sessions implements provider.Provider.
func (c *Client) Sessions() provider.SessionStore { return c.sessions }
