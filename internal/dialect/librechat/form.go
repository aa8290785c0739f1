package librechat

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxField  = 64 << 10 // bytes of a part that is no file
	maxFields = 64
)

// form reads a multipart body, part by part. Fields may stand before, between
// and behind the files.
type form struct {
	parts  *wire.Parts
	fields map[string]string
}

func newForm(r *http.Request) (*form, error) {
	mediaType, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "multipart/form-data" || params["boundary"] == "" {
		return nil, bad("the body must be multipart/form-data with a boundary")
	}
	return &form{parts: wire.NewParts(r.Body, params["boundary"]), fields: map[string]string{}}, nil
}

// next returns the next file of the form, and notes the fields on the way. At
// its end there is io.EOF, and only there: a form that was cut short is no form.
func (f *form) next() (name string, content io.Reader, err error) {
	for {
		part, err := f.parts.Next()
		if err == io.EOF { //nolint:errorlint // bare it is the closing boundary, wrapped an end without it
			if err := f.parts.Drain(); err != nil {
				return "", nil, broken(err)
			}
			return "", nil, io.EOF
		}
		if err != nil {
			return "", nil, broken(err)
		}
		field, file, isFile := partName(part.Header.Get("Content-Disposition"))
		if isFile {
			return file, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		switch {
		case err != nil:
			return "", nil, broken(err)
		case len(text) > maxField || len(f.fields) == maxFields:
			return "", nil, bad("the form has too many or too long fields")
		}
		f.fields[field] = string(text)
	}
}

// broken lets the limit of the body speak for itself.
func broken(err error) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return bad("the form did not arrive whole")
}

// partName reads a part's Content-Disposition.
func partName(header string) (field, file string, isFile bool) {
	params := wire.Disposition(header)
	file, isFile = params["filename"]
	file = formEscapes.Replace(file)
	if name, ok := wire.ExtendedName(params["filename*"]); ok {
		file, isFile = name, true
	}
	return params["name"], file, isFile
}

// formEscapes are the three characters that a form escapes. Any other percent
// sign is the name's own.
var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n")

// plainName is an upload's name as we keep it. A path that stays below the
// workspace is kept whole; of any other its last part is. Control
// characters of ASCII become underscores, as LibreChat has it for its own names.
func plainName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if _, ok := wantedPath(safe); ok {
		return safe
	}
	base := path.Base(strings.ReplaceAll(safe, `\`, "/"))
	base = wire.ShortName(base)
	if _, err := engine.CleanPath(base); err != nil {
		return "unnamed"
	}
	return base
}
