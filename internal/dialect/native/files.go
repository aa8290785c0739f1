package native

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxFields      = 8       // parts of a form before its file
	maxField       = 1 << 10 // bytes of a field that is not the file
	maxDisposition = 4 << 10
)

// readUpload finds the file of a request: the part named "file" of a form, or the body itself with
// the name in ?name=. Reading its content fails unless the request is complete.
func readUpload(r *http.Request) (engine.Upload, io.Reader, error) {
	query := r.URL.Query()
	up := engine.Upload{Origin: engine.OriginNative, Name: query.Get("name")}
	ttl, err := readTTL(query.Get("ttl_seconds"))
	if err != nil {
		return up, nil, err
	}
	up.TTL = ttl
	mediaType, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if strings.HasPrefix(mediaType, "multipart/") {
		if mediaType != "multipart/form-data" || params["boundary"] == "" {
			return up, nil, rest.Invalid("a form must be multipart/form-data with a boundary")
		}
		return readForm(wire.NewParts(r.Body, params["boundary"]), up)
	}
	if !query.Has("name") {
		return up, nil, rest.Invalid("name is missing: send a form with a part named file, or the bytes with ?name=")
	}
	return up, r.Body, nil
}

func readTTL(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > rest.MaxSeconds {
		return 0, rest.Invalid("ttl_seconds must be a whole number from 1 to %d", rest.MaxSeconds)
	}
	return time.Duration(n) * time.Second, nil
}

// readForm reads a form up to the beginning of its file.
func readForm(form *wire.Parts, up engine.Upload) (engine.Upload, io.Reader, error) {
	for range maxFields {
		part, err := form.Next()
		if errors.Is(err, wire.ErrHeaders) {
			return up, nil, rest.Invalid("the headers of a part have more than %d bytes", wire.MaxPartHeader)
		}
		if err != nil {
			return up, nil, rest.Broken(err, "the form has no part named file, or ends too soon")
		}
		field, err := parseDisposition(part.Header.Values("Content-Disposition"))
		if err != nil {
			return up, nil, err
		}
		switch field.name {
		case "file":
			if field.file != "" {
				up.Name = field.file
			}
			if up.Name == "" {
				return up, nil, rest.Invalid("the part named file has no filename")
			}
			return up, wire.Checked(part, func(err error) error { return endOf(form, err) }), nil
		case "ttl_seconds":
			text, err := io.ReadAll(io.LimitReader(part, maxField))
			if err != nil {
				return up, nil, rest.Broken(err, "the form ends too soon")
			}
			if up.TTL, err = readTTL(string(text)); err != nil {
				return up, nil, err
			}
		default:
			return up, nil, rest.Invalid("the form has a part that is not known here: it takes ttl_seconds, and then file")
		}
	}
	return up, nil, rest.Invalid("the form has too many parts before its file")
}

// endOf returns an error unless a form ends with its file.
func endOf(form *wire.Parts, err error) error {
	if !errors.Is(err, io.EOF) {
		return rest.Broken(err, "the form ends too soon")
	}
	// The closing boundary is a bare io.EOF; a wrapped one is a form that was cut short.
	if _, err := form.Next(); err != io.EOF { //nolint:errorlint // see above
		if err != nil {
			return rest.Broken(err, "the form ends too soon")
		}
		return rest.Invalid("the form must end with its file, and have only one")
	}
	if err := form.Drain(); err != nil {
		return rest.Broken(err, "the body did not arrive whole")
	}
	return io.EOF
}

// formField has the names in a part's Content-Disposition.
type formField struct{ name, file string }

// parseDisposition reads the header of a form's part. A name must come back exactly as it was
// sent, or be refused, and so is a second header or a second name.
func parseDisposition(headers []string) (formField, error) {
	if len(headers) != 1 || len(headers[0]) > maxDisposition || !utf8.ValidString(headers[0]) {
		return formField{}, rest.Invalid("each part needs one Content-Disposition of at most %d bytes, in UTF-8",
			maxDisposition)
	}
	if kind, _, _ := strings.Cut(headers[0], ";"); !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return formField{}, rest.Invalid("a part's Content-Disposition must be form-data")
	}
	params, regular := wire.Disposition(headers[0])
	if !regular {
		return formField{}, rest.Invalid("a part's Content-Disposition cannot be read")
	}
	f := formField{params["name"], params["filename"]}
	if extended, ok := params["filename*"]; ok {
		name, ok := wire.ExtendedName(extended)
		if !ok || name == "" || !utf8.ValidString(name) || f.file != "" && f.file != name {
			return f, rest.Invalid("filename* cannot be read, or is not the same as filename")
		}
		f.file = name
	}
	return f, nil
}

func (q *request) createFile() (any, error) {
	up, content, err := readUpload(q.Request.Request)
	if err != nil {
		return nil, err
	}
	file, err := q.api.engine.PutFile(q.Context(), q.Caller, up, content)
	if err != nil {
		return nil, err
	}
	return rest.Created("/files/"+file.ID.String(), fileOf(file)), nil
}

func (q *request) listFiles() (any, error) {
	id := func(f fileBody) engine.ID { return f.ID }
	return listPage(q, "files", fileOf, id, func(page engine.Page) ([]engine.File, error) {
		return q.api.engine.ListFiles(q.Context(), q.Caller, engine.FileQuery{Origin: engine.OriginNative, Page: page})
	})
}

// fileContent sends a file's bytes. They never change, so their hash is the ETag for ranges
// and conditional requests.
func (q *request) fileContent(core *engine.Service) (any, error) {
	file, content, err := core.OpenFile(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	h := q.W.Header()
	h.Set("ETag", `"`+file.SHA256.String()+`"`)
	h.Set("Cache-Control", "private, no-cache")
	rest.AsDownload(h, file.Name, file.MIME)
	http.ServeContent(q.W, q.Request.Request, "", file.CreatedAt, content)
	return rest.Answer{}, nil
}
