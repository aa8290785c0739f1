package native

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

func (q *request) createFile() (any, error) {
	up, content, err := readUpload(q.Request)
	if err != nil {
		return nil, err
	}
	file, err := q.engine.PutFile(q.Context(), q.caller, up, content)
	if err != nil {
		return nil, err
	}
	return created("/files/"+file.ID.String(), fileOf(file)), nil
}

func (q *request) listFiles() (any, error) {
	id := func(f fileBody) engine.ID { return f.ID }
	return listPage(q, "files", fileOf, id, func(page engine.Page) ([]engine.File, error) {
		return q.engine.ListFiles(q.Context(), q.caller, engine.FileQuery{Origin: engine.OriginNative, Page: page})
	})
}

// fileContent sends a file's bytes. They never change, so their hash is the
// tag by which a client asks for the rest of them or for nothing at all.
func (q *request) fileContent(core *engine.Service) (any, error) {
	file, content, err := core.OpenFile(q.Context(), q.caller, q.id)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	h := q.w.Header()
	h.Set("ETag", `"`+file.SHA256.String()+`"`)
	h.Set("Cache-Control", "private, no-cache")
	asDownload(h, file.Name, file.MIME)
	http.ServeContent(q.w, q.Request, "", file.CreatedAt, content)
	return answer{}, nil
}
