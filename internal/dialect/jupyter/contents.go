package jupyter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// The contents API shows the files of kernels: at the top is a folder for each kernel, named by its
// id, with the files that its programs see.

// maxFileContent is the limit of a file that is read or written through JSON.
const maxFileContent = 32 << 20

// contentModel is a file, a notebook or a folder.
type contentModel struct {
	Name     string  `json:"name"`
	Path     string  `json:"path"`
	Type     string  `json:"type"`
	Created  stamp   `json:"created"`
	Modified stamp   `json:"last_modified"`
	MIME     *string `json:"mimetype"`
	Size     *int64  `json:"size"`
	Writable bool    `json:"writable"`
	Content  any     `json:"content"`
	Format   *string `json:"format"`
}

const (
	typeFile     = "file"
	typeFolder   = "directory"
	typeNotebook = "notebook"

	formatText   = "text"
	formatJSON   = "json"
	formatBase64 = "base64"
)

// place is the place of a path of the contents API.
type place struct {
	kernel *kernel // nil: the top
	path   string  // in its workspace; empty: that
}

// placeOf reads the path of a request, or of its body.
func (s *Server) placeOf(r *http.Request, text string) (place, error) {
	clean := strings.Trim(path.Clean("/"+text), "/")
	if clean == "" {
		return place{}, nil
	}
	id, rest, _ := strings.Cut(clean, "/")
	k, err := s.find(r.Context(), s.Caller(r), id)
	if err != nil {
		return place{}, wire.Refuse(http.StatusNotFound,
			"No such file or directory: %.200s (at the top there is a folder for each kernel, named by its id)", clean)
	}
	return place{k, rest}, nil
}

func (p place) String() string { return path.Join(p.kernel.id.UUID(), p.path) }

// onPlace serves a request about the file in its path. It words a missing file as a Jupyter server
// does.
func (s *Server) onPlace(
	find func(*http.Request, string) (place, error), serve func(http.ResponseWriter, *http.Request, place) error,
) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		at, err := find(r, r.PathValue("path"))
		if err == nil {
			err = atPlace(at, serve(w, r, at))
		}
		return err
	}
}

func atPlace(at place, err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return wire.Refuse(http.StatusNotFound, "No such file or directory: %.200s", at)
	}
	return err
}

func (s *Server) getContents(w http.ResponseWriter, r *http.Request, at place) error {
	query := r.URL.Query()
	if at.kernel == nil {
		return s.top(w, r, query.Get("content") != "0")
	}
	ctx, k := r.Context(), at.kernel
	found, err := s.Live.StatFile(ctx, k.caller, k.id, at.path)
	if err != nil {
		return err
	}
	m := s.content(k, found)
	if query.Get("content") == "0" {
		return writeJSON(w, http.StatusOK, m)
	}
	if wanted := query.Get("type"); wanted != "" && wanted != m.Type && (wanted == typeFolder || m.Type == typeFolder) {
		return wire.Refuse(http.StatusBadRequest, "%.200s is a %s, not a %.20s", at, m.Type, wanted)
	} else if wanted != "" {
		m.Type = wanted
	}
	if m.Type == typeFolder {
		err = s.folder(ctx, at, &m)
	} else {
		err = s.read(ctx, at, &m, query.Get("format"))
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, m)
}

// top lists the kernels.
func (s *Server) top(w http.ResponseWriter, r *http.Request, content bool) error {
	m := contentModel{Type: typeFolder, Created: stamp(s.started), Modified: stamp(s.started)}
	if content {
		kernels, err := s.owned(r.Context(), s.Caller(r))
		if err != nil {
			return err
		}
		list := make([]contentModel, len(kernels))
		for i, k := range kernels {
			known := k.model()
			list[i] = contentModel{Name: known.ID, Path: known.ID, Type: typeFolder, Created: known.LastActivity,
				Modified: known.LastActivity, Writable: true}
		}
		m.Content, m.Format = list, new(formatJSON)
	}
	return writeJSON(w, http.StatusOK, m)
}

// content describes an entry without its content.
func (s *Server) content(k *kernel, e engine.Entry) contentModel {
	at := place{k, strings.Trim(strings.TrimPrefix(path.Clean("/"+e.Path), "/"), "/")}
	m := contentModel{
		Name: path.Base(at.String()), Path: at.String(), Type: typeFile, Created: stamp(e.Modified),
		Modified: stamp(e.Modified),
		Writable: e.Mode&0o200 != 0,
	}
	switch {
	case e.Kind == engine.EntryFolder:
		m.Type = typeFolder
	case path.Ext(m.Name) == ".ipynb":
		m.Type = typeNotebook
		fallthrough
	default:
		m.Size = &e.Size
	}
	return m
}

func (s *Server) folder(ctx context.Context, at place, m *contentModel) error {
	entries, _, err := s.Live.ListFiles(ctx, at.kernel.caller, at.kernel.id, at.path, 1)
	if err != nil {
		return err
	}
	list := []contentModel{}
	for _, e := range entries {
		if e.Kind == engine.EntryFile || e.Kind == engine.EntryFolder {
			list = append(list, s.content(at.kernel, e))
		}
	}
	m.Content, m.Format = list, new(formatJSON)
	return nil
}

// read reads a file into its model: as text if it is valid UTF-8, unless a format was requested.
func (s *Server) read(ctx context.Context, at place, m *contentModel, format string) error {
	_, file, err := s.Live.OpenFile(ctx, at.kernel.caller, at.kernel.id, at.path)
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileContent+1))
	if err != nil {
		return err
	}
	if len(data) > maxFileContent {
		return wire.Refuse(http.StatusRequestEntityTooLarge,
			"%.200s has more than %d MiB: read it in the kernel, or through the native API", at, maxFileContent>>20)
	}
	if m.Type == typeNotebook {
		if !json.Valid(data) {
			return wire.Refuse(http.StatusBadRequest, "Unreadable Notebook: %.200s is no JSON", at)
		}
		m.Content, m.Format = json.RawMessage(data), new(formatJSON)
		return nil
	}
	kind, text := mime.TypeByExtension(path.Ext(m.Name)), utf8.Valid(data)
	switch {
	case format == formatText && !text:
		return wire.Refuse(http.StatusBadRequest, "%.200s is not UTF-8 encoded", at)
	case text && format != formatBase64:
		m.Content, m.Format = string(data), new(formatText)
		kind = cmp.Or(kind, "text/plain")
	default:
		m.Content, m.Format = base64.StdEncoding.EncodeToString(data), new(formatBase64)
		kind = cmp.Or(kind, "application/octet-stream")
	}
	m.MIME = &kind
	return nil
}

// contentBody asks for a file to be saved, created or renamed.
type contentBody struct {
	Path     string          `json:"path"`
	Type     string          `json:"type"`
	Format   string          `json:"format"`
	Content  json.RawMessage `json:"content"`
	Ext      string          `json:"ext"`
	CopyFrom string          `json:"copy_from"`
	Chunk    *int            `json:"chunk"`
}

// bytes returns the new content of a file.
func (b *contentBody) bytes() ([]byte, error) {
	if b.Chunk != nil {
		return nil, wire.Refuse(http.StatusBadRequest, "Files are saved whole: chunk is not known here")
	}
	if b.Type == typeNotebook {
		var indented bytes.Buffer
		if err := json.Indent(&indented, b.Content, "", " "); err != nil {
			return nil, wire.Refuse(http.StatusBadRequest, "No notebook in content")
		}
		return append(indented.Bytes(), '\n'), nil
	}
	var text string
	if err := json.Unmarshal(b.Content, &text); err != nil {
		return nil, wire.Refuse(http.StatusBadRequest, "No file content provided")
	}
	if b.Format != formatBase64 {
		return []byte(text), nil
	}
	data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, wire.Refuse(http.StatusBadRequest, "Encoding error saving: content is no base64")
	}
	return data, nil
}

// inKernel is placeOf for a file that is changed.
func (s *Server) inKernel(r *http.Request, text string) (place, error) {
	at, err := s.placeOf(r, text)
	if err == nil && at.path == "" {
		err = wire.Refuse(http.StatusForbidden, "Only what is in the folder of a kernel can be changed: {kernel id}/...")
	}
	return at, err
}

func (s *Server) saveContents(w http.ResponseWriter, r *http.Request, at place) error {
	var body contentBody
	if err := s.readJSON(w, r, maxBody, &body); err != nil {
		return err
	}
	return s.save(w, r, at, &body)
}

// save writes the content of a body, and answers with its model.
func (s *Server) save(w http.ResponseWriter, r *http.Request, at place, body *contentBody) error {
	ctx, k := r.Context(), at.kernel
	status := http.StatusOK
	if _, err := s.Live.StatFile(ctx, k.caller, k.id, at.path); engine.KindOf(err) == engine.ErrNotFound {
		status = http.StatusCreated
	}
	var made engine.Entry
	var err error
	if body.Type == typeFolder {
		made, err = s.Live.MakeFolder(ctx, k.caller, k.id, at.path)
	} else {
		var data []byte
		if data, err = body.bytes(); err == nil {
			made, err = s.Live.WriteFile(ctx, k.caller, k.id, at.path, bytes.NewReader(data))
		}
	}
	if err != nil {
		return err
	}
	setLocation(w, r, "api/contents/"+at.String())
	return writeJSON(w, status, s.content(k, made))
}

// makeContents makes something new in a folder: an untitled file, or a copy.
func (s *Server) makeContents(w http.ResponseWriter, r *http.Request) error {
	folder, err := s.placeOf(r, r.PathValue("path"))
	if err == nil && folder.kernel == nil {
		folder, err = s.inKernel(r, "")
	}
	if err != nil {
		return err
	}
	var body contentBody
	if err := s.readJSON(w, r, maxBody, &body); err != nil {
		return err
	}
	name, ext := "untitled", body.Ext
	switch {
	case body.CopyFrom != "":
		from, err := s.inKernel(r, body.CopyFrom)
		if err != nil {
			return err
		}
		var m contentModel
		if err := s.read(r.Context(), from, &m, formatBase64); err != nil {
			return atPlace(from, err)
		}
		text, _ := m.Content.(string)
		body.Type, body.Format, body.Content = typeFile, formatBase64, json.RawMessage(strconv.Quote(text))
		ext = path.Ext(from.path)
		name = strings.TrimSuffix(path.Base(from.path), ext) + "-Copy1"
	case body.Type == typeFolder:
		name, ext = "Untitled Folder", ""
	case body.Type == typeNotebook:
		name, ext, body.Content = "Untitled", ".ipynb",
			json.RawMessage(`{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}`)
	default:
		body.Type, body.Content = typeFile, json.RawMessage(`""`)
	}
	for n := range maxUntitled {
		at := folder
		at.path = path.Join(folder.path, name+ext)
		if n > 0 {
			at.path = path.Join(folder.path, strings.TrimSuffix(name, "-Copy1")+strconv.Itoa(n)+ext)
		}
		_, err := s.Live.StatFile(r.Context(), at.kernel.caller, at.kernel.id, at.path)
		if engine.KindOf(err) == engine.ErrNotFound {
			return atPlace(at, s.save(w, r, at, &body))
		}
		if err != nil {
			return err
		}
	}
	return wire.Refuse(http.StatusConflict, "There are too many files named %s in that folder", name)
}

// maxUntitled is how many names are tried for a new file.
const maxUntitled = 200

func (s *Server) renameContents(w http.ResponseWriter, r *http.Request, at place) error {
	var body contentBody
	if err := s.readJSON(w, r, maxBody, &body); err != nil {
		return err
	}
	to, err := s.inKernel(r, body.Path)
	if err != nil {
		return err
	}
	if to.kernel != at.kernel {
		return wire.Refuse(http.StatusBadRequest, "A file is moved within the folder of its kernel")
	}
	moved, err := s.Live.MoveFile(r.Context(), at.kernel.caller, at.kernel.id, at.path, to.path, false)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.content(at.kernel, moved))
}

func (s *Server) deleteContents(w http.ResponseWriter, r *http.Request, at place) error {
	return noContent(w, s.Live.RemoveFile(r.Context(), at.kernel.caller, at.kernel.id, at.path, false))
}
