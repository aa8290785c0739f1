package wire

import (
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"path"
	"strings"
)

// MaxPartHeader is how many bytes the headers of a part may have: package
// mime/multipart would take 10 MiB.
const MaxPartHeader = 64 << 10

// ErrHeaders says that a part has more than MaxPartHeader bytes of headers.
var ErrHeaders = errors.New("the headers of a part are too long")

// Parts reads the parts of a form.
type Parts struct {
	parts *multipart.Reader
	body  *boundedBody
}

// NewParts reads a body of multipart/form-data.
func NewParts(body io.Reader, boundary string) *Parts {
	bounded := &boundedBody{from: body}
	return &Parts{multipart.NewReader(bounded, boundary), bounded}
}

// Next returns the next part. At the closing boundary there is a bare io.EOF; a
// wrapped one is a form that was cut short.
func (p *Parts) Next() (*multipart.Part, error) {
	p.body.bounded, p.body.left = true, MaxPartHeader
	defer func() { p.body.bounded = false }()
	return p.parts.NextRawPart()
}

// Drain reads what follows the closing boundary.
func (p *Parts) Drain() error {
	_, err := io.Copy(io.Discard, p.body)
	return err
}

// boundedBody gives no more while the headers of a part are read than they may
// have.
type boundedBody struct {
	from    io.Reader
	bounded bool
	left    int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if !b.bounded {
		return b.from.Read(p)
	}
	if b.left == 0 {
		return 0, ErrHeaders
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Disposition reads the parameters of a part's Content-Disposition as most
// clients mean it. The reader of package mime/multipart would cut a path down to
// its last element, and that of mime takes no raw UTF-8, which is what they send.
func Disposition(header string) map[string]string {
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
	return params
}

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

// ExtendedName decodes a filename* of RFC 5987, UTF-8'language'percent-encoded.
func ExtendedName(value string) (name string, ok bool) {
	charset, encoded, ok := strings.Cut(value, "'")
	if !ok || !strings.EqualFold(charset, "utf-8") {
		return "", false
	}
	_, encoded, _ = strings.Cut(encoded, "'")
	name, err := url.PathUnescape(encoded)
	return name, err == nil
}

// ShortName cuts a name to what a file system takes, and keeps its extension.
func ShortName(name string) string {
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
