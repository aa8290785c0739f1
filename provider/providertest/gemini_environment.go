package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// geminiEnvironment is a machine of the preview, with its files.
type geminiEnvironment struct {
	id      string
	sources []any
	created time.Time
	expired bool
	files   []*shelved // name is the path
}

func (e *geminiEnvironment) put(f *shelved) {
	e.files = append(slices.DeleteFunc(e.files, func(k *shelved) bool { return k.name == f.name }), f)
}

func (e *geminiEnvironment) get(where string) *shelved {
	for _, f := range e.files {
		if f.name == where {
			return f
		}
	}
	return nil
}

func (e *geminiEnvironment) wire() map[string]any {
	status := "active"
	if e.expired {
		status = "expired"
	}
	return map[string]any{"id": e.id, "status": status, "created": e.created.Format(time.RFC3339Nano), "last_accessed": e.created.Format(time.RFC3339Nano),
		"file_count": strconv.Itoa(len(e.files)), "sources": e.sources}
}

// isUpload tells environments that hold one upload from those of sessions.
func (e *geminiEnvironment) isUpload() bool {
	return strings.Contains(fmt.Sprint(e.sources), ".airlock/upload-")
}

func environmentOp(r *http.Request) Op {
	_, rest, inside := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/environments"), "/files/")
	switch {
	case inside && r.URL.Query().Get("alt") == "media":
		return OpDownload
	case inside && rest == "":
		return OpSessionFiles
	case r.Method == http.MethodPost:
		return OpSessionCreate
	case r.Method == http.MethodDelete:
		return OpSessionDelete
	case strings.Count(r.URL.Path, "/") > 2:
		return OpSessionGet
	}
	return OpSessionList
}

// ExpireSessions implements Dialect.
func (s *GeminiServer) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.environments {
		e.expired = e.expired || !e.isUpload()
	}
}

func (s *GeminiServer) environmentObjects() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.environments {
		switch {
		case e.isUpload():
			all = append(all, "file "+e.id)
		case !e.expired:
			all = append(all, "session "+e.id)
		}
	}
	return all
}

func (s *GeminiServer) environment(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, where, inside := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1beta/environments"), "/"), "/files/")
	op := s.Op(r)
	switch op {
	case OpSessionCreate:
		s.createEnvironment(w, r)
		return
	case OpSessionList:
		s.listEnvironments(w, r)
		return
	}
	e := s.environments[id]
	switch {
	case e == nil:
		geminiError(w, 404, "Environment "+id+" not found.", 0)
	case op == OpSessionDelete:
		delete(s.environments, id)
		writeJSON(w, 200, map[string]any{})
	case op == OpSessionGet:
		writeJSON(w, 200, e.wire())
	case e.expired:
		geminiError(w, 400, "Environment "+id+" has expired.", 0)
	case op == OpDownload && inside:
		if f := e.get(where); f != nil {
			f.serve(w, r)
			return
		}
		geminiError(w, 404, "File "+where+" not found.", 0)
	default:
		all := []any{map[string]any{"name": "sub", "path": "sub", "type": "directory"}}
		for _, f := range e.files {
			all = append(all, map[string]any{"name": path.Base(f.name), "path": f.name, "type": "file", "mime_type": f.mime, "size_bytes": strconv.Itoa(len(f.data)), "created": f.created.Format(time.RFC3339Nano)})
		}
		// Pages of two.
		start, _ := strconv.Atoi(r.URL.Query().Get("page_token"))
		answer := map[string]any{"files": all[start:min(start+2, len(all))]}
		if start+2 < len(all) {
			answer["next_page_token"] = strconv.Itoa(start + 2)
		}
		writeJSON(w, 200, answer)
	}
}

func (s *GeminiServer) createEnvironment(w http.ResponseWriter, r *http.Request) {
	var q struct {
		From    string `json:"from_environment"`
		Sources []struct {
			Type, Content, Target string
		} `json:"sources"`
		Network any `json:"network"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		geminiError(w, 400, err.Error(), 0)
		return
	}
	e := &geminiEnvironment{id: NewID("env"), created: s.Clock.Now()}
	if q.From != "" {
		from := s.environments[q.From]
		if from == nil || from.expired {
			geminiError(w, 404, "Environment "+q.From+" not found.", 0)
			return
		}
		for _, f := range from.files {
			clone := *f
			e.put(&clone)
		}
	}
	for _, src := range q.Sources {
		e.sources = append(e.sources, map[string]any{"type": src.Type, "target": src.Target})
		e.put(&shelved{name: src.Target, data: []byte(src.Content), created: s.Clock.Now()})
	}
	s.environments[e.id] = e
	writeJSON(w, 200, e.wire())
}

func (s *GeminiServer) listEnvironments(w http.ResponseWriter, r *http.Request) {
	all := []map[string]any{}
	for _, e := range s.environments {
		all = append(all, e.wire())
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	start, _ := strconv.Atoi(r.URL.Query().Get("page_token"))
	answer := map[string]any{"environments": all[start:min(start+3, len(all))]}
	if start+3 < len(all) {
		answer["next_page_token"] = strconv.Itoa(start + 3)
	}
	writeJSON(w, 200, answer)
}

// startInside begins an upload to a path of an environment. The lock is held.
func (s *GeminiServer) startInside(w http.ResponseWriter, r *http.Request) {
	id, where, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/upload/v1beta/environments/"), "/files/")
	e := s.environments[id]
	switch {
	case e == nil || e.expired:
		geminiError(w, 404, "Environment "+id+" not found.", 0)
		return
	case r.Method != http.MethodPut || where == "":
		http.Error(w, "bad start", http.StatusBadRequest)
		return
	}
	up := NewID("up")
	s.uploads[up] = &geminiUpload{file: &shelved{name: where, mime: r.Header.Get("X-Goog-Upload-Header-Content-Type")}, inside: e}
	w.Header().Set("X-Goog-Upload-Status", "active")
	w.Header().Set("X-Goog-Upload-URL", "https://elsewhere.invalid/upload/v1beta/files?upload_id="+up)
	w.WriteHeader(http.StatusOK)
}

// interact answers a request of the preview.
func (s *GeminiServer) interact(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model       string
		Environment string
		Store       *bool
		Stream      bool
		Input       []struct {
			Type   string `json:"type"`
			ID     string `json:"id"`
			CallID string `json:"call_id"`
		}
		Tools []struct{ Type string }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !q.Stream || q.Store == nil || *q.Store {
		geminiError(w, 400, fmt.Sprint("a stream that is not stored was expected: ", err), 0)
		return
	}
	if q.Model != GeminiModel {
		geminiError(w, 404, "model is not found", 0)
		return
	}
	waiting := map[string]bool{}
	for _, step := range q.Input {
		switch step.Type {
		case "function_call":
			waiting[step.ID] = true
		case "function_result":
			delete(waiting, step.CallID)
		case "":
			geminiError(w, 400, "a step without a type", 0)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.environments[q.Environment]
	switch {
	case len(waiting) > 0:
		geminiError(w, 400, "a function call without a result", 0)
		return
	case len(q.Tools) > 0 && q.Tools[0].Type == "code_execution" && e == nil:
		geminiError(w, 404, "Environment "+q.Environment+" not found.", 0)
		return
	case e != nil && e.expired:
		geminiError(w, 400, "Environment "+q.Environment+" has expired.", 0)
		return
	}
	t := s.NextTurn()
	w.Header().Set("Content-Type", "text/event-stream")
	v := &geminiSteps{w: w}
	v.send("interaction.created", map[string]any{"interaction": map[string]any{"id": "int_1", "status": "in_progress"}})
	for _, step := range t.Steps {
		v.code(step)
		for _, m := range step.Files {
			e.put(&shelved{name: strings.TrimPrefix(path.Clean("/"+m.Name), "/"), data: m.Data, created: s.Clock.Now(), mime: http.DetectContentType(m.Data), made: true})
			if m.Shown {
				v.step(map[string]any{"type": "model_output"}, map[string]any{"type": "image", "data": m.Data, "mime_type": http.DetectContentType(m.Data)})
			}
		}
	}
	if t.Text != "" {
		var deltas []map[string]any
		for _, word := range strings.SplitAfter(t.Text, " ") {
			deltas = append(deltas, map[string]any{"type": "text", "text": word})
		}
		v.step(map[string]any{"type": "model_output"}, deltas...)
	}
	status := "completed"
	for _, c := range t.Calls {
		status = "requires_action"
		half := len(c.Arguments) / 2
		v.step(map[string]any{"type": "function_call", "id": NewID("call_"), "name": c.Name, "arguments": map[string]any{}},
			map[string]any{"type": "arguments_delta", "arguments": string(c.Arguments[:half])}, map[string]any{"type": "arguments_delta", "arguments": string(c.Arguments[half:])})
	}
	v.send("interaction.completed", map[string]any{"interaction": map[string]any{"id": "int_1", "model": "models/" + GeminiModel, "status": status,
		"usage": map[string]any{"total_input_tokens": 20, "total_output_tokens": 9, "total_thought_tokens": 2, "total_cached_tokens": 1}}})
}

type geminiSteps struct {
	w     http.ResponseWriter
	index int
}

func (v *geminiSteps) send(kind string, fields map[string]any) {
	fields["event_type"] = kind
	data, _ := json.Marshal(fields)
	fmt.Fprintf(v.w, "event: %s\ndata: %s\n\n", kind, data)
	_ = http.NewResponseController(v.w).Flush()
}

func (v *geminiSteps) step(start map[string]any, deltas ...map[string]any) {
	v.send("step.start", map[string]any{"index": v.index, "step": start})
	for _, d := range deltas {
		v.send("step.delta", map[string]any{"index": v.index, "delta": d})
	}
	v.send("step.stop", map[string]any{"index": v.index})
	v.index++
}

func (v *geminiSteps) code(s Step) {
	id := NewID("code_")
	language := s.Language
	if language == "" {
		language = "python"
	}
	v.step(map[string]any{"type": "code_execution_call", "id": id, "arguments": map[string]any{}},
		map[string]any{"type": "code_execution_call", "arguments": map[string]any{"code": s.Code, "language": language}, "signature": "c2ln"})
	result := s.Stdout + s.Stderr
	v.step(map[string]any{"type": "code_execution_result", "call_id": id}, map[string]any{"type": "code_execution_result", "result": result, "is_error": s.Exit != 0 || s.TimedOut, "signature": "c2ln"})
}
