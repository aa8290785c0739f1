package providertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// GeminiModel is the model of the test server.
const GeminiModel = "gemini-test-3"

// GeminiServer serves generateContent and the Files API of v1beta.
type GeminiServer struct {
	*Base
	// Processing is the number of requests for a new file before it can be used.
	Processing int

	mu      sync.Mutex
	uploads map[string]*geminiUpload
	waits   map[string]int // remaining Processing of files
}

// geminiUpload is an upload under way.
type geminiUpload struct {
	file  *shelved
	final bool
}

// NewGeminiServer starts a server that ends with the test.
func NewGeminiServer(tb testing.TB) *GeminiServer {
	s := &GeminiServer{uploads: map[string]*geminiUpload{}, waits: map[string]int{}}
	NewBase(tb, s, &s.Base)
	return s
}

// Op implements Dialect.
func (s *GeminiServer) Op(r *http.Request) Op {
	path := r.URL.Path
	switch {
	case path == "/upload/v1beta/files" && strings.Contains(r.Header.Get("X-Goog-Upload-Command"), "finalize"):
		return OpUpload
	case path == "/upload/v1beta/files":
		return OpUploadPart
	case strings.HasSuffix(path, ":streamGenerateContent"):
		return OpRun
	case strings.HasPrefix(path, "/v1beta/models"):
		return OpCheck
	case strings.HasSuffix(path, ":download"):
		return OpDownload
	case path == "/v1beta/files":
		return OpList
	case r.Method == http.MethodDelete:
		return OpDelete
	case strings.HasPrefix(path, "/v1beta/files/"):
		return OpStat
	}
	return OpOther
}

// WriteError implements Dialect.
func (s *GeminiServer) WriteError(w http.ResponseWriter, status int, retryAfter time.Duration) {
	geminiError(w, status, "injected", retryAfter)
}

func geminiError(w http.ResponseWriter, status int, message string, retryAfter time.Duration) {
	words := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
	e := map[string]any{"code": status, "message": message, "status": words[status]}
	w.Header().Del("Retry-After") // the service says it in the body
	if retryAfter > 0 {
		e["details"] = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay": fmt.Sprintf("%ds", int(retryAfter.Seconds()))}}
	}
	writeJSON(w, status, map[string]any{"error": e})
}

// ServeHTTP implements Dialect.
func (s *GeminiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("X-Goog-Api-Key") + r.URL.Query().Get("key")
	if key == "" || key == "wrong" {
		geminiError(w, 400, "API key not valid. Please pass a valid API key.", 0)
		return
	}
	if !serveOp(w, r, s.Op(r), s.models, s.generate, s.upload, s.list, s.file) {
		geminiError(w, 404, "not found", 0)
	}
}

func (s *GeminiServer) models(w http.ResponseWriter, r *http.Request) {
	model := map[string]any{"name": "models/" + GeminiModel, "displayName": "Test"}
	switch strings.TrimPrefix(r.URL.Path, "/v1beta/") {
	case "models":
		writeJSON(w, 200, map[string]any{"models": []any{model}})
	case "models/" + GeminiModel:
		writeJSON(w, 200, model)
	default:
		geminiError(w, 404, "model is not found for API version v1beta", 0)
	}
}

// upload serves a resumable upload: start, parts, finalize, query.
func (s *GeminiServer) upload(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	command := r.Header.Get("X-Goog-Upload-Command")
	if command == "start" {
		s.start(w, r)
		return
	}
	u := s.uploads[r.URL.Query().Get("upload_id")]
	if u == nil {
		http.Error(w, "Upload not found", http.StatusNotFound) // the front end answers in plain text
		return
	}
	if !u.final && command != "query" {
		offset, err := strconv.ParseInt(r.Header.Get("X-Goog-Upload-Offset"), 10, 64)
		if err != nil || offset != int64(len(u.file.data)) {
			http.Error(w, fmt.Sprintf("offset %d, have %d", offset, len(u.file.data)), http.StatusBadRequest)
			return
		}
		data, err := io.ReadAll(r.Body)
		u.file.data = append(u.file.data, data...)
		if err != nil {
			return // the connection broke; the received bytes count
		}
		if strings.Contains(command, "finalize") {
			u.final = true
			u.file.created = s.Clock.Now()
			u.file.expires = u.file.created.Add(48 * time.Hour)
			s.waits[u.file.id] = s.Processing
			s.files.put(u.file)
		}
	}
	w.Header().Set("X-Goog-Upload-Status", "active")
	if !u.final {
		w.Header().Set("X-Goog-Upload-Size-Received", strconv.Itoa(len(u.file.data)))
		return
	}
	w.Header().Set("X-Goog-Upload-Status", "final")
	writeJSON(w, 200, map[string]any{"file": s.describe(u.file)})
}

func (s *GeminiServer) start(w http.ResponseWriter, r *http.Request) {
	var about struct {
		File struct{ DisplayName, MimeType string }
	}
	if err := json.NewDecoder(r.Body).Decode(&about); err != nil || r.Header.Get("X-Goog-Upload-Protocol") != "resumable" {
		http.Error(w, "bad start", http.StatusBadRequest)
		return
	}
	id := NewID("up")
	s.uploads[id] = &geminiUpload{file: &shelved{id: NewID("files/"), name: about.File.DisplayName,
		mime: about.File.MimeType}}
	w.Header().Set("X-Goog-Upload-Status", "active")
	w.Header().Set("X-Goog-Upload-URL", "https://elsewhere.invalid/upload/v1beta/files?upload_id="+id)
	w.WriteHeader(http.StatusOK)
}

// describe returns a file in the service's format. The caller holds mu.
func (s *GeminiServer) describe(f *shelved) map[string]any {
	sum := sha256.Sum256(f.data)
	m := map[string]any{"name": f.id, "displayName": f.name, "mimeType": f.mime, "sizeBytes": strconv.Itoa(len(f.data)),
		"createTime": f.created.Format(time.RFC3339Nano), "updateTime": f.created.Format(time.RFC3339Nano),
		"expirationTime": f.expires.Format(time.RFC3339Nano),
		"sha256Hash":     hex.EncodeToString(sum[:]), "uri": s.URL + "/v1beta/" + f.id, "state": "ACTIVE",
		"source": "UPLOADED"}
	if s.waits[f.id] > 0 {
		m["state"] = "PROCESSING"
	}
	if f.made {
		m["source"] = "GENERATED"
	}
	return m
}

func (s *GeminiServer) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part, more := pageAfter(s.files.newest(), r.URL.Query().Get("pageToken"), 3)
	all := []any{}
	for _, f := range part {
		all = append(all, s.describe(f))
	}
	answer := map[string]any{"files": all}
	if more {
		answer["nextPageToken"] = part[len(part)-1].id
	}
	writeJSON(w, 200, answer)
}

func (s *GeminiServer) file(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1beta/"), ":download")
	f := s.files.get(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op := s.Op(r); {
	case f == nil || f.over(s.Clock.Now()):
		geminiError(w, 403, "You do not have permission to access the File "+id+" or it may not exist.", 0)
	case op == OpDelete:
		s.files.remove(id)
		writeJSON(w, 200, map[string]any{})
	case op == OpStat:
		s.waits[id]--
		writeJSON(w, 200, s.describe(f))
	case !f.made:
		geminiError(w, 400, "File "+id+" cannot be downloaded: only generated files can.", 0)
	default:
		f.serve(w, r)
	}
}
