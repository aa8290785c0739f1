package xai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// call sends and receives JSON.
func (c *Client) call(ctx context.Context, op, method, where string, body, into any) error {
	resp, err := c.rest.Send(ctx, op, method, where, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a, err := c.rest.Read(op, resp)
	if err != nil {
		return err
	}
	return c.decode(op, a, into)
}

// decode decodes an answer, which may be an error with a status of success.
func (c *Client) decode(op string, a *exchange.Answer, into any) error {
	if message, _ := errorText(a.Data); message != "" {
		return c.refused(op, http.StatusBadGateway, a.Header, a.Data)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(a.Data, into); err != nil {
		return provider.Failed(c.Name(), op, fmt.Errorf("an answer that cannot be read: %w", err))
	}
	return nil
}

// errorText decodes both formats of errors: {"code":"text","error":"text"} of most routes,
// {"error":{"message":...}} of chat.
func errorText(body []byte) (message, code string) {
	var w struct {
		Code  json.RawMessage `json:"code"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &w) != nil || len(w.Error) == 0 {
		return "", ""
	}
	_ = json.Unmarshal(w.Code, &code) // a number is the status
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
	e.Message, e.Code = errorText(body)
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
