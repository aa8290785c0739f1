package onyx

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
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
	if err != nil {
		return a.tooLarge(err)
	}
	writeJSON(w, http.StatusCreated, uploadBody{FileID: file.ID.UUID(), Filename: file.Name, Size: file.Size})
	return nil
}

// tooLarge returns the error of a file over the limit.
func (a *api) tooLarge(err error) error {
	if wire.IsTooLarge(err) || errors.Is(err, engine.ErrTooLarge) {
		return wire.Refuse(http.StatusRequestEntityTooLarge, "%s", fileTooLarge(a.MaxFile))
	}
	return err
}

// fileID reads the id in the path.
func fileID(r *http.Request) (engine.ID, error) { return engine.ParseUUID(r.PathValue("id")) }

func noFile(r *http.Request) error {
	return wire.Refuse(http.StatusNotFound, "File with ID '%s' not found", r.PathValue("id"))
}

// listPage is the page size of requests to the engine. The list itself has no pages: it has
// all files.
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
		// The status was sent: only a connection that is cut can report now that the file is
		// incomplete.
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

// disposition returns a file name in the form of the original if it is ASCII, else in both forms of
// RFC 6266: the original fails at other names.
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

const (
	maxParts = 1000    // of a form
	maxField = 1 << 20 // bytes of a part that is not a file
)

const fileField = "file"

// readForm finds the file of a form. Its bytes are still to be read.
func readForm(r *http.Request) (name string, content io.Reader, err error) {
	mediaType, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "multipart/form-data" {
		return "", nil, noPart()
	}
	if params["boundary"] == "" {
		return "", nil, wire.Refuse(http.StatusBadRequest, "Missing boundary in multipart.")
	}
	form := wire.NewParts(r.Body, params["boundary"])
	for range maxParts {
		part, err := form.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is a form that was cut short
			return "", nil, noPart()
		}
		if err != nil {
			return "", nil, brokenForm(err)
		}
		field, file, isFile := wire.PartName(part.Header.Get("Content-Disposition"))
		if field == fileField && isFile {
			return file, wire.Checked(part, func(err error) error { return endOf(form, err) }), nil
		}
		if err := skipField(part, field); err != nil {
			return "", nil, err
		}
	}
	return "", nil, wire.Refuse(http.StatusBadRequest, "Too many parts in the form.")
}

func noPart() error {
	return wrong(problem{Type: "missing", Loc: []any{bodyLoc, fileField}, Msg: "Field required"})
}

// skipField reads a part that is no file. A text in place of the file is reported as such.
func skipField(part *multipart.Part, field string) error {
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	switch {
	case err != nil:
		return brokenForm(err)
	case len(text) > maxField:
		return wire.Refuse(http.StatusBadRequest, "Part exceeded maximum size of 1024KB.")
	case field == fileField:
		return wrong(problem{
			Type: "value_error", Loc: []any{bodyLoc, fileField},
			Msg:   "Value error, Expected UploadFile, received: <class 'str'>",
			Input: value{kind: isString, text: string(text)}, Ctx: `{"error":{}}`,
		})
	}
	return nil
}

// brokenForm returns the error of the body limit unchanged.
func brokenForm(err error) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return errUnreadable
}

// endOf reads the rest of a form after its file.
func endOf(form *wire.Parts, err error) error {
	if !errors.Is(err, io.EOF) {
		return brokenForm(err)
	}
	for range maxParts {
		part, err := form.Next()
		// The closing boundary is a bare io.EOF; a wrapped one is a form that was cut short.
		if err == io.EOF { //nolint:errorlint // see above
			if err := form.Drain(); err != nil {
				return brokenForm(err)
			}
			return io.EOF
		}
		if err != nil {
			return brokenForm(err)
		}
		field, _, _ := wire.PartName(part.Header.Get("Content-Disposition"))
		if field == fileField {
			return unprocessable("The form has more than one part named 'file'.")
		}
		if err := skipField(part, field); err != nil {
			return err
		}
	}
	return wire.Refuse(http.StatusBadRequest, "Too many parts in the form.")
}

// plainName returns the stored name of an upload. Any name is accepted; invalid characters and path
// elements are replaced, and the answer has the new name.
func plainName(name string) string {
	if _, err := engine.CleanPath(name); err == nil {
		return name
	}
	name = strings.NewReplacer("\x00", "_", `\`, "_").Replace(strings.TrimLeft(strings.ToValidUTF8(name, "_"), "/"))
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == ".." {
			parts[i] = "_"
		}
		parts[i] = wire.ShortName(parts[i])
	}
	for _, candidate := range []string{strings.Join(parts, "/"), parts[len(parts)-1]} {
		if _, err := engine.CleanPath(candidate); err == nil {
			return candidate
		}
	}
	return "unnamed"
}
