package librechat

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	maxField      = 64 << 10 // bytes of a part that is no file
	maxFields     = 64
	maxPartHeader = 64 << 10
)

// form reads a multipart body, part by part. Fields may stand before, between
// and behind the files.
type form struct {
	parts  *multipart.Reader
	body   *boundedBody
	fields map[string]string
}

// boundedBody gives no more while the headers of a part are read than they may
// have: package mime/multipart would take 10 MiB.
type boundedBody struct {
	from    io.Reader
	bounded bool
	left    int
}

var errHeaders = errors.New("the headers of a part are too long")

func (b *boundedBody) Read(p []byte) (int, error) {
	if !b.bounded {
		return b.from.Read(p)
	}
	if b.left == 0 {
		return 0, errHeaders
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func newForm(r *http.Request) (*form, error) {
	mediaType, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "multipart/form-data" || params["boundary"] == "" {
		return nil, bad("the body must be multipart/form-data with a boundary")
	}
	body := &boundedBody{from: r.Body}
	return &form{parts: multipart.NewReader(body, params["boundary"]), body: body, fields: map[string]string{}}, nil
}

// next returns the next file of the form, and notes the fields on the way. At
// its end there is io.EOF, and only there: a form that was cut short is no form.
func (f *form) next() (name string, content io.Reader, err error) {
	for {
		f.body.bounded, f.body.left = true, maxPartHeader
		part, err := f.parts.NextRawPart()
		f.body.bounded = false
		if err == io.EOF { //nolint:errorlint // bare it is the closing boundary, wrapped an end without it
			if _, err := io.Copy(io.Discard, f.body); err != nil {
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
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return bad("the form did not arrive whole")
}

// partName reads a part's Content-Disposition. The reader of package
// mime/multipart would cut a path down to its last element, and that of mime
// takes no raw UTF-8, which is what LibreChat sends.
func partName(header string) (field, file string, isFile bool) {
	_, rest, _ := strings.Cut(header, ";")
	params := map[string]string{}
	for rest = strings.TrimSpace(rest); rest != ""; {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		var text string
		text, rest = paramValue(strings.TrimLeft(after, " \t"))
		params[strings.ToLower(strings.TrimSpace(key))] = text
		rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(rest, " \t"), ";"), " \t")
	}
	file, isFile = params["filename"]
	file = formEscapes.Replace(file)
	if charset, encoded, ok := strings.Cut(params["filename*"], "'"); ok && strings.EqualFold(charset, "utf-8") {
		_, encoded, _ = strings.Cut(encoded, "'")
		if name, err := url.PathUnescape(encoded); err == nil {
			file, isFile = name, true
		}
	}
	return params["name"], file, isFile
}

// formEscapes are the three characters that a form escapes. Any other percent
// sign is the name's own.
var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n")

// paramValue reads one value and returns what follows it. In quotes only \"
// and \\ are escapes: browsers send a lone backslash as it is.
func paramValue(s string) (text, rest string) {
	if !strings.HasPrefix(s, `"`) {
		text, rest, found := strings.Cut(s, ";")
		if found {
			rest = ";" + rest
		}
		return strings.TrimSpace(text), rest
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:]
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// plainName is an upload's name as we keep it. A path that stays below the
// workspace is kept whole; of any other its last part is. What could be read in
// two ways becomes an underscore.
func plainName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if _, ok := wantedPath(safe); ok {
		return safe
	}
	base := path.Base(strings.ReplaceAll(safe, `\`, "/"))
	base = shorten(base)
	if _, err := engine.CleanPath(base); err != nil {
		return "unnamed"
	}
	return base
}

// shorten cuts a name to what a file system takes, and keeps its extension.
func shorten(name string) string {
	const most = 255
	if len(name) <= most {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > 32 {
		ext = ""
	}
	return strings.ToValidUTF8(name[:most-len(ext)], "") + ext
}
