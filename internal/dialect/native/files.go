package native

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

func (a *api) createFile(w http.ResponseWriter, r *http.Request) error {
	up, content, err := readUpload(r)
	if err != nil {
		return err
	}
	file, err := a.engine.PutFile(r.Context(), a.Caller(r), up, content)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.Prefix+"/files/"+file.ID.String())
	writeJSON(w, http.StatusCreated, fileOf(file))
	return nil
}

func (a *api) listFiles(w http.ResponseWriter, r *http.Request) error {
	page, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	files, err := a.engine.ListFiles(r.Context(), a.Caller(r), engine.FileQuery{Origin: engine.OriginNative, Page: page})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Files []fileBody `json:"files"`
		Next  string     `json:"next"`
	}{filesOf(files), next(files, page, func(f engine.File) engine.ID { return f.ID })})
	return nil
}

func (a *api) getFile(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	file, err := a.engine.GetFile(r.Context(), a.Caller(r), id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, fileOf(file))
	return nil
}

func (a *api) deleteFile(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := a.engine.DeleteFile(r.Context(), a.Caller(r), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// fileContent sends a file's bytes. They never change, so their hash is the
// tag by which a client asks for the rest of them or for nothing at all.
func (a *api) fileContent(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	file, content, err := a.engine.OpenFile(r.Context(), a.Caller(r), id)
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("ETag", `"`+file.SHA256.String()+`"`)
	h.Set("Cache-Control", "private, no-cache")
	asDownload(h, file.Name, file.MIME)
	http.ServeContent(w, r, "", file.CreatedAt, content)
	return nil
}
