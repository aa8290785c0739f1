package providertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// OpenAI is a test server for package openai: files, uploads in parts, containers and the
// Responses API, as in recordings and the reference.
type OpenAI struct {
	*Base
	mux *http.ServeMux

	mu         sync.Mutex
	uploads    map[string]*openAIUpload
	containers map[string]*openAIContainer
	bodies     []json.RawMessage // of requests to /responses
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
	Files    []*shelved
	Expired  bool
}

// OpenAIKey is the valid key.
const OpenAIKey = "sk-test"

// NewOpenAI starts the server; its API is under URL + "/v1".
func NewOpenAI(tb testing.TB) *OpenAI {
	s := &OpenAI{mux: http.NewServeMux(), uploads: map[string]*openAIUpload{}, containers: map[string]*openAIContainer{}}
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
		s.refuse(w, http.StatusUnauthorized, "Incorrect API key provided.", "invalid_api_key")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Op implements Dialect.
func (s *OpenAI) Op(r *http.Request) Op {
	p := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case p[0] == "models":
		return OpCheck
	case p[0] == "responses":
		return OpRun
	case strings.HasSuffix(r.URL.Path, "/content"):
		return OpDownload
	case p[0] == "uploads" && p[len(p)-1] == "parts":
		return OpUploadPart
	case p[0] == "uploads" && p[len(p)-1] == "complete":
		return OpUpload
	}
	switch fmt.Sprint(r.Method, " ", p[0], " ", len(p)) {
	case "POST files 1":
		return OpUpload
	case "GET files 1":
		return OpList
	case "GET files 2", "GET containers 4":
		return OpStat
	case "DELETE files 2":
		return OpDelete
	case "POST containers 1":
		return OpSessionCreate
	case "GET containers 1":
		return OpSessionList
	case "GET containers 2":
		return OpSessionGet
	case "DELETE containers 2":
		return OpSessionDelete
	case "POST containers 3":
		return OpSessionAdd
	case "GET containers 3":
		return OpSessionFiles
	}
	return OpOther
}

func (s *OpenAI) refuse(w http.ResponseWriter, status int, message, code string) {
	kind := "invalid_request_error"
	switch {
	case status >= 500:
		kind = "server_error"
	case status == http.StatusTooManyRequests:
		kind = "requests"
	}
	body := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		body["code"] = code
	}
	writeJSON(w, status, map[string]any{"error": body})
}

// WriteError implements Dialect.
func (s *OpenAI) WriteError(w http.ResponseWriter, status int, _ time.Duration) {
	message := http.StatusText(status)
	if status == http.StatusNotFound {
		message = "File not found."
	}
	s.refuse(w, status, message, "")
}

// ExpireSessions implements Dialect.
func (s *OpenAI) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		c.Expired = true
	}
}

// Objects also names containers that have not expired.
func (s *OpenAI) Objects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.Base.Objects()
	for _, c := range s.containers {
		if !s.dead(c) {
			all = append(all, "session "+c.ID)
		}
	}
	slices.Sort(all)
	return all
}

// RunBodies returns the bodies of all requests to /responses.
func (s *OpenAI) RunBodies() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func (s *OpenAI) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "gpt-test", "object": "model"}, map[string]any{"id": "text-embedding-test", "object": "model"}}})
}

func (s *OpenAI) model(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.PathValue("model"), "gpt-") {
		s.refuse(w, http.StatusNotFound, "The model does not exist or you do not have access to it.", "model_not_found")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": r.PathValue("model"), "object": "model", "created": 1,
		"owned_by": "openai"})
}

func openAIWire(f *shelved) map[string]any {
	v := map[string]any{"id": f.id, "object": "file", "bytes": len(f.data), "created_at": f.created.Unix(),
		"filename": f.name, "purpose": f.purpose, "status": "processed", "status_details": nil}
	if !f.expires.IsZero() {
		v["expires_at"] = f.expires.Unix()
	}
	return v
}

// upload accepts the fields in any order.
func (s *OpenAI) upload(w http.ResponseWriter, r *http.Request) {
	f := &shelved{id: NewID("file-"), created: s.Clock.Now()}
	if err := form(r, func(part *multipart.Part, data []byte) error {
		switch part.FormName() {
		case "file":
			f.name, f.data = part.FileName(), data
		case "purpose":
			f.purpose = string(data)
		case "expires_after[seconds]":
			return f.expire(data, 3600, 30*24*3600)
		}
		return nil
	}); err != nil || f.name == "" || f.purpose == "" {
		s.refuse(w, http.StatusBadRequest, "'file' and 'purpose' are required properties", "")
		return
	}
	writeJSON(w, http.StatusOK, openAIWire(s.files.put(f)))
}

// form reads a multipart body.
func form(r *http.Request, part func(p *multipart.Part, data []byte) error) error {
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
		if err := part(p, data); err != nil {
			return err
		}
	}
}

// page writes a page of a list. all is sorted oldest first.
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
	writeJSON(w, http.StatusOK, body)
}

func (s *OpenAI) listFiles(w http.ResponseWriter, r *http.Request) {
	all := s.files.newest()
	slices.Reverse(all)
	page(w, r, all, func(f *shelved) string { return f.id }, openAIWire)
}

// withFile calls do with the file of the request.
func (s *OpenAI) withFile(w http.ResponseWriter, r *http.Request, do func(*shelved)) {
	f := s.files.get(r.PathValue("id"))
	if f == nil {
		s.refuse(w, http.StatusNotFound, "No such File object: "+r.PathValue("id"), "")
		return
	}
	do(f)
}

func (s *OpenAI) stat(w http.ResponseWriter, r *http.Request) {
	s.withFile(w, r, func(f *shelved) { writeJSON(w, http.StatusOK, openAIWire(f)) })
}

func (s *OpenAI) deleteFile(w http.ResponseWriter, r *http.Request) {
	s.withFile(w, r, func(f *shelved) {
		s.files.remove(f.id)
		writeJSON(w, http.StatusOK, map[string]any{"id": f.id, "object": "file", "deleted": true})
	})
}

func (s *OpenAI) fileContent(w http.ResponseWriter, r *http.Request) {
	s.withFile(w, r, func(f *shelved) {
		if f.purpose == "user_data" || f.purpose == "assistants" {
			s.refuse(w, http.StatusBadRequest, "Not allowed to download files of purpose: "+f.purpose, "")
			return
		}
		f.serve(w, r)
	})
}

func (s *OpenAI) begin(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Bytes             int64
		Filename, Purpose string
		MimeType          string `json:"mime_type"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || q.Filename == "" || q.Purpose == "" || q.MimeType == "" {
		s.refuse(w, http.StatusBadRequest, "bytes, filename, mime_type and purpose are required", "")
		return
	}
	id := NewID("upload_")
	s.mu.Lock()
	s.uploads[id] = &openAIUpload{Name: q.Filename, Purpose: q.Purpose, Bytes: q.Bytes, Parts: map[string][]byte{}}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, s.uploadWire(id, "pending", nil))
}

func (s *OpenAI) uploadWire(id, status string, f *shelved) map[string]any {
	v := map[string]any{"id": id, "object": "upload", "status": status, "created_at": s.Clock.Now().Unix(),
		"expires_at": s.Clock.Now().Unix() + 3600}
	if f != nil {
		v["file"] = openAIWire(f)
	}
	return v
}

func (s *OpenAI) part(w http.ResponseWriter, r *http.Request) {
	var data []byte
	err := form(r, func(p *multipart.Part, d []byte) error {
		if p.FormName() == "data" {
			data = d
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.uploads[r.PathValue("id")]
	if err != nil || up == nil {
		s.refuse(w, http.StatusBadRequest, "no such upload, or no data", "")
		return
	}
	id := NewID("part_")
	up.Parts[id] = data
	writeJSON(w, http.StatusOK, map[string]any{"id": id, "object": "upload.part", "created_at": s.Clock.Now().Unix(),
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
		s.refuse(w, http.StatusNotFound, "no such upload", "")
		return
	}
	f := &shelved{id: NewID("file-"), name: up.Name, purpose: up.Purpose, created: s.Clock.Now()}
	for _, id := range q.PartIDs {
		f.data = append(f.data, up.Parts[id]...)
	}
	if int64(len(f.data)) != up.Bytes {
		message := fmt.Sprintf("the parts have %d bytes, %d were announced", len(f.data), up.Bytes)
		s.refuse(w, http.StatusBadRequest, message, "")
		return
	}
	delete(s.uploads, r.PathValue("id"))
	s.files.put(f)
	writeJSON(w, http.StatusOK, s.uploadWire(r.PathValue("id"), "completed", f))
}

func (s *OpenAI) cancel(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, r.PathValue("id"))
	writeJSON(w, http.StatusOK, s.uploadWire(r.PathValue("id"), "cancelled", nil))
}

// stagedPath returns the path of an uploaded file in a container (recorded).
func stagedPath(f *shelved) string { return "/mnt/data/" + f.id + "-" + path.Base(f.name) }
