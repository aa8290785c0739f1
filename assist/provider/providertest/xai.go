package providertest

import (
	"encoding/json"
	"errors"
	"maps"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// XAIModel is the model of the test server.
const XAIModel = "grok-test-5"

// XAIServer serves xAI's Responses API and Files API: errors with a string, a token on every
// page, the lifetime before the file.
type XAIServer struct {
	*Base
	// Bare sends runs of code as recorded over REST: without output.
	Bare bool
}

// NewXAIServer starts a server that ends with the test.
func NewXAIServer(tb testing.TB) *XAIServer {
	s := &XAIServer{}
	NewBase(tb, s, &s.Base)
	return s
}

// Op implements Dialect.
func (s *XAIServer) Op(r *http.Request) Op { return restOp(r, "responses") }

// WriteError implements Dialect.
func (s *XAIServer) WriteError(w http.ResponseWriter, status int, _ time.Duration) {
	xaiError(w, status, "injected")
}

func xaiError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"code": http.StatusText(status), "error": message})
}

// ServeHTTP implements Dialect.
func (s *XAIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if key == "" || key == "wrong" {
		xaiError(w, 400, "Incorrect API key provided.")
		return
	}
	if !serveOp(w, r, s.Op(r), s.models, s.respond, s.upload, s.list, s.file) {
		xaiError(w, 404, "not found")
	}
}

func (s *XAIServer) models(w http.ResponseWriter, r *http.Request) {
	model := map[string]any{"id": XAIModel, "object": "model"}
	switch strings.TrimPrefix(r.URL.Path, "/v1/") {
	case "models":
		writeJSON(w, 200, map[string]any{"object": "list", "data": []any{model}})
	case "models/" + XAIModel:
		writeJSON(w, 200, model)
	default:
		xaiError(w, 404, "The model does not exist or your team does not have access to it.")
	}
}

func xaiFile(f *shelved) map[string]any {
	m := map[string]any{"id": f.id, "object": "file", "bytes": len(f.data), "created_at": f.created.Unix(),
		"filename": f.name, "purpose": "", "expires_at": nil}
	if !f.expires.IsZero() {
		m["expires_at"] = f.expires.Unix()
	}
	return m
}

func (s *XAIServer) upload(w http.ResponseWriter, r *http.Request) {
	f := &shelved{id: NewID("file_"), created: s.Clock.Now()}
	err := form(r, func(part *multipart.Part, data []byte) error {
		switch part.FormName() {
		case "file":
			f.name, f.mime, f.data = part.FileName(), part.Header.Get("Content-Type"), data
		case "expires_after":
			if f.name != "" {
				return errors.New("expires_after must come before file")
			}
			return f.expire(data, 3600, 2592000)
		}
		return nil
	})
	if err == nil && f.name == "" {
		err = errors.New("no file")
	}
	if err != nil {
		xaiError(w, 400, err.Error())
		return
	}
	writeJSON(w, 200, xaiFile(s.files.put(f)))
}

// list returns a token with every page, also the last.
func (s *XAIServer) list(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		xaiError(w, 400, "limit must be between 1 and 100")
		return
	}
	token := r.URL.Query().Get("pagination_token")
	part, _ := pageAfter(s.files.newest(), token, limit)
	data := []any{}
	for _, f := range part {
		data = append(data, xaiFile(f))
		token = f.id
	}
	writeJSON(w, 200, map[string]any{"data": data, "pagination_token": token})
}

func (s *XAIServer) file(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/files/"), "/content")
	f := s.files.get(id)
	switch op := s.Op(r); {
	case f == nil || f.over(s.Clock.Now()):
		xaiError(w, 404, "File not found: "+id)
	case op == OpStat:
		writeJSON(w, 200, xaiFile(f))
	case op == OpDelete:
		s.files.remove(id)
		writeJSON(w, 200, map[string]any{"id": id, "deleted": true, "object": "file"})
	default:
		f.serve(w, r)
	}
}

// xaiRequest has the fields of a request that the server checks.
type xaiRequest struct {
	Model string                       `json:"model"`
	Tools []map[string]json.RawMessage `json:"tools"`
	Input []struct {
		Type    string `json:"type"`
		CallID  string `json:"call_id"`
		Content []struct {
			Type   string `json:"type"`
			FileID string `json:"file_id"`
			Data   string `json:"file_data"`
			Name   string `json:"filename"`
		} `json:"content"`
	} `json:"input"`
}

// check returns a status and a message for requests that the service refuses.
func (s *XAIServer) check(q xaiRequest) (status int, message string) {
	if q.Model != XAIModel {
		return 404, "The model does not exist or your team does not have access to it."
	}
	for _, t := range q.Tools {
		if t["container"] != nil {
			return 400, "unknown field container"
		}
	}
	waiting := map[string]bool{}
	for _, i := range q.Input {
		switch i.Type {
		case "function_call":
			waiting[i.CallID] = true
		case "function_call_output":
			delete(waiting, i.CallID)
		}
		for _, p := range i.Content {
			if p.Data != "" && (p.Name == "" || !strings.HasPrefix(p.Data, "data:")) {
				return 400, "file_data must be a data URL with a filename"
			}
			if f := s.files.get(p.FileID); p.Type == "input_file" && p.Data == "" && (f == nil || f.over(s.Clock.Now())) {
				return 404, "File not found: " + p.FileID
			}
		}
	}
	if len(waiting) > 0 {
		return 400, "No tool output found for function call"
	}
	return 0, ""
}

func (s *XAIServer) respond(w http.ResponseWriter, r *http.Request) {
	var q xaiRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		xaiError(w, 422, err.Error())
		return
	}
	if status, message := s.check(q); status != 0 {
		xaiError(w, status, message)
		return
	}
	t := s.NextTurn()
	w.Header().Set("Content-Type", "text/event-stream")
	e := &xaiEvents{w: w, output: []any{}}
	e.send("response.created", map[string]any{"response": map[string]any{"id": "resp_1", "status": "in_progress"}})
	for _, step := range t.Steps {
		e.step(step, s.Bare)
	}
	if t.Text != "" {
		id := NewID("msg_")
		e.send("response.output_item.added", map[string]any{"item": map[string]any{"type": "message", "id": id}})
		for _, word := range strings.SplitAfter(t.Text, " ") {
			e.send("response.output_text.delta", map[string]any{"item_id": id, "delta": word})
		}
		e.done(map[string]any{"type": "message", "id": id, "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": t.Text}}})
	}
	for _, c := range t.Calls {
		e.done(map[string]any{"type": "function_call", "id": NewID("fc_"), "call_id": NewID("call_"), "name": c.Name,
			"arguments": string(c.Arguments), "status": "completed"})
	}
	end := map[string]any{"id": "resp_1", "model": q.Model, "status": "completed", "output": e.output,
		"usage": map[string]any{"input_tokens": 30, "output_tokens": 12,
			"input_tokens_details": map[string]any{"cached_tokens": 4}}}
	if t.Refuse {
		end["status"], end["incomplete_details"] = "incomplete", map[string]any{"reason": "content_filter"}
		e.send("response.incomplete", map[string]any{"response": end})
		return
	}
	e.send("response.completed", map[string]any{"response": end})
}

type xaiEvents struct {
	w      http.ResponseWriter
	output []any
}

func (e *xaiEvents) send(kind string, fields map[string]any) {
	fields["type"] = kind
	sendEvent(e.w, kind, fields)
}

func (e *xaiEvents) done(item map[string]any) {
	e.output = append(e.output, item)
	e.send("response.output_item.done", map[string]any{"item": item})
}

// step sends a run of code: the arguments as recorded over REST, the output in the envelope
// that was recorded over gRPC.
func (e *xaiEvents) step(step Step, bare bool) {
	id := NewID("fc_")
	arguments, _ := json.Marshal(map[string]string{"code": step.Code})
	item := map[string]any{"type": "code_interpreter_call", "name": "code_execution", "arguments": string(arguments),
		"call_id": "", "id": id, "status": "in_progress"}
	e.send("response.output_item.added", map[string]any{"item": item})
	e.send("response.code_interpreter_call_code.delta", map[string]any{"item_id": id, "delta": step.Code})
	e.send("response.code_interpreter_call.completed", map[string]any{"item_id": id})
	whole := maps.Clone(item)
	whole["status"] = "completed"
	if !bare {
		printed, _ := json.Marshal(map[string]any{"stdout": step.Stdout, "stderr": step.Stderr,
			"output_files": map[string]any{}, "error": "", "ret": ""})
		whole["outputs"] = []any{map[string]any{"type": "logs", "logs": string(printed)}}
	}
	e.done(whole)
}
