package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/completions"
	"github.com/airlock-run/airlock/internal/engine"
)

// mostAnswer bounds the bytes of one answer of the model.
const mostAnswer = 16 << 20

// An answer of the model, and a call in it.
type (
	answer = completions.Answer[callState]
	call   = completions.Call[callState]
)

// callState is the state of a call.
type callState struct {
	kind callKind
	item *progress // nil: there is none
}

type callKind int

const (
	unresolved callKind = iota // its name is not known yet
	runsCode
	ofClient
	unknownTool
)

// upstream makes a request to the model's server.
func (q *request) upstream(ctx context.Context, method, where string, body io.Reader) (*http.Response, error) {
	if q.Upstream == "" {
		return nil, &refusal{http.StatusServiceUnavailable, problem{
			Message: "This service has no model. Its operator sets one with openai_upstream_url, " +
				"the address of any API that has chat completions.",
			Type: serverError, Code: "model_not_configured",
		}}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(q.Upstream, "/")+where, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.Key != "" {
		r.Header.Set("Authorization", "Bearer "+q.Key)
	}
	resp, err := q.HTTP.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		q.Log.Error("the model's server cannot be reached", "error", err)
		return nil, upstreamFailed("The model's server cannot be reached. Look at the log of this service.")
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, q.refusedBy(resp)
	}
	return resp, nil
}

// upstreamFailed is an error of the model's server.
func upstreamFailed(format string, args ...any) error {
	return &refusal{http.StatusBadGateway, problem{fmt.Sprintf(format, args...), serverError, "", "upstream_error"}}
}

func ended(ctx context.Context) error {
	return &engine.Error{Op: "ask model", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
}

// refusedBy returns the error of the model's server to the client, but not errors about
// the operator's key.
func (q *request) refusedBy(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a part of an error will do
	message, code, _ := completions.ErrorText(text)
	if message == "" {
		message = "The model's server answered with " + resp.Status + "."
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		q.Log.Error("the model's server refuses the key of openai_upstream_key", "status", status, "said", message)
		return upstreamFailed("The model's server refuses this service. Its operator can set openai_upstream_key.")
	case status == http.StatusTooManyRequests:
		if after := resp.Header.Get("Retry-After"); after != "" {
			q.w.Header().Set("Retry-After", after)
		}
		return &refusal{status, problem{message, "requests", "", "rate_limit_exceeded"}}
	case status == http.StatusNotFound:
		return &refusal{status, problem{message, invalidRequest, "model", "model_not_found"}}
	case status >= 400 && status < 500:
		return &refusal{status, problem{message, invalidRequest, "", code}}
	}
	q.Log.Error("the model's server failed", "status", resp.StatusCode, "said", message)
	return upstreamFailed("%s", message)
}

// codeOf returns the code of a call. Some models do not wrap it in JSON.
func codeOf(c *call) (string, bool) {
	text := c.Arguments.String()
	var given struct {
		Code *string `json:"code"`
	}
	if json.Unmarshal([]byte(text), &given) == nil && given.Code != nil {
		return *given.Code, true
	}
	if trimmed := strings.TrimSpace(text); trimmed == "" || strings.HasPrefix(trimmed, "{") {
		return "", false
	}
	return text, true
}
