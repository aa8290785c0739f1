// Package anthropic is Anthropic as a [provider.Provider]: the Messages API with
// the code execution tool, and the Files API.
//
// Inputs are container_upload blocks. Outputs are file ids in the blocks of results, only
// for files at the top level of $OUTPUT_DIR; the Files API has their names and sizes. There
// is no API for containers: the first turn creates one, and its reply names it.
//
// Both former betas have ended: no request has a beta header. Requests and streams use the
// official SDK. Uploads and downloads do not: the SDK holds a whole upload in memory.
package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// DefaultURL is Anthropic's own service.
const DefaultURL = "https://api.anthropic.com"

// ToolVersion is the version of the code execution tool that this package was written for:
// bash and files. Later versions also keep the state of a Python session, with the same
// blocks.
const ToolVersion = "code_execution_20250825"

// apiVersion is the version that the SDK sends.
const apiVersion = "2026-10-21"

// Options make a Client. Key is required.
type Options struct {
	Key   string
	URL   string       // empty: DefaultURL
	HTTP  *http.Client // nil: provider.DefaultHTTPClient
	Clock provider.Clock
	// Retry is for the later requests of a turn, after which the whole turn cannot be
	// repeated.
	Retry provider.Retry
}

// Client is one account.
type Client struct {
	key   string
	rest  exchange.Client
	clock provider.Clock
	retry provider.Retry

	messages   sdk.MessageService
	models     sdk.ModelService
	files      sdk.FileService
	containers containers
}

var _ provider.Provider = (*Client)(nil)

// New returns the client of an account. It sends no request.
func New(o Options) (*Client, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, &provider.Error{Kind: provider.Auth, Provider: provider.Anthropic, Message: "no key is set",
			Hint: "Set ANTHROPIC_API_KEY to a key from the Anthropic console."}
	}
	base, err := exchange.Base(provider.Anthropic, cmp.Or(o.URL, DefaultURL), DefaultURL)
	if err != nil {
		return nil, err
	}
	exchange.Defaults(&o.HTTP, &o.Clock, &o.Retry)
	p := &Client{key: o.Key, clock: o.Clock, retry: o.Retry}
	p.rest = exchange.Client{Provider: provider.Anthropic, URL: base, HTTP: o.HTTP, Refused: p.refused,
		Header: http.Header{"Authorization": {"Bearer " + o.Key}, "Anthropic-Version": {apiVersion}}}
	// The services, not the SDK's client, which reads the environment. No retries: the
	// SDK would wait for any time of a Retry-After.
	opts := []option.RequestOption{
		option.WithBaseURL(p.rest.URL), option.WithAPIKey(p.key), option.WithHeader("anthropic-version", apiVersion),
		option.WithHTTPClient(exchange.WithoutRepeats(o.HTTP)), option.WithMaxRetries(0),
	}
	p.messages, p.models, p.files = sdk.NewMessageService(opts...), sdk.NewModelService(opts...),
		sdk.NewFileService(opts...)
	return p, nil
}

// Name implements provider.Provider.
func (p *Client) Name() string { return provider.Anthropic }

// Account implements provider.Provider.
func (p *Client) Account() string { return provider.AccountOf(p.rest.URL, p.key) }

// Caps implements provider.Provider.
func (p *Client) Caps() provider.Capabilities {
	return provider.Capabilities{
		Outputs:  provider.OutputByID,
		Sessions: true, // reused, but there is no API to create, list or delete them
		ExitCode: true, SplitStderr: true, Stream: true, UploadTTL: true, See: true, Functions: true, Schema: true,
		Limits: provider.Limits{Upload: 500 << 20, NameLength: 255, NameBars: `<>:"|?*\/`},
		TTLMin: time.Hour, TTLMax: 90 * 24 * time.Hour,
		// The tool has both; the model chooses.
		Tools: []provider.Tool{provider.ToolPython, provider.ToolShell}, Languages: []string{"python", "bash"},
	}
}

// Check implements provider.Provider.
func (p *Client) Check(ctx context.Context, model string) error {
	if model == "" {
		_, err := p.models.List(ctx, sdk.ModelListParams{Limit: sdk.Int(1)})
		return p.failed("check the key", err)
	}
	_, err := p.models.Get(ctx, model, sdk.ModelGetParams{})
	if provider.KindOf(p.failed("", err)) == provider.FileNotFound {
		return &provider.Error{Kind: provider.Invalid, Provider: p.Name(), Op: "check the model", Status: http.StatusNotFound,
			Message: "there is no model " + model, Hint: modelHint, Err: err}
	}
	return p.failed("check the model", err)
}

// Files implements provider.Provider.
func (p *Client) Files() provider.FileStore { return files{p} }

// Sessions implements provider.Provider: there is no API for containers.
func (p *Client) Sessions() provider.SessionStore { return provider.NoSessions{Provider: p.Name()} }
