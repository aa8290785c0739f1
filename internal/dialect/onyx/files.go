package onyx

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

func (a *api) upload(w http.ResponseWriter, r *http.Request) error {
	name, content, err := readForm(r)
	if err != nil {
		return a.tooLarge(err)
	}
	up := engine.Upload{Name: plainName(name), Origin: engine.OriginOnyx, TTL: a.FileTTL, Max: a.MaxFile}
	file, err := a.engine.PutFile(r.Context(), a.Caller(r), up, content)
	if content.fault != nil {
		err = content.fault
	}
	if err != nil {
		return a.tooLarge(err)
	}
	writeJSON(w, http.StatusCreated, uploadBody{FileID: file.ID.UUID(), Filename: file.Name, Size: file.Size})
	return nil
}

// tooLarge says by how much there was too much of a file.
func (a *api) tooLarge(err error) error {
	if wire.IsTooLarge(err) || errors.Is(err, engine.ErrTooLarge) {
		return wire.Refuse(http.StatusRequestEntityTooLarge, "%s", fileTooLarge(a.MaxFile))
	}
	return err
}

// fileID reads the id in the path. What cannot be one names nothing.
func fileID(r *http.Request) (engine.ID, error) { return engine.ParseUUID(r.PathValue("id")) }

func noFile(r *http.Request) error {
	return wire.Refuse(http.StatusNotFound, "File with ID '%s' not found", r.PathValue("id"))
}

// listPage is how many files are asked for at a time. The list itself has no
// pages: it is all that there are.
const listPage = 1000

func (a *api) listFiles(w http.ResponseWriter, r *http.Request) error {
	list := struct {
		Files []listedFile `json:"files"`
	}{[]listedFile{}}
	page := engine.Page{Limit: listPage}
	for {
		files, err := a.engine.ListFiles(r.Context(), a.Caller(r), engine.FileQuery{Origin: engine.OriginOnyx, Page: page})
		if err != nil {
			return err
		}
		for _, f := range files {
			list.Files = append(list.Files, listedFile{f.ID.UUID(), storedName(f), f.Size, unixTime(f.CreatedAt)})
		}
		if len(files) < listPage {
			break
		}
		page.After = files[len(files)-1].ID
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (a *api) download(w http.ResponseWriter, r *http.Request) error {
	id, err := fileID(r)
	if err != nil {
		return noFile(r)
	}
	file, content, err := a.engine.OpenFile(r.Context(), a.Caller(r), id)
	if errors.Is(err, engine.ErrNotFound) {
		return noFile(r)
	}
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", disposition(storedName(file)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.FormatInt(file.Size, 10))
	w.WriteHeader(http.StatusOK)
	if n, err := io.Copy(w, content); err != nil || n != file.Size {
		// The status is out: a connection that is cut is the only way left to
		// say that this is not the whole.
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (a *api) deleteFile(w http.ResponseWriter, r *http.Request) error {
	id, err := fileID(r)
	if err == nil {
		err = a.engine.DeleteFile(r.Context(), a.Caller(r), id)
	}
	if errors.Is(err, engine.ErrNotFound) {
		return noFile(r)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// disposition spells a file name as the original does where that can be said
// in ASCII. Any other is spelled twice, as RFC 6266 has it: the original tries
// Latin-1 and fails.
func disposition(name string) string {
	var plain strings.Builder
	simple := true
	for _, c := range name {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			simple = false
			plain.WriteByte('_')
		} else {
			plain.WriteRune(c)
		}
	}
	header := `attachment; filename="` + plain.String() + `"`
	if simple {
		return header
	}
	return header + `; filename*=` + wire.ExtendedValue(string([]rune(name)))
}
