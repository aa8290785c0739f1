package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/airlock-run/airlock/assist/provider"
)

// failed returns an error of the SDK as a provider.Error; nil stays nil.
func (c *Client) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		var header http.Header
		if e.Response != nil {
			header = e.Response.Header
		}
		return c.refused(op, e.StatusCode, header, problem{Message: e.Message, Type: e.Type, Code: e.Code})
	}
	if e, ok := errors.AsType[*ssestream.StreamError](err); ok {
		var body struct{ Error problem }
		_ = json.Unmarshal(e.Event.Data, &body)
		if body.Error.Message == "" {
			_ = json.Unmarshal(e.Event.Data, &body.Error)
		}
		return c.ended(op, body.Error)
	}
	return provider.Failed(provider.OpenAI, op, err)
}

// problem is the error object of a reply.
type problem struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// refusedBy returns the error of a plain HTTP reply.
func (c *Client) refusedBy(op string, status int, header http.Header, data []byte) *provider.Error {
	var body struct{ Error problem }
	_ = json.Unmarshal(data, &body) // a proxy's page has no message; the status will do
	return c.refused(op, status, header, body.Error)
}

func (c *Client) refused(op string, status int, header http.Header, p problem) *provider.Error {
	e := &provider.Error{Kind: kindOf(status, p), Provider: provider.OpenAI, Op: op, Status: status, Code: p.Code,
		Message:   p.Message,
		RequestID: header.Get("x-request-id"), RetryAfter: provider.RetryAfter(header, c.options.Clock.Now()),
		Ambiguous: status >= 500}
	e.Code = cmp.Or(e.Code, p.Type)
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	// The service knows best whether its errors are retryable.
	if header.Get("x-should-retry") == "false" && e.Kind == provider.Transient {
		e.Attempts = 1
	}
	return e
}

// kindOf prefers the message to the status: OpenAI sends "Container is expired." with 400
// (threads of langchain and vercel/ai), and "File not found." for a container file with 404.
func kindOf(status int, p problem) provider.Kind {
	message := strings.ToLower(p.Message)
	switch {
	case strings.Contains(message, "container is expired"), status == http.StatusNotFound &&
		strings.Contains(message, "container"):
		return provider.ContainerExpired
	case p.Code == "insufficient_quota", p.Code == "billing_hard_limit_reached",
		strings.Contains(message, "storage limit"):
		return provider.Quota
	case status == http.StatusBadRequest && strings.Contains(message, "not allowed to download"):
		return provider.NotDownloadable
	case status == http.StatusBadRequest && strings.Contains(message, "expired") && strings.Contains(message, "file"):
		return provider.FileExpired
	}
	return provider.KindOfStatus(status)
}

// ended returns the error of a run that failed after it began, without a status.
func (c *Client) ended(op string, p problem) error {
	kind := provider.Invalid
	switch {
	case strings.Contains(strings.ToLower(p.Message), "container is expired"):
		kind = provider.ContainerExpired
	case p.Code == "server_error", p.Type == "server_error", p.Code == "vector_store_timeout",
		p.Code == "" && p.Message == "":
		kind = provider.Transient
	case p.Code == "rate_limit_exceeded":
		kind = provider.RateLimited
	case p.Code == "insufficient_quota":
		kind = provider.Quota
	}
	return &provider.Error{Kind: kind, Provider: provider.OpenAI, Op: op, Code: p.Code, Message: p.Message,
		Ambiguous: true}
}
