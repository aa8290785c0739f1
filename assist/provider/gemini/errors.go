package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/airlock-run/airlock/assist/provider"
)

// failed returns an error of the SDK as a provider.Error.
func (c *Client) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	api, ok := errors.AsType[genai.APIError](err) // a value, not a pointer
	if !ok {
		return provider.Failed(c.Name(), op, err)
	}
	return refusal(op, api)
}

// refused returns the error of an answer. The front end of uploads, and proxies, answer in
// plain text.
func (c *Client) refused(op string, status int, header http.Header, body []byte) *provider.Error {
	var w struct {
		Error genai.APIError `json:"error"`
	}
	if json.Unmarshal(body, &w) != nil || w.Error.Code == 0 {
		w.Error = genai.APIError{Code: status, Message: strings.ToLower(http.StatusText(status))}
		if text := strings.TrimSpace(string(body)); text != "" && !strings.HasPrefix(text, "<") &&
			!strings.HasPrefix(text, "{") {
			w.Error.Message = fmt.Sprintf("%.300s", text)
		}
	}
	e := refusal(op, w.Error)
	if e.RetryAfter == 0 {
		e.RetryAfter = provider.RetryAfter(header, c.options.Clock.Now())
	}
	return e
}

func refusal(op string, api genai.APIError) *provider.Error {
	e := &provider.Error{Provider: provider.Gemini, Op: op, Status: api.Code, Code: api.Status, Message: api.Message,
		RetryAfter: delay(api.Details)}
	e.Kind = kindOf(api, e.RetryAfter > 0)
	if e.Kind == provider.FileNotFound && (op == "run" || op == "check the model") {
		e.Kind, e.Hint = provider.Invalid, "Take the name of a model from https://ai.google.dev/gemini-api/docs/models."
	}
	if strings.HasPrefix(strings.TrimSpace(e.Message), "<") { // a proxy's page
		e.Message = strings.ToLower(http.StatusText(e.Status))
	}
	return e
}

// delay returns the delay of a RetryInfo: most answers have no Retry-After.
func delay(details []map[string]any) time.Duration {
	for _, d := range details {
		kind, _ := d["@type"].(string)
		text, _ := d["retryDelay"].(string)
		if wait, err := time.ParseDuration(text); err == nil && strings.HasSuffix(kind, "RetryInfo") {
			return wait
		}
	}
	return 0
}

func kindOf(api genai.APIError, comesBack bool) provider.Kind {
	message := strings.ToLower(api.Message)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
	}
	switch {
	case has("api key not valid", "api key expired"): // comes as a 400
		return provider.Auth
	case api.Code == http.StatusForbidden && has("may not exist"): // the file does not exist
		return provider.FileNotFound
	case has("not in an active state", "file is not ready"):
		return provider.NotReady
	case has("cannot be downloaded", "not downloadable"):
		return provider.NotDownloadable
	case has("file") && has("expired"):
		return provider.FileExpired
	case api.Code == http.StatusTooManyRequests && has("quota") && !comesBack: // a quota that refills has a delay
		return provider.Quota
	case has("storage quota"):
		return provider.Quota
	}
	return provider.KindOfStatus(api.Code)
}
