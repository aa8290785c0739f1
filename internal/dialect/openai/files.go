package openai

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// Ids are the engine's after the prefixes that SDKs check.
const (
	filePrefix      = "file-"
	containerPrefix = "cntr_"
	insidePrefix    = "cfile_"
)

func parseID(prefix, text string) (engine.ID, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return engine.ID{}, &engine.Error{Op: "read id", Kind: engine.ErrNotFound, ID: text}
	}
	return engine.ParseID(rest)
}

// fileBody is a file on the wire. Its purpose has no effect.
func fileBody(f engine.File) map[string]any {
	return map[string]any{
		"id": filePrefix + f.ID.String(), "object": "file", "bytes": f.Size, "created_at": f.CreatedAt.Unix(),
		"filename": f.Name,
		"purpose":  purposes[0], "status": "processed", "status_details": nil, "expires_at": f.ExpiresAt.Unix(),
	}
}

// purposes are those of files for code and models; the first one is returned for all.
var purposes = []string{"user_data", "assistants", "vision"}

// form holds the fields of a form, and the name of its file.
type form map[string]string

// readForm reads a form of small fields and one file, which it streams to store. Fields may
// come before and after the file.
func (q *request) readForm(field string, store func(name string, content io.Reader) error) (form, error) {
	kind, params, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, invalid("", "", "The body must be multipart/form-data.")
	}
	fields, stored := form{}, false
	for parts := wire.NewParts(q.Body, params["boundary"]); ; {
		part, err := parts.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is a form that was cut short
			return fields, nil
		}
		if err != nil {
			return nil, brokenForm(err)
		}
		is, name, isFile := wire.PartName(part.Header.Get("Content-Disposition"))
		switch {
		case is == field && isFile && stored:
			return nil, invalid(field, "", "There may be one file.")
		case is == field && isFile:
			stored = true
			if err := store(name, part); err != nil {
				return nil, err
			}
			fields[field] = name
		case len(fields) >= 100:
			return nil, invalid("", "", "The form has too many fields.")
		default:
			text, err := io.ReadAll(io.LimitReader(part, 64<<10))
			if err != nil {
				return nil, brokenForm(err)
			}
			fields[is] = string(text)
		}
	}
}

func brokenForm(err error) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return invalid("", "", "The form cannot be read: it is cut short, or is none.")
}

// cleanName removes the folders that some clients send with a name.
func cleanName(name string) string {
	name = strings.NewReplacer("\x00", "_", `\`, "_").Replace(strings.ToValidUTF8(name, "_"))
	name = wire.ShortName(name[strings.LastIndex(name, "/")+1:])
	if _, err := engine.CleanPath(name); err != nil {
		return "unnamed"
	}
	return name
}

func (q *request) upload() (any, error) {
	var made engine.File
	fields, err := q.readForm("file", func(name string, content io.Reader) (err error) {
		up := engine.Upload{Name: cleanName(name), Origin: engine.OriginOpenAI, Max: q.MaxUpload}
		made, err = q.Engine.PutFile(q.Context(), q.caller, up, content)
		return err
	})
	if err == nil {
		err = fields.check(made)
	}
	if err != nil {
		if !made.ID.IsZero() {
			_ = q.Engine.DeleteFile(q.Context(), q.caller, made.ID) // else it expires
		}
		return nil, err
	}
	return fileBody(made), nil
}

// check checks the fields of an upload.
func (f form) check(made engine.File) error {
	if made.ID.IsZero() {
		return invalid("file", "missing_required_parameter", "'file' is a required property")
	}
	for name := range f {
		if strings.HasPrefix(name, "expires_after") {
			return errExpiry
		}
	}
	return checkPurpose(f["purpose"])
}

var errExpiry = unsupported("expires_after",
	"Airlock keeps a file as long as its operator has set (file_ttl), counted from its last use.")

func checkPurpose(purpose string) error {
	switch {
	case purpose == "":
		return invalid("purpose", "missing_required_parameter", "'purpose' is a required property")
	case !slices.Contains(purposes, purpose):
		return invalid("purpose", "invalid_value", "Invalid purpose '%.40s': Airlock has %s.", purpose,
			strings.Join(purposes, ", "))
	}
	return nil
}

func (q *request) file() (engine.ID, error) {
	id, err := parseID(filePrefix, q.PathValue("id"))
	return id, missing(err, noFile(q.PathValue("id")))
}

func noFile(id string) error { return notFound("No such File object: %.80s", id) }

func (q *request) getFile() (any, error) {
	f, err := q.known(q.PathValue("id"))
	return fileBody(f), err
}

// missing replaces ErrNotFound by an error in OpenAI's words.
func missing(err, replacement error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return replacement
	}
	return err
}

func (q *request) deleteFile() (any, error) {
	id, err := q.file()
	if err == nil {
		err = missing(q.Engine.DeleteFile(q.Context(), q.caller, id), noFile(q.PathValue("id")))
	}
	return deletedBody(q.PathValue("id"), "file"), err
}

func deletedBody(id, object string) map[string]any {
	return map[string]any{"id": id, "object": object, "deleted": true}
}

func (q *request) fileContent() error {
	id, err := q.file()
	if err != nil {
		return err
	}
	return q.send(id, noFile(q.PathValue("id")))
}

// send sends the content of a file.
func (q *request) send(id engine.ID, notThere error) error {
	f, content, err := q.Engine.OpenFile(q.Context(), q.caller, id)
	if err != nil {
		return missing(err, notThere)
	}
	defer content.Close()
	wire.Download(q.w.Header(), wire.Attachment(f.Name), "application/octet-stream")
	http.ServeContent(q.w, q.Request, "", time.Time{}, content)
	return nil
}

// every collects the pages of a list of the engine, newest first.
func every[T any](get func(engine.Page) ([]T, error), id func(*T) engine.ID) (all []T, err error) {
	for page := (engine.Page{Limit: 1000}); ; {
		some, err := get(page)
		all = append(all, some...)
		if err != nil || len(some) < page.Limit {
			return all, err
		}
		page.After = id(&some[len(some)-1])
	}
}

// list returns the page of a list that the query asks for. all is newest first.
func (q *request) list(all []map[string]any, most, usual int) (any, error) {
	query := q.URL.Query()
	switch query.Get("order") {
	case "", "desc":
	case "asc":
		slices.Reverse(all)
	default:
		return nil, invalid("order", "invalid_value", "Invalid value for 'order': there are asc and desc.")
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(all, func(item map[string]any) bool { return item["id"] == after })
		if at < 0 {
			return nil, invalid("after", "invalid_value", "Invalid value for 'after': it is not in the list.")
		}
		all = all[at+1:]
	}
	limit := usual
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, invalid("limit", "invalid_value", "Invalid value for 'limit': it must be between 1 and %d.", most)
		}
		limit = n
	}
	body := map[string]any{"object": "list", "first_id": nil, "last_id": nil, "has_more": len(all) > limit}
	all = all[:min(limit, len(all))]
	body["data"] = append([]map[string]any{}, all...)
	if n := len(all); n > 0 {
		body["first_id"], body["last_id"] = all[0]["id"], all[n-1]["id"]
	}
	return body, nil
}

func (q *request) filesOf(origin engine.Origin) ([]engine.File, error) {
	return every(func(p engine.Page) ([]engine.File, error) {
		return q.Engine.ListFiles(q.Context(), q.caller, engine.FileQuery{Origin: origin, Page: p})
	}, func(f *engine.File) engine.ID { return f.ID })
}

func (q *request) listFiles() (any, error) {
	files, err := q.filesOf(engine.OriginOpenAI)
	if err != nil {
		return nil, err
	}
	wanted := q.URL.Query().Get("purpose")
	var all []map[string]any
	for _, f := range files {
		// Files that code has made are listed with their container.
		if f.Run.IsZero() && (wanted == "" || wanted == purposes[0]) {
			all = append(all, fileBody(f))
		}
	}
	return q.list(all, 10000, 10000)
}

// readJSON reads a JSON body.
func (q *request) readJSON(into any) error {
	text, err := q.Bodies.ReadRequest(q.w, q.Request, q.caller.Owner, maxJSON)
	if err != nil {
		return err
	}
	return unmarshal(text, into)
}
