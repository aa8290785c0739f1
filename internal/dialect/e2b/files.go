package e2b

import (
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// filePath returns the path in the query of a request for a file.
func filePath(r *http.Request, p string) (string, error) {
	if name := r.URL.Query().Get("username"); !knownUser(name) {
		return "", &engine.Error{Op: "find user", Kind: engine.ErrUnauthorized,
			Err: errors.New("there is no user " + name + " in this sandbox, only " + user)}
	}
	if err := checkUser(r.Header); err != nil {
		return "", &engine.Error{Op: "find user", Kind: engine.ErrUnauthorized, Err: err}
	}
	return absolute(p), nil
}

func (h *Handler) download(w http.ResponseWriter, r *http.Request) {
	sb := sandboxOf(r.Context())
	at, err := filePath(r, r.URL.Query().Get("path"))
	if err != nil {
		h.fail(w, err)
		return
	}
	e, err := h.Live.RealFile(r.Context(), sb.caller, sb.session, at)
	if err == nil && e.Kind == engine.EntryFolder {
		err = invalid("the path is a directory: " + r.URL.Query().Get("path"))
	}
	var f *os.File
	if err == nil {
		_, f, err = h.Live.OpenFile(r.Context(), sb.caller, sb.session, at)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	defer f.Close()
	wire.Download(w.Header(), wire.Attachment(path.Base(at)), "application/octet-stream")
	http.ServeContent(w, r, "", e.Modified, f)
}

type writtenBody struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`

	Metadata texts `json:"metadata,omitempty"`
}

// upload writes the files of a form, or the body as one file.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request) {
	written, err := h.writeFiles(r)
	if err == nil {
		writeJSON(w, http.StatusOK, written)
		return
	}
	status, message := h.status(w, err)
	if engine.KindOf(err) == engine.ErrTooLarge {
		status = http.StatusInsufficientStorage
	}
	writeError(w, status, message)
}

func (h *Handler) writeFiles(r *http.Request) ([]writtenBody, error) {
	named := r.URL.Query().Get("path")
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, invalid("the body is not gzip")
		}
		body = unpacked
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "multipart/form-data":
		return h.writeForm(r, named, body, parameters["boundary"])
	case err == nil && kind == "application/octet-stream" && named == "":
		return nil, invalid("path is missing")
	case err == nil && kind == "application/octet-stream":
		one, err := h.writeFile(r, named, body)
		return []writtenBody{one}, err
	}
	return nil, invalid("the body must be multipart/form-data or application/octet-stream")
}

func (h *Handler) writeForm(r *http.Request, named string, body io.Reader, boundary string) ([]writtenBody, error) {
	parts := wire.NewParts(body, boundary)
	written := []writtenBody{}
	for {
		part, err := parts.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is a form that was cut short
			return written, nil
		}
		if err != nil {
			return nil, invalid("the form cannot be read")
		}
		parameters, _ := wire.Disposition(part.Header.Get("Content-Disposition"))
		if parameters["name"] != "file" {
			continue
		}
		at := cmp.Or(named, parameters["filename"])
		if at == "" {
			return nil, invalid("path is missing")
		}
		one, err := h.writeFile(r, at, part)
		if err != nil {
			return nil, err
		}
		written = append(written, one)
	}
}

func (h *Handler) writeFile(r *http.Request, at string, content io.Reader) (writtenBody, error) {
	at, err := filePath(r, at)
	if err != nil {
		return writtenBody{}, err
	}
	sb := sandboxOf(r.Context())
	given := metadataOf(r.Header)
	if err := sb.metadata.fits(at, given); err != nil {
		return writtenBody{}, err
	}
	if _, err = h.Live.WriteFile(r.Context(), sb.caller, sb.session, at, content); err != nil {
		return writtenBody{}, err
	}
	sb.metadata.set(at, given)
	return writtenBody{path.Base(at), at, "file", given}, nil
}
