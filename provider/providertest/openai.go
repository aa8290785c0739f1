package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// OpenAI is a test server for package openai: files, uploads in parts, containers
// and the Responses API, as providers' recordings and reference have them.
type OpenAI struct {
	*Base
	mux *http.ServeMux

	mu         sync.Mutex
	files      map[string]*openAIFile
	uploads    map[string]*openAIUpload
	containers map[string]*openAIContainer
	bodies     []json.RawMessage // of requests to /responses
}

type openAIFile struct {
	ID, Name, Purpose, Path, Source string
	Data                            []byte
	Created                         time.Time
	Expires                         int64
}

type openAIUpload struct {
	Name, Purpose string
	Bytes         int64
	Parts         map[string][]byte
}

type openAIContainer struct {
	ID, Name string
	Created  time.Time
	Used     time.Time
	Minutes  int
	Files    []*openAIFile
	Expired  bool
}

// OpenAIKey is the key that the server takes.
const OpenAIKey = "sk-test"

// NewOpenAI starts the server; its API is under URL + "/v1".
func NewOpenAI(tb testing.TB) *OpenAI {
	s := &OpenAI{mux: http.NewServeMux(), files: map[string]*openAIFile{}, uploads: map[string]*openAIUpload{},
		containers: map[string]*openAIContainer{}}
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /v1/models":                               s.models,
		"GET /v1/models/{model}":                       s.model,
		"POST /v1/files":                               s.upload,
		"GET /v1/files":                                s.listFiles,
		"GET /v1/files/{id}":                           s.stat,
		"DELETE /v1/files/{id}":                        s.deleteFile,
		"GET /v1/files/{id}/content":                   s.fileContent,
		"POST /v1/uploads":                             s.begin,
		"POST /v1/uploads/{id}/parts":                  s.part,
		"POST /v1/uploads/{id}/complete":               s.complete,
		"POST /v1/uploads/{id}/cancel":                 s.cancel,
		"POST /v1/containers":                          s.newContainer,
		"GET /v1/containers":                           s.listContainers,
		"GET /v1/containers/{id}":                      s.getContainer,
		"DELETE /v1/containers/{id}":                   s.deleteContainer,
		"POST /v1/containers/{id}/files":               s.addFile,
		"GET /v1/containers/{id}/files":                s.listContainerFiles,
		"GET /v1/containers/{id}/files/{file}":         s.getContainerFile,
		"GET /v1/containers/{id}/files/{file}/content": s.containerContent,
		"POST /v1/responses":                           s.respond,
	} {
		s.mux.HandleFunc(pattern, handle)
	}
	NewBase(tb, s, &s.Base)
	return s
}

// ServeHTTP implements Dialect.
func (s *OpenAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-request-id", NewID("req_"))
	w.Header().Set("openai-version", "2020-10-01")
	if r.Header.Get("Authorization") != "Bearer "+OpenAIKey {
		s.refuse(w, http.StatusUnauthorized, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Op implements Dialect.
func (s *OpenAI) Op(r *http.Request) Op {
	p := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch key := r.Method + " " + p[0]; {
	case p[0] == "models":
		return OpCheck
	case p[0] == "responses":
		return OpRun
	case p[0] == "uploads" && len(p) == 3 && p[2] == "parts":
		return OpUploadPart
	case p[0] == "uploads" && len(p) == 3 && p[2] == "complete", key == "POST files":
		return OpUpload
	case strings.HasSuffix(r.URL.Path, "/content"):
		return OpDownload
	case p[0] == "files":
		return map[bool]Op{r.Method == "DELETE": OpDelete, r.Method == "GET" && len(p) == 1: OpList,
			r.Method == "GET" && len(p) == 2: OpStat}[true]
	case p[0] == "containers" && len(p) >= 3:
		return map[bool]Op{r.Method == "POST": OpSessionAdd, r.Method == "GET" && len(p) == 3: OpSessionFiles,
			r.Method == "GET" && len(p) == 4: OpStat}[true]
	case p[0] == "containers":
		return map[bool]Op{r.Method == "POST": OpSessionCreate, r.Method == "DELETE": OpSessionDelete,
			r.Method == "GET" && len(p) == 1: OpSessionList, r.Method == "GET" && len(p) == 2: OpSessionGet}[true]
	}
	return OpOther
}

func (s *OpenAI) refuse(w http.ResponseWriter, status int, message, kind, code string) {
	body := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		body["code"] = code
	}
	reply(w, status, map[string]any{"error": body})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone, or reads it
}

// WriteError implements Dialect.
func (s *OpenAI) WriteError(w http.ResponseWriter, status int, after time.Duration) {
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	}
	kind := map[bool]string{true: "server_error", false: "invalid_request_error"}[status >= 500]
	if status == http.StatusTooManyRequests {
		kind = "requests"
	}
	message := http.StatusText(status)
	if status == http.StatusNotFound {
		message = "File not found."
	}
	s.refuse(w, status, message, kind, "")
}

// ExpireSessions implements Dialect.
func (s *OpenAI) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		c.Expired = true
	}
}

// Objects implements Dialect. An expired container is nothing that costs or holds
// anything.
func (s *OpenAI) Objects() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		all = append(all, "file "+f.ID+" "+f.Name)
	}
	for _, c := range s.containers {
		if !s.dead(c) {
			all = append(all, "session "+c.ID)
		}
	}
	return all
}

// RunBodies returns the bodies of all requests to /responses.
func (s *OpenAI) RunBodies() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func (s *OpenAI) models(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "gpt-test", "object": "model"}, map[string]any{"id": "text-embedding-test", "object": "model"}}})
}

func (s *OpenAI) model(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.PathValue("model"), "gpt-") {
		s.refuse(w, http.StatusNotFound, "The model does not exist or you do not have access to it.", "invalid_request_error",
			"model_not_found")
		return
	}
	reply(w, http.StatusOK, map[string]any{"id": r.PathValue("model"), "object": "model", "created": 1,
		"owned_by": "openai"})
}

func (f *openAIFile) wire() map[string]any {
	v := map[string]any{"id": f.ID, "object": "file", "bytes": len(f.Data), "created_at": f.Created.Unix(),
		"filename": f.Name, "purpose": f.Purpose, "status": "processed", "status_details": nil}
	if f.Expires > 0 {
		v["expires_at"] = f.Created.Unix() + f.Expires
	}
	return v
}

// upload takes the fields in any order.
func (s *OpenAI) upload(w http.ResponseWriter, r *http.Request) {
	f := &openAIFile{ID: NewID("file-"), Created: s.Clock.Now()}
	if err := form(r, func(name, filename string, data []byte) {
		switch name {
		case "file":
			f.Name, f.Data = filename, data
		case "purpose":
			f.Purpose = string(data)
		case "expires_after[seconds]":
			f.Expires, _ = strconv.ParseInt(string(data), 10, 64)
		}
	}); err != nil || f.Name == "" || f.Purpose == "" {
		s.refuse(w, http.StatusBadRequest, "'file' and 'purpose' are required properties", "invalid_request_error", "")
		return
	}
	s.mu.Lock()
	s.files[f.ID] = f
	s.mu.Unlock()
	reply(w, http.StatusOK, f.wire())
}

// form reads a multipart body.
func form(r *http.Request, part func(name, filename string, data []byte)) error {
	m, err := r.MultipartReader()
	if err != nil {
		return err
	}
	for {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return err
		}
		part(p.FormName(), p.FileName(), data)
	}
}

// page writes a list, newest last unless order=desc.
func page[T any](w http.ResponseWriter, r *http.Request, all []T, id func(T) string, wire func(T) map[string]any) {
	if r.URL.Query().Get("order") != "asc" {
		slices.Reverse(all)
	}
	if after := r.URL.Query().Get("after"); after != "" {
		all = all[slices.IndexFunc(all, func(t T) bool { return id(t) == after })+1:]
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit == 0 {
		limit = 20
	}
	more := len(all) > limit
	all = all[:min(limit, len(all))]
	data := []map[string]any{}
	for _, t := range all {
		data = append(data, wire(t))
	}
	body := map[string]any{"object": "list", "data": data, "has_more": more, "first_id": nil, "last_id": nil}
	if len(data) > 0 {
		body["first_id"], body["last_id"] = data[0]["id"], data[len(data)-1]["id"]
	}
	reply(w, http.StatusOK, body)
}

func (s *OpenAI) listFiles(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*openAIFile
	for _, f := range s.files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *openAIFile) int { return a.Created.Compare(b.Created) })
	page(w, r, all, func(f *openAIFile) string { return f.ID }, (*openAIFile).wire)
}

// withFile looks a file up.
func (s *OpenAI) withFile(w http.ResponseWriter, r *http.Request, do func(*openAIFile)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[r.PathValue("id")]
	if f == nil {
		s.refuse(w, http.StatusNotFound, "No such File object: "+r.PathValue("id"), "invalid_request_error", "")
		return
	}
	do(f)
}

func (s *OpenAI) stat(w http.ResponseWriter, r *http.Request) {
	s.withFile(w, r, func(f *openAIFile) { reply(w, http.StatusOK, f.wire()) })
}

func (s *OpenAI) deleteFile(w http.ResponseWriter, r *http.Request) {
	s.withFile(w, r, func(f *openAIFile) {
		delete(s.files, f.ID)
		reply(w, http.StatusOK, map[string]any{"id": f.ID, "object": "file", "deleted": true})
	})
}

func (s *OpenAI) fileContent(w http.ResponseWriter, r *http.Request) {
	s.withFile(w, r, func(f *openAIFile) {
		if f.Purpose == "user_data" || f.Purpose == "assistants" {
			s.refuse(w, http.StatusBadRequest, "Not allowed to download files of purpose: "+f.Purpose, "invalid_request_error",
				"")
			return
		}
		content(w, r, f.Data)
	})
}

// content writes bytes, from an offset when it is asked for.
func content(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (s *OpenAI) begin(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Bytes             int64
		Filename, Purpose string
		MimeType          string `json:"mime_type"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || q.Filename == "" || q.Purpose == "" || q.MimeType == "" {
		s.refuse(w, http.StatusBadRequest, "bytes, filename, mime_type and purpose are required", "invalid_request_error", "")
		return
	}
	id := NewID("upload_")
	s.mu.Lock()
	s.uploads[id] = &openAIUpload{Name: q.Filename, Purpose: q.Purpose, Bytes: q.Bytes, Parts: map[string][]byte{}}
	s.mu.Unlock()
	reply(w, http.StatusOK, s.uploadWire(id, "pending", nil))
}

func (s *OpenAI) uploadWire(id, status string, f *openAIFile) map[string]any {
	v := map[string]any{"id": id, "object": "upload", "status": status, "created_at": s.Clock.Now().Unix(),
		"expires_at": s.Clock.Now().Unix() + 3600}
	if f != nil {
		v["file"] = f.wire()
	}
	return v
}

func (s *OpenAI) part(w http.ResponseWriter, r *http.Request) {
	var data []byte
	err := form(r, func(name, _ string, d []byte) {
		if name == "data" {
			data = d
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.uploads[r.PathValue("id")]
	if err != nil || up == nil {
		s.refuse(w, http.StatusBadRequest, "no such upload, or no data", "invalid_request_error", "")
		return
	}
	id := NewID("part_")
	up.Parts[id] = data
	reply(w, http.StatusOK, map[string]any{"id": id, "object": "upload.part", "created_at": s.Clock.Now().Unix(),
		"upload_id": r.PathValue("id")})
}

func (s *OpenAI) complete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		PartIDs []string `json:"part_ids"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.uploads[r.PathValue("id")]
	if up == nil {
		s.refuse(w, http.StatusNotFound, "no such upload", "invalid_request_error", "")
		return
	}
	f := &openAIFile{ID: NewID("file-"), Name: up.Name, Purpose: up.Purpose, Created: s.Clock.Now()}
	for _, id := range q.PartIDs {
		f.Data = append(f.Data, up.Parts[id]...)
	}
	if int64(len(f.Data)) != up.Bytes {
		s.refuse(w, http.StatusBadRequest, fmt.Sprintf("the parts have %d bytes, %d were announced", len(f.Data), up.Bytes),
			"invalid_request_error", "")
		return
	}
	delete(s.uploads, r.PathValue("id"))
	s.files[f.ID] = f
	reply(w, http.StatusOK, s.uploadWire(r.PathValue("id"), "completed", f))
}

func (s *OpenAI) cancel(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, r.PathValue("id"))
	reply(w, http.StatusOK, s.uploadWire(r.PathValue("id"), "cancelled", nil))
}

// stagedPath is where an uploaded file lies in a container (recorded).
func stagedPath(f *openAIFile) string { return "/mnt/data/" + f.ID + "-" + path.Base(f.Name) }
