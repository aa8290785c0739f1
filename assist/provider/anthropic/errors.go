package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/airlock-run/airlock/assist/provider"
)

// wireError is an error of the service.
type wireError struct {
	Type  string `json:"type"` // "error"
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Details struct {
			Code string `json:"error_code"`
		} `json:"details"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

const modelHint = "Take the name of a model from https://docs.claude.com/en/docs/about-claude/models."

// failed returns an error of the SDK as a provider.Error.
func (p *Client) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	api, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return provider.Failed(p.Name(), op, err)
	}
	var header http.Header
	if api.Response != nil {
		header = api.Response.Header
	}
	return p.refused(op, api.StatusCode, header, []byte(api.RawJSON()))
}

// refused returns the error of an answer.
func (p *Client) refused(op string, status int, header http.Header, body []byte) *provider.Error {
	var w wireError
	_ = json.Unmarshal(body, &w) // a proxy's page is not JSON; the status will do
	e := &provider.Error{
		Provider: p.Name(), Op: op, Status: status,
		Code:       cmp.Or(w.Error.Details.Code, w.Error.Type),
		Message:    cmp.Or(w.Error.Message, strings.ToLower(http.StatusText(status))),
		RequestID:  cmp.Or(w.RequestID, header.Get("Request-Id")),
		Kind:       kindOf(status, w.Error.Type, w.Error.Details.Code, w.Error.Message),
		RetryAfter: provider.RetryAfter(header, p.clock.Now()),
	}
	if e.Kind == provider.FileNotFound && strings.HasPrefix(e.Message, "model:") {
		e.Kind, e.Hint = provider.Invalid, modelHint
	}
	// The service knows best whether its errors are retryable.
	if header.Get("X-Should-Retry") == "false" && e.Kind == provider.Transient {
		e.Attempts = 1
	}
	return e
}

// kindOf uses the most specific value of the error. An error within a stream has status 200.
func kindOf(status int, kind, code, message string) provider.Kind {
	switch code {
	case "file_not_downloadable":
		return provider.NotDownloadable
	case "file_expired":
		return provider.FileExpired
	case "storage_quota_exceeded":
		return provider.Quota
	}
	if lower := strings.ToLower(message); strings.Contains(lower, "container") &&
		(strings.Contains(lower, "expired") || strings.Contains(lower, "not found")) {
		return provider.ContainerExpired
	}
	switch kind {
	case "authentication_error", "permission_error":
		return provider.Auth
	case "billing_error":
		return provider.Quota
	case "not_found_error":
		return provider.FileNotFound
	case "request_too_large":
		return provider.TooLarge
	case "rate_limit_error":
		return provider.RateLimited
	case "api_error", "timeout_error", "overloaded_error":
		return provider.Transient
	}
	if status < 300 {
		return provider.Transient
	}
	return provider.KindOfStatus(status)
}
