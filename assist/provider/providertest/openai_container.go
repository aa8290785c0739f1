package providertest

import (
	"encoding/json"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"time"
)

// dead reports whether a container's idle clock has run out.
func (s *OpenAI) dead(c *openAIContainer) bool {
	return c.Expired || s.Clock.Now().Sub(c.Used) >= time.Duration(c.Minutes)*time.Minute
}

func (s *OpenAI) wireContainer(c *openAIContainer) map[string]any {
	status := "running"
	if s.dead(c) {
		status = "expired"
	}
	return map[string]any{"id": c.ID, "object": "container", "name": c.Name, "created_at": c.Created.Unix(),
		"status": status, "last_active_at": c.Used.Unix(),
		"expires_after": map[string]any{"anchor": "last_active_at", "minutes": c.Minutes}, "memory_limit": "1g"}
}

func wireContainerFile(id string, f *shelved) map[string]any {
	return map[string]any{"id": f.id, "object": "container.file", "created_at": f.created.Unix(), "bytes": len(f.data),
		"container_id": id, "path": f.path, "source": f.source}
}

// makeContainer creates a container. The caller holds mu.
func (s *OpenAI) makeContainer(name string, files []string) (*openAIContainer, bool) {
	c := &openAIContainer{ID: NewID("cntr_"), Name: name, Created: s.Clock.Now(), Used: s.Clock.Now(), Minutes: 20}
	for _, id := range files {
		if !s.copyInto(c, id) {
			return nil, false
		}
	}
	s.containers[c.ID] = c
	return c, true
}

func (s *OpenAI) copyInto(c *openAIContainer, id string) bool {
	f := s.files.get(id)
	if f == nil {
		return false
	}
	c.Files = append(c.Files, &shelved{id: NewID("cfile_"), path: stagedPath(f), source: "user", data: f.data,
		created: s.Clock.Now()})
	return true
}

func (s *OpenAI) newContainer(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name         string
		FileIDs      []string              `json:"file_ids"`
		ExpiresAfter struct{ Minutes int } `json:"expires_after"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if json.NewDecoder(r.Body).Decode(&q) != nil || q.Name == "" {
		s.refuse(w, http.StatusBadRequest, "Missing required parameter: 'name'.", "missing_required_parameter")
		return
	}
	c, ok := s.makeContainer(q.Name, q.FileIDs)
	if !ok {
		s.refuse(w, http.StatusNotFound, "No such File object", "")
		return
	}
	if q.ExpiresAfter.Minutes > 0 {
		c.Minutes = q.ExpiresAfter.Minutes
	}
	writeJSON(w, http.StatusOK, s.wireContainer(c))
}

func (s *OpenAI) listContainers(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*openAIContainer
	for _, c := range s.containers {
		if name := r.URL.Query().Get("name"); name == "" || name == c.Name {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *openAIContainer) int { return a.Created.Compare(b.Created) })
	page(w, r, all, func(c *openAIContainer) string { return c.ID }, s.wireContainer)
}

// withContainer calls do with the container of the request and restarts its idle clock.
func (s *OpenAI) withContainer(w http.ResponseWriter, r *http.Request, do func(*openAIContainer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[r.PathValue("id")]
	if c == nil {
		s.refuse(w, http.StatusNotFound, "Container with id '"+r.PathValue("id")+"' not found.", "")
		return
	}
	if !s.dead(c) {
		c.Used = s.Clock.Now()
	}
	do(c)
}

func (s *OpenAI) getContainer(w http.ResponseWriter, r *http.Request) {
	s.withContainer(w, r, func(c *openAIContainer) { writeJSON(w, http.StatusOK, s.wireContainer(c)) })
}

// deleteContainer answers with an empty body, as the service does.
func (s *OpenAI) deleteContainer(w http.ResponseWriter, r *http.Request) {
	s.withContainer(w, r, func(c *openAIContainer) {
		delete(s.containers, c.ID)
		w.WriteHeader(http.StatusOK)
	})
}

// alive is withContainer for requests that an expired container refuses.
func (s *OpenAI) alive(w http.ResponseWriter, r *http.Request, do func(*openAIContainer)) {
	s.withContainer(w, r, func(c *openAIContainer) {
		if s.dead(c) {
			s.expired(w)
			return
		}
		do(c)
	})
}

func (s *OpenAI) expired(w http.ResponseWriter) {
	s.refuse(w, http.StatusBadRequest, "Container is expired.", "")
}

func (s *OpenAI) addFile(w http.ResponseWriter, r *http.Request) {
	s.alive(w, r, func(c *openAIContainer) {
		// The SDK sends a form, with a file_id or a file.
		id := ""
		var sent *shelved
		if err := form(r, func(p *multipart.Part, data []byte) error {
			switch p.FormName() {
			case "file_id":
				id = string(data)
			case "file":
				sent = &shelved{id: NewID("cfile_"), path: "/mnt/data/" + path.Base(p.FileName()), source: "user", data: data,
					created: s.Clock.Now()}
			}
			return nil
		}); err != nil {
			var q struct {
				FileID string `json:"file_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&q)
			id = q.FileID
		}
		if sent != nil {
			c.Files = append(c.Files, sent)
		} else if !s.copyInto(c, id) {
			s.refuse(w, http.StatusNotFound, "No such File object: "+id, "")
			return
		}
		writeJSON(w, http.StatusOK, wireContainerFile(c.ID, c.Files[len(c.Files)-1]))
	})
}

func (s *OpenAI) listContainerFiles(w http.ResponseWriter, r *http.Request) {
	s.alive(w, r, func(c *openAIContainer) {
		page(w, r, slices.Clone(c.Files), func(f *shelved) string { return f.id },
			func(f *shelved) map[string]any { return wireContainerFile(c.ID, f) })
	})
}

func (s *OpenAI) withContainerFile(w http.ResponseWriter, r *http.Request, do func(*openAIContainer, *shelved)) {
	s.alive(w, r, func(c *openAIContainer) {
		i := slices.IndexFunc(c.Files, func(f *shelved) bool { return f.id == r.PathValue("file") })
		if i < 0 {
			s.refuse(w, http.StatusNotFound, "File not found.", "")
			return
		}
		do(c, c.Files[i])
	})
}

func (s *OpenAI) getContainerFile(w http.ResponseWriter, r *http.Request) {
	s.withContainerFile(w, r, func(c *openAIContainer, f *shelved) {
		writeJSON(w, http.StatusOK, wireContainerFile(c.ID, f))
	})
}

func (s *OpenAI) containerContent(w http.ResponseWriter, r *http.Request) {
	var file *shelved
	s.withContainerFile(w, r, func(_ *openAIContainer, f *shelved) { file = f })
	if file != nil { // without the lock, so that downloads are concurrent
		file.serve(w, r)
	}
}

// Holds reports whether a living container has a file of this name that code made.
func (s *OpenAI) Holds(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		if !s.dead(c) && slices.ContainsFunc(c.Files, func(f *shelved) bool { return f.path == "/mnt/data/"+name }) {
			return true
		}
	}
	return false
}
