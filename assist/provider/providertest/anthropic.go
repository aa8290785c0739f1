package providertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// AnthropicModel is the model of the test server.
const AnthropicModel = "claude-test-5"

// AnthropicServer serves the Messages API with code execution, and the Files API, of version
// 2026-10-21.
type AnthropicServer struct {
	*Base
	// BareExpiry makes a request with an expired container fail with a bare 500, as some do.
	BareExpiry bool

	mu         sync.Mutex
	containers map[string]time.Time // when they expire
}

// NewAnthropicServer starts a server that ends with the test.
func NewAnthropicServer(tb testing.TB) *AnthropicServer {
	s := &AnthropicServer{containers: map[string]time.Time{}}
	NewBase(tb, s, &s.Base)
	return s
}

// Op implements Dialect.
func (s *AnthropicServer) Op(r *http.Request) Op { return restOp(r, "messages") }

// ExpireSessions implements Dialect.
func (s *AnthropicServer) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.containers {
		s.containers[id] = time.Time{}
	}
}

// WriteError implements Dialect.
func (s *AnthropicServer) WriteError(w http.ResponseWriter, status int, _ time.Duration) {
	kinds := map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
		403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error",
		504: "timeout_error", 529: "overloaded_error"}
	kind := cmp.Or(kinds[status], "api_error")
	anthropicError(w, status, kind, "injected: "+kind, "")
}

func anthropicError(w http.ResponseWriter, status int, kind, message, code string) {
	e := map[string]any{"type": kind, "message": message}
	if code != "" {
		e["details"] = map[string]any{"error_code": code}
	}
	w.Header().Set("Request-Id", "req_error")
	writeJSON(w, status, map[string]any{"type": "error", "error": e, "request_id": "req_error"})
}

// ServeHTTP implements Dialect.
func (s *AnthropicServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Header.Get("Anthropic-Version") != "2026-10-21":
		anthropicError(w, 400, "invalid_request_error", "anthropic-version: header is required", "")
	case key == "" || key == "wrong":
		anthropicError(w, 401, "authentication_error", "invalid x-api-key", "")
	case !serveOp(w, r, s.Op(r), s.models, s.message, s.upload, s.list, s.file):
		anthropicError(w, 404, "not_found_error", "Not Found", "")
	}
}

func (s *AnthropicServer) models(w http.ResponseWriter, r *http.Request) {
	model := map[string]any{"id": AnthropicModel, "type": "model", "display_name": "Test",
		"created_at": "2026-01-01T00:00:00Z"}
	_, id, one := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case !one:
		writeJSON(w, 200, map[string]any{"data": []any{model}, "has_more": false, "first_id": AnthropicModel,
			"last_id": AnthropicModel})
	case id != AnthropicModel:
		anthropicError(w, 404, "not_found_error", "model: "+id, "")
	default:
		writeJSON(w, 200, model)
	}
}

func anthropicFile(f *shelved) map[string]any {
	m := map[string]any{"id": f.id, "type": "file", "filename": f.name, "mime_type": f.mime, "size_bytes": len(f.data),
		"created_at": f.created.Format(time.RFC3339Nano), "downloadable": f.made, "expires_at": nil}
	if !f.expires.IsZero() {
		m["expires_at"] = f.expires.Format(time.RFC3339Nano)
	}
	return m
}

func (s *AnthropicServer) upload(w http.ResponseWriter, r *http.Request) {
	f := &shelved{id: NewID("file_011"), created: s.Clock.Now()}
	err := form(r, func(part *multipart.Part, data []byte) error {
		switch part.FormName() {
		case "file":
			f.name, f.mime, f.data = part.FileName(), part.Header.Get("Content-Type"), data
		case "expires_in_seconds":
			return f.expire(data, 3600, 7776000)
		default: // such as a purpose
			return errors.New(part.FormName() + ": Extra inputs are not permitted")
		}
		return nil
	})
	if err != nil {
		anthropicError(w, 400, "invalid_request_error", err.Error(), "")
		return
	}
	if f.name == "" || strings.ContainsAny(f.name, `<>:"|?*\/`) {
		anthropicError(w, 400, "invalid_request_error", "filename: invalid", "")
		return
	}
	writeJSON(w, 200, anthropicFile(s.files.put(f)))
}

func (s *AnthropicServer) list(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit > 3 { // small pages, so that clients turn them
		limit = 3
	}
	part, more := pageAfter(s.files.newest(), strings.TrimPrefix(r.URL.Query().Get("page"), "page_"), limit)
	data := []any{}
	for _, f := range part {
		data = append(data, anthropicFile(f))
	}
	answer := map[string]any{"data": data, "next_page": nil}
	if more {
		answer["next_page"] = "page_" + part[len(part)-1].id
	}
	writeJSON(w, 200, answer)
}

func (s *AnthropicServer) file(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/files/"), "/content")
	f := s.files.get(id)
	switch op := s.Op(r); {
	case f == nil:
		anthropicError(w, 404, "not_found_error", "File not found: "+id, "")
	case f.over(s.Clock.Now()):
		anthropicError(w, 404, "not_found_error", "File has expired: "+id, "file_expired")
	case op == OpStat:
		writeJSON(w, 200, anthropicFile(f))
	case op == OpDelete:
		s.files.remove(id)
		writeJSON(w, 200, map[string]any{"id": id, "type": "file_deleted"})
	case !f.made:
		anthropicError(w, 400, "invalid_request_error", "File is not downloadable: "+id, "file_not_downloadable")
	default:
		f.serve(w, r)
	}
}

// anthropicRequest has the fields of a request that the server checks.
type anthropicRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Container string `json:"container"`
	Tools     []struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tools"`
	Messages []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	} `json:"messages"`
}

func (s *AnthropicServer) message(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q anthropicRequest
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err == nil {
		err = s.sensible(q, body)
	}
	if err != nil {
		anthropicError(w, 400, "invalid_request_error", err.Error(), "")
		return
	}
	if q.Model != AnthropicModel {
		anthropicError(w, 404, "not_found_error", "model: "+q.Model, "")
		return
	}
	if id := s.unknownFile(body); id != "" {
		anthropicError(w, 404, "not_found_error", "File not found: "+id, "")
		return
	}
	container, ok := s.container(q)
	switch {
	case !ok && s.BareExpiry:
		anthropicError(w, 500, "api_error", "Internal server error", "")
	case !ok:
		anthropicError(w, 404, "not_found_error", "Container not found or expired: "+q.Container, "")
	default:
		s.answer(w, q, container)
	}
}

// sensible returns an error for requests that the service refuses.
func (s *AnthropicServer) sensible(q anthropicRequest, body []byte) error {
	switch {
	case q.MaxTokens <= 0:
		return fmt.Errorf("max_tokens: Field required")
	case !q.Stream:
		return fmt.Errorf("this test server only streams")
	case bytes.Contains(body, []byte(`"temperature"`)):
		return fmt.Errorf("temperature: not supported by this version")
	case len(q.Messages) == 0:
		return fmt.Errorf("messages: at least one message is required")
	}
	wanted := map[string]bool{} // function calls without a reply
	for i, m := range q.Messages {
		if len(m.Content) == 0 {
			return fmt.Errorf("messages.%d: content is empty", i)
		}
		for _, raw := range m.Content {
			var b struct {
				Type, ID, Text string
				ToolUseID      string `json:"tool_use_id"`
			}
			if json.Unmarshal(raw, &b) != nil {
				return fmt.Errorf("messages.%d: a block cannot be read", i)
			}
			switch {
			case b.Type == "text" && b.Text == "":
				return fmt.Errorf("messages.%d: text content blocks must be non-empty", i)
			case b.Type == "tool_use":
				wanted[b.ID] = true
			case b.Type == "tool_result" && !wanted[b.ToolUseID]:
				return fmt.Errorf("messages.%d: unexpected tool_use_id %s", i, b.ToolUseID)
			case b.Type == "tool_result":
				delete(wanted, b.ToolUseID)
			}
		}
	}
	if len(wanted) > 0 {
		return fmt.Errorf("tool_use ids were found without tool_result blocks")
	}
	return nil
}

// unknownFile returns the id of a file of the request that does not exist, or "".
func (s *AnthropicServer) unknownFile(body []byte) string {
	for rest := body; ; {
		_, after, ok := bytes.Cut(rest, []byte(`"type":"container_upload"`))
		if !ok {
			return ""
		}
		rest = after
		var id string
		_, quoted, _ := bytes.Cut(after, []byte(`"file_id":"`))
		if before, _, ok := bytes.Cut(quoted, []byte(`"`)); ok {
			id = string(before)
		}
		if f := s.files.get(id); f == nil || f.over(s.Clock.Now()) {
			return id
		}
	}
}

// container returns the container of a request and restarts its clock.
func (s *AnthropicServer) container(q anthropicRequest) (string, bool) {
	if len(q.Tools) == 0 || !strings.HasPrefix(q.Tools[0].Type, "code_execution_") {
		return "", true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := q.Container
	if id == "" {
		id = NewID("container_011")
	} else if !s.Clock.Now().Before(s.containers[id]) {
		return "", false
	}
	s.containers[id] = s.Clock.Now().Add(time.Hour)
	return id, true
}
