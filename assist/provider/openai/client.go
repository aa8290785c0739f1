// Package openai runs code at OpenAI: the Responses API with its Code Interpreter
// and shell tools, files, uploads in parts, containers and container files.
//
// Requests, typed replies and streams are the official SDK's. The SDK builds multipart
// bodies in memory, so that file content uses plain HTTP (transfer.go). Responses are not
// stored at OpenAI: a conversation is sent in its turns.
//
// The wire facts are from the API's reference and the SDK's source (v3.95.0, of
// 2026-11-05); where recorded traffic says more, the comment says so.
package openai

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// DefaultURL is the public service.
const DefaultURL = "https://api.openai.com/v1"

// Options of a client.
type Options struct {
	Key          string
	URL          string // DefaultURL
	Organization string
	Project      string
	HTTP         *http.Client   // provider.DefaultHTTPClient
	Clock        provider.Clock // the system's
	// PartsOver is the size from which on a file is uploaded in parts, so that a
	// broken connection costs only a part: 64 MiB. PartSize is 16 MiB; the service
	// takes 64 MB at most.
	PartsOver int64
	PartSize  int64
	Retry     provider.Retry // of a part
}

// Client is the provider.
type Client struct {
	options Options
	sdk     services
	rest    exchange.Client
}

var _ provider.Provider = (*Client)(nil)

// services are the parts of the SDK that this package calls. Its client has all the others too, so that
// the linker keeps them, and reads OPENAI_* of the environment, which has further headers and keys.
type services struct {
	Models     sdk.ModelService
	Files      sdk.FileService
	Uploads    sdk.UploadService
	Containers sdk.ContainerService
	Responses  responses.ResponseService
}

func newServices(o ...option.RequestOption) services {
	return services{sdk.NewModelService(o...), sdk.NewFileService(o...), sdk.NewUploadService(o...),
		sdk.NewContainerService(o...), responses.NewResponseService(o...)}
}

// New returns a client. It sends no request; see [Client.Check].
func New(o Options) (*Client, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, &provider.Error{Kind: provider.Auth, Provider: provider.OpenAI, Message: "no key",
			Hint: "Set OPENAI_API_KEY to a key of https://platform.openai.com/api-keys."}
	}
	var err error
	if o.URL, err = exchange.Base(provider.OpenAI, cmp.Or(o.URL, DefaultURL), DefaultURL); err != nil {
		return nil, err
	}
	exchange.Defaults(&o.HTTP, &o.Clock, &o.Retry)
	o.PartsOver = cmp.Or(max(o.PartsOver, 0), 64<<20)
	o.PartSize = cmp.Or(max(o.PartSize, 0), 16<<20)
	c := &Client{options: o, sdk: newServices(option.WithBaseURL(o.URL+"/"), option.WithAPIKey(o.Key),
		option.WithHTTPClient(exchange.WithoutRepeats(o.HTTP)), option.WithMaxRetries(0), // provider.Retry repeats
		option.WithOrganization(o.Organization), option.WithProject(o.Project))}
	c.rest = exchange.Client{Provider: provider.OpenAI, URL: o.URL, HTTP: o.HTTP,
		Refused: c.refusedBy, Header: http.Header{"Authorization": {"Bearer " + o.Key}}}
	if o.Organization != "" {
		c.rest.Header.Set("OpenAI-Organization", o.Organization)
	}
	if o.Project != "" {
		c.rest.Header.Set("OpenAI-Project", o.Project)
	}
	return c, nil
}

// Name implements provider.Provider.
func (c *Client) Name() string { return provider.OpenAI }

// Account implements provider.Provider.
func (c *Client) Account() string { return provider.AccountOf(c.options.URL, c.options.Key) }

// Caps implements provider.Provider. The numbers are those of the reference of
// 2026-11-21: 512 MB per file (8 GB in parts), lifetimes of an hour to 30 days,
// containers that expire 20 minutes after their last use.
func (c *Client) Caps() provider.Capabilities {
	return provider.Capabilities{
		Outputs:  provider.OutputListing,
		Sessions: true, SessionCreate: true, SessionFiles: true, SessionDelete: true, SessionTouch: true,
		UploadTTL: true, InlineUpload: true,
		ExitCode: true, SplitStderr: true, // both with the shell only
		Stream: true, See: true, Functions: true, Schema: true,
		Limits:  provider.Limits{Upload: 8 << 30, Inline: 14 << 20, NameLength: 255, NameBars: "/\\\x00"},
		IdleTTL: 20 * time.Minute, TTLMin: time.Hour, TTLMax: 30 * 24 * time.Hour,
		Tools:     []provider.Tool{provider.ToolPython, provider.ToolShell},
		Languages: []string{"python", "bash"},
	}
}

// Check implements provider.Provider.
func (c *Client) Check(ctx context.Context, model string) error {
	if model == "" {
		_, err := c.sdk.Models.List(ctx)
		return c.failed("check the key", err)
	}
	_, err := c.sdk.Models.Get(ctx, model)
	err = c.failed("check "+model, err)
	if provider.KindOf(err) == provider.FileNotFound {
		return &provider.Error{Kind: provider.Invalid, Provider: provider.OpenAI, Op: "check " + model,
			Status: http.StatusNotFound, Message: "the model is not known, or this key may not use it",
			Hint: "airlock ask --model takes a name of https://platform.openai.com/docs/models that supports Code Interpreter."}
	}
	return err
}

// Files implements provider.Provider.
func (c *Client) Files() provider.FileStore { return files{c} }

// Sessions implements provider.Provider.
func (c *Client) Sessions() provider.SessionStore { return containers{c} }
