package native

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxFields      = 8       // parts of a form before its file
	maxField       = 1 << 10 // bytes of a field that is not the file
	maxDisposition = 4 << 10
)

// readUpload finds the one file of a request: the part named "file" of a
// form, or the body itself under the name in ?name=. The bytes are still to
// be read, and reading them fails unless the request is whole.
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
			return up, nil, invalid("a form must be multipart/form-data with a boundary")
		}
		return readForm(wire.NewParts(r.Body, params["boundary"]), up)
	}
	if !query.Has("name") {
		return up, nil, invalid("name is missing: send a form with a part named file, or the bytes with ?name=")
	}
	return up, r.Body, nil
}

func readTTL(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > maxSeconds {
		return 0, invalid("ttl_seconds must be a whole number from 1 to %d", maxSeconds)
	}
	return time.Duration(n) * time.Second, nil
}

// readForm reads a form up to the beginning of its file.
func readForm(form *wire.Parts, up engine.Upload) (engine.Upload, io.Reader, error) {
	for range maxFields {
		part, err := form.Next()
		if errors.Is(err, wire.ErrHeaders) {
			return up, nil, invalid("the headers of a part have more than %d bytes", wire.MaxPartHeader)
		}
		if err != nil {
			return up, nil, broken(err, "the form has no part named file, or ends too soon")
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
				return up, nil, invalid("the part named file has no filename")
			}
			return up, &onlyFile{part: part, form: form}, nil
		case "ttl_seconds":
			text, err := io.ReadAll(io.LimitReader(part, maxField))
			if err != nil {
				return up, nil, broken(err, "the form ends too soon")
			}
			if up.TTL, err = readTTL(string(text)); err != nil {
				return up, nil, err
			}
		default:
			return up, nil, invalid("the form has a part that is not known here: it takes ttl_seconds, and then file")
		}
	}
	return up, nil, invalid("the form has too many parts before its file")
}

// broken returns a refusal with a message, unless the body is too large.
func broken(err error, message string) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return invalid("%s", message)
}

// onlyFile is the content of a form's file. It ends well only if the form
// ends right behind it, so that a second file or a lost end is found out
// before the first is stored.
type onlyFile struct {
	part *multipart.Part
	form *wire.Parts
	end  error
}

func (f *onlyFile) Read(p []byte) (int, error) {
	if f.end != nil {
		return 0, f.end
	}
	n, err := f.part.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		f.end = f.rest()
	case err != nil:
		f.end = broken(err, "the form ends too soon")
	}
	return n, f.end
}

func (f *onlyFile) rest() error {
	// Only a bare io.EOF is the closing boundary; a wrapped one is a form cut short.
	if _, err := f.form.Next(); err != io.EOF { //nolint:errorlint // as said above
		if err != nil {
			return broken(err, "the form ends too soon")
		}
		return invalid("the form must end with its file, and have only one")
	}
	if err := f.form.Drain(); err != nil {
		return broken(err, "the body did not arrive whole")
	}
	return io.EOF
}

// formField is what a part's Content-Disposition says.
type formField struct{ name, file string }

// parseDisposition reads the header of a form's part. The reader of package
// mime/multipart would cut a path down to its last element, and that of mime
// takes no raw UTF-8; a name must come back exactly as it was sent, or be
// refused. A second header, or a second name, is refused.
func parseDisposition(headers []string) (formField, error) {
	var f formField
	if len(headers) != 1 || len(headers[0]) > maxDisposition || !utf8.ValidString(headers[0]) {
		return f, invalid("each part needs one Content-Disposition of at most %d bytes, in UTF-8", maxDisposition)
	}
	kind, rest, _ := strings.Cut(headers[0], ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return f, invalid("a part's Content-Disposition must be form-data")
	}
	params := map[string]string{}
	for rest = strings.TrimSpace(rest); rest != ""; {
		key, value, after, ok := nextParam(rest)
		_, twice := params[key]
		if !ok || twice {
			return f, invalid("a part's Content-Disposition cannot be read")
		}
		params[key], rest = value, after
	}
	f.name, f.file = params["name"], params["filename"]
	if extended, ok := params["filename*"]; ok {
		name, ok := extendedValue(extended)
		if !ok || f.file != "" && f.file != name {
			return f, invalid("filename* cannot be read, or is not the same as filename")
		}
		f.file = name
	}
	return f, nil
}

// nextParam reads `key=value` or `key="value"` and what separates it from the
// next. In quotes only \" and \\ are escapes: browsers send a lone backslash
// as it is.
func nextParam(s string) (key, value, rest string, ok bool) {
	key, s, ok = strings.Cut(s, "=")
	key = strings.ToLower(strings.TrimSpace(key))
	s = strings.TrimLeft(s, " \t")
	if !ok || key == "" || strings.ContainsAny(key, "\"; \t") {
		return "", "", "", false
	}
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		value = strings.TrimSpace(value)
		return key, value, strings.TrimSpace(rest), value != "" && !strings.ContainsAny(value, "\" \t")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			rest = strings.TrimLeft(s[i+1:], " \t")
			if rest != "" && rest[0] != ';' {
				return "", "", "", false
			}
			return key, b.String(), strings.TrimSpace(strings.TrimPrefix(rest, ";")), true
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", "", false
}

// extendedValue decodes UTF-8'language'percent-encoded (RFC 5987).
func extendedValue(s string) (string, bool) {
	charset, rest, ok := strings.Cut(s, "'")
	_, encoded, ok2 := strings.Cut(rest, "'")
	if !ok || !ok2 || !strings.EqualFold(charset, "utf-8") {
		return "", false
	}
	name, err := url.PathUnescape(encoded)
	return name, err == nil && name != "" && utf8.ValidString(name)
}
