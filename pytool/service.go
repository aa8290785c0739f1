package pytool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/idle"
	"github.com/airlock-run/airlock/internal/outbound"
)

// Service is a Runner over HTTP: a service with the protocol of Onyx's code interpreter.
type Service struct {
	base   string
	client *http.Client
}

// ServiceOptions configure NewService.
type ServiceOptions struct {
	// HTTP makes the requests, for a proxy or a handler in the same process. It needs no timeouts.
	// nil: one with the connections of http.DefaultClient, whose CloseIdleConnections closes those
	// that wait for another request.
	HTTP *http.Client
}

// NewService returns the service at an address such as "http://localhost:8000/onyx". It
// sends no request, and fails if the address is invalid.
func NewService(baseURL string, o ServiceOptions) (*Service, error) {
	base, err := outbound.Base(baseURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; an example is http://localhost:8000", EnvBaseURL, err)
	}
	web := o.HTTP
	if web == nil {
		web = new(http.Client)
	}
	return &Service{base: base.String(), client: outbound.Guard(*web)}, nil
}

// The idle timeouts of requests. That of a run is the run's timeout and slack.
const (
	healthLimit   = 5 * time.Second
	transferLimit = 30 * time.Second
	deleteLimit   = 10 * time.Second
	slack         = 10 * time.Second
)

// StatusError is an answer with an error status. Its text is for models and users and has no
// address.
type StatusError struct {
	Status int
	Detail string // the service's message, if any
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("Code Interpreter service returned HTTP %d", e.Status)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

var errUnreachable = errors.New("Unable to reach the Code Interpreter service") //nolint:staticcheck // users read it as a sentence

// Health implements Runner.
func (s *Service) Health(ctx context.Context) Health {
	var body struct {
		Status  string
		Message *string
		Version string
	}
	answer, err := s.do(ctx, healthLimit, http.MethodGet, "/health", nil)
	if err == nil {
		defer answer.Body.Close()
		if err = json.NewDecoder(io.LimitReader(answer.Body, maxJSON)).Decode(&body); err != nil {
			err = errUnreachable
		}
	}
	refused, isAnswer := errors.AsType[*StatusError](err)
	switch {
	case isAnswer:
		return Health{Connected: true, Error: (&StatusError{Status: refused.Status}).Error(), Version: noVersion}
	case errors.Is(err, errRedirected):
		return Health{Error: errRedirected.Error(), Version: noVersion}
	case err != nil:
		return Health{Error: errUnreachable.Error(), Version: noVersion}
	}
	h := Health{Connected: true, Version: body.Version}
	h.Version = cmp.Or(h.Version, noVersion)
	if body.Status != "ok" {
		h.Error = "Unknown error"
		if body.Message != nil && *body.Message != "" {
			h.Error = *body.Message
		}
		return h
	}
	h.Error, h.Cure = s.servesRuns(ctx)
	return h
}

// servesRuns returns why a healthy service cannot run code: the address may be another
// service's with the same kind of health check, or have a wrong prefix. It requests the path
// of runs with a wrong method, which a service answers with 405.
func (s *Service) servesRuns(ctx context.Context) (problem, cure string) {
	answer, err := s.do(ctx, healthLimit, http.MethodGet, "/v1/execute", nil)
	if err == nil {
		answer.Body.Close()
		return "", ""
	}
	refused, isAnswer := errors.AsType[*StatusError](err)
	switch {
	case !isAnswer:
		return err.Error(), ""
	case refused.Status == http.StatusNotFound:
		return "it answers, but runs no programs at this address (HTTP 404 for /v1/execute)",
			"Set " + EnvBaseURL + " to the address of Onyx's protocol: for Airlock http://host:8000/onyx."
	case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
		return fmt.Sprintf("it refuses this application (HTTP %d)", refused.Status),
			"Let the service trust the network of this application (for Airlock: --trust-network), or have the HTTP client " +
				"send a key."
	}
	return "", ""
}

const noVersion = "0.0.0"

// Upload implements Runner.
func (s *Service) Upload(ctx context.Context, name string, size int64, content io.Reader) (string, error) {
	boundary := rand.Text() // no file contains it
	quoted := strings.NewReplacer(`\`, `\\`, `"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name)
	before := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + quoted +
		"\"\r\nContent-Type: application/octet-stream\r\n\r\n"
	after := "\r\n--" + boundary + "--\r\n"
	body := io.MultiReader(strings.NewReader(before), io.LimitReader(content, size), strings.NewReader(after))
	answer, err := s.do(ctx, transferLimit, http.MethodPost, "/v1/files", &payload{
		contentType: "multipart/form-data; boundary=" + boundary, body: body, size: int64(len(before)+len(after)) + size,
	})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var stored struct {
		FileID string `json:"file_id"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxJSON)).Decode(&stored); err != nil || stored.FileID == "" {
		return "", errors.New("the Code Interpreter service did not say where it keeps the file")
	}
	return stored.FileID, nil
}

// Download implements Runner.
func (s *Service) Download(ctx context.Context, id string) (io.ReadCloser, error) {
	answer, err := s.do(ctx, transferLimit, http.MethodGet, "/v1/files/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Delete implements Runner.
func (s *Service) Delete(ctx context.Context, id string) error {
	answer, err := s.do(ctx, deleteLimit, http.MethodDelete, "/v1/files/"+url.PathEscape(id), nil)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// maxJSON bounds a JSON answer: output may have some megabytes, and an escape six bytes.
const maxJSON = 64 << 20

// payload is the body of a request.
type payload struct {
	contentType string
	body        io.Reader
	size        int64
}

func jsonPayload(v any) *payload {
	text := marshal(v)
	return &payload{contentType: "application/json", body: bytes.NewReader(text), size: int64(len(text))}
}

// do sends a request and returns an answer of success. limit is an idle timeout until the
// caller closes the answer's body.
func (s *Service) do(
	ctx context.Context, limit time.Duration, method, path string, p *payload,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, nil)
	if err != nil {
		return nil, errUnreachable
	}
	if p != nil {
		req.Body, req.ContentLength = io.NopCloser(p.body), p.size
		req.Header.Set("Content-Type", p.contentType)
	}
	client := *s.client
	client.Transport = idle.Transport{Next: cmp.Or(client.Transport, http.DefaultTransport), Idle: limit, Answer: limit}
	answer, err := client.Do(req)
	if err != nil {
		return nil, reason(ctx, err)
	}
	answer.Body = answerBody{answer.Body, ctx}
	switch {
	case answer.StatusCode >= http.StatusBadRequest:
		defer answer.Body.Close()
		return nil, refusal(answer)
	case answer.StatusCode >= http.StatusMultipleChoices: // net/http does not repeat a body that is a stream
		answer.Body.Close()
		return nil, errRedirected
	}
	return answer, nil
}

var (
	errIdle       = errors.New("the Code Interpreter service does not answer")
	errRedirected = errors.New("the Code Interpreter service redirects to another address, which was sent no code or " +
		"files: if that is the right one, set it as " + EnvBaseURL)
)

// reason returns why a request failed, without the address in errors of net/http.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, ok := errors.AsType[*outbound.RedirectError](err); ok {
		return errRedirected
	}
	if e, ok := errors.AsType[*url.Error](err); ok && e.Timeout() || errors.Is(err, idle.Err) {
		return errIdle
	}
	return errUnreachable
}

func refusal(answer *http.Response) error {
	var body struct {
		Detail json.RawMessage
	}
	e := &StatusError{Status: answer.StatusCode}
	const enough = 64 << 10
	if text, err := io.ReadAll(io.LimitReader(answer.Body, enough)); err == nil && json.Unmarshal(text, &body) == nil {
		if json.Unmarshal(body.Detail, &e.Detail) != nil {
			e.Detail = firstChars(string(body.Detail), 1000)
		}
	}
	return e
}
