package jupyter

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// notebook is a session of the Jupyter API: a document, or another thing with a path,
// and its kernel.
type notebook struct {
	id     engine.ID
	kernel *kernel
	path   string
	name   string
	kind   string
	made   time.Time
}

type notebookModel struct {
	ID       string       `json:"id"`
	Path     string       `json:"path"`
	Name     string       `json:"name"`
	Type     string       `json:"type"`
	Kernel   kernelModel  `json:"kernel"`
	Notebook notebookPath `json:"notebook"`
}

type notebookPath struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// notebookBody asks for a notebook, or for a change. Fields that are nil stay.
type notebookBody struct {
	Path     *string       `json:"path"`
	Name     *string       `json:"name"`
	Type     *string       `json:"type"`
	Notebook *notebookBody `json:"notebook"` // of clients before version 5
	Kernel   *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"kernel"`
}

// longestPath is how long the path, name or type of a notebook may be.
const longestPath = 4096

func (b *notebookBody) apply(n *notebook) error {
	for _, field := range []struct {
		from *string
		to   *string
	}{{b.Path, &n.path}, {b.Name, &n.name}, {b.Type, &n.kind}} {
		if field.from == nil {
			continue
		}
		if len(*field.from) > longestPath {
			return wire.Refuse(http.StatusBadRequest, "A path, name or type may have %d bytes", longestPath)
		}
		*field.to = *field.from
	}
	return nil
}

func (n *notebook) model() notebookModel {
	return notebookModel{n.id.UUID(), n.path, n.name, n.kind, n.kernel.model(), notebookPath{n.path, n.name}}
}

// notebooks returns a caller's notebooks, oldest first.
func (s *Server) notebooks(caller engine.Caller) []*notebook {
	return s.notebooksOf(func(owner engine.Owner) bool { return owner == caller.Owner })
}

// notebooksOf returns the notebooks of some owners, oldest first.
func (s *Server) notebooksOf(some func(engine.Owner) bool) []*notebook {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*notebook
	for _, n := range s.notebook {
		if some(n.kernel.caller.Owner) {
			copied := *n
			all = append(all, &copied)
		}
	}
	slices.SortFunc(all, func(a, b *notebook) int {
		return cmp.Or(
			a.made.Compare(b.made), strings.Compare(a.path, b.path))
	})
	return all
}

func (s *Server) listNotebooks(w http.ResponseWriter, r *http.Request) error {
	all := s.notebooks(s.Caller(r))
	models := make([]any, len(all))
	for i, n := range all {
		models[i] = n.model()
	}
	return s.writeList(w, r, models)
}

func (s *Server) createNotebook(w http.ResponseWriter, r *http.Request) error {
	var body notebookBody
	if err := s.readJSON(w, r, maxRequest, &body); err != nil {
		return err
	}
	if body.Notebook != nil && body.Path == nil {
		body.Path, body.Name = body.Notebook.Path, body.Notebook.Name
	}
	if body.Path == nil {
		return wire.Refuse(http.StatusBadRequest, "Missing field in JSON data: path")
	}
	n := &notebook{id: engine.NewID(), kind: "notebook", made: time.Now()}
	if err := body.apply(n); err != nil {
		return err
	}
	caller := s.Caller(r)
	for _, known := range s.notebooks(caller) {
		if known.path != n.path {
			continue
		}
		if _, err := s.find(r.Context(), caller, known.kernel.id.UUID()); err == nil { // otherwise its kernel has ended
			return writeJSON(w, http.StatusCreated, known.model())
		}
	}
	var err error
	if n.kernel, err = s.kernelOf(r.Context(), caller, &body); err != nil {
		return err
	}
	own := s.notebooksOf(func(owner engine.Owner) bool { return owner.Account() == caller.Owner.Account() })
	s.mu.Lock()
	for ; len(own) >= maxNotebooks; own = own[1:] {
		delete(s.notebook, own[0].id)
	}
	s.notebook[n.id] = n
	s.mu.Unlock()
	setLocation(w, r, "api/sessions/"+n.id.UUID())
	return writeJSON(w, http.StatusCreated, n.model())
}

// maxNotebooks limits the notebooks of an owner, many of which may have one kernel. A new one takes the place of the
// oldest.
const maxNotebooks = 1024

// kernelOf returns the kernel of a body, or a new one.
func (s *Server) kernelOf(ctx context.Context, caller engine.Caller, body *notebookBody) (*kernel, error) {
	name := ""
	if body.Kernel != nil {
		if body.Kernel.ID != "" {
			return s.find(ctx, caller, body.Kernel.ID)
		}
		name = body.Kernel.Name
	}
	return s.start(ctx, caller, name, nil)
}

// notebookOf finds the notebook of a request. The caller does not hold mu.
func (s *Server) notebookOf(r *http.Request) (*notebook, error) {
	id, err := engine.ParseUUID(strings.ToLower(r.PathValue("id")))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := s.notebook[id]; n != nil && n.kernel.caller.Owner == s.Caller(r).Owner {
			return n, nil
		}
	}
	return nil, wire.Refuse(http.StatusNotFound, "Session not found: session_id=%.60s", r.PathValue("id"))
}

func (s *Server) getNotebook(w http.ResponseWriter, r *http.Request) error {
	n, err := s.notebookOf(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	copied := *n
	s.mu.Unlock()
	return writeJSON(w, http.StatusOK, copied.model())
}

func (s *Server) changeNotebook(w http.ResponseWriter, r *http.Request) error {
	n, err := s.notebookOf(r)
	if err != nil {
		return err
	}
	var body notebookBody
	if err := s.readJSON(w, r, maxRequest, &body); err != nil {
		return err
	}
	k := n.kernel
	if body.Kernel != nil && (body.Kernel.ID != "" || body.Kernel.Name != "") {
		if k, err = s.kernelOf(r.Context(), s.Caller(r), &body); err != nil {
			return err
		}
	}
	s.mu.Lock()
	before := n.kernel
	n.kernel = k
	err = body.apply(n)
	changed := *n
	s.mu.Unlock()
	if err == nil && before != k {
		err = before.delete(r.Context())
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, changed.model())
}

func (s *Server) deleteNotebook(w http.ResponseWriter, r *http.Request) error {
	n, err := s.notebookOf(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	k := n.kernel
	delete(s.notebook, n.id)
	s.mu.Unlock()
	return noContent(w, k.delete(r.Context()))
}
