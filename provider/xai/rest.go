package xai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/provider"
)

// maxAnswer is more than an answer that is neither a file nor a stream is long.
const maxAnswer = 4 << 20

// do sends a request and returns the answer if it is one of success.
func (c *Client) do(r *http.Request, op string) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+c.options.Key)
	resp, err := c.options.HTTP.Do(r)
	if err != nil {
		return nil, provider.Failed(c.Name(), op, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // half an error is one too
		return nil, c.refused(op, resp.StatusCode, resp.Header, said)
	}
	return resp, nil
}

// call sends and receives JSON.
func (c *Client) call(ctx context.Context, op, method, where string, body, into any) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return provider.Failed(c.Name(), op, err)
		}
		content = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.options.URL+where, content)
	if err != nil {
		return provider.Failed(c.Name(), op, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.do(r, op)
	if err != nil {
		return err
	}
	return c.decode(op, resp, into)
}

// decode reads an answer. One of success may be an error all the same.
func (c *Client) decode(op string, resp *http.Response, into any) error {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return provider.Failed(c.Name(), op, err)
	}
	if message, _ := said(data); message != "" {
		return c.refused(op, http.StatusBadGateway, resp.Header, data)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return provider.Failed(c.Name(), op, fmt.Errorf("an answer that cannot be read: %w", err))
	}
	return nil
}

// said reads both shapes of errors: {"code":"text","error":"text"} of most routes,
// {"error":{"message":...}} of chat.
func said(body []byte) (message, code string) {
	var w struct {
		Code  json.RawMessage `json:"code"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &w) != nil || len(w.Error) == 0 {
		return "", ""
	}
	_ = json.Unmarshal(w.Code, &code) // a number says nothing that the status does not
	if json.Unmarshal(w.Error, &message) == nil {
		return message, code
	}
	var whole struct{ Message, Code, Type string }
	_ = json.Unmarshal(w.Error, &whole)
	return whole.Message, cmp.Or(code, whole.Code, whole.Type)
}

func (c *Client) refused(op string, status int, header http.Header, body []byte) *provider.Error {
	e := &provider.Error{Kind: provider.KindOfStatus(status), Provider: c.Name(), Op: op, Status: status,
		RequestID: header.Get("X-Request-Id"), RetryAfter: provider.RetryAfter(header, c.options.Clock.Now())}
	e.Message, e.Code = said(body)
	e.Message = cmp.Or(e.Message, strings.ToLower(http.StatusText(status)))
	lower := strings.ToLower(e.Message + " " + e.Code)
	switch {
	case strings.Contains(lower, "api key") && status == http.StatusBadRequest: // a wrong key is a 400
		e.Kind = provider.Auth
	case strings.Contains(lower, "credits") || strings.Contains(lower, "spending limit"):
		e.Kind = provider.Quota
	case e.Kind == provider.FileNotFound && (op == "check the model" || op == "run" && !strings.Contains(lower, "file")):
		e.Kind, e.Hint = provider.Invalid, "Take the name of a model from https://docs.x.ai/docs/models."
	}
	return e
}
