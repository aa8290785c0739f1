package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"path"
	"strings"
)

// MaxPartHeader is the limit of the headers of a part, in bytes. Package mime/multipart would read
// 10 MiB.
const MaxPartHeader = 64 << 10

// ErrHeaders reports that a part has more than MaxPartHeader bytes of headers.
var ErrHeaders = errors.New("the headers of a part are too long")

// Parts reads the parts of a form.
type Parts struct {
	parts *multipart.Reader
	body  *boundedBody
}

// NewParts reads a body of multipart/form-data.
func NewParts(body io.Reader, boundary string) *Parts {
	bounded := &boundedBody{from: &controls{from: bufio.NewReader(body), delimiter: []byte("--" + boundary)}}
	return &Parts{multipart.NewReader(bounded, boundary), bounded}
}

// Next returns the next part. The error is a bare io.EOF at the closing boundary, and a wrapped one
// if the form was cut short.
func (p *Parts) Next() (*multipart.Part, error) {
	p.body.bounded, p.body.left = true, MaxPartHeader
	defer func() { p.body.bounded = false }()
	part, err := p.parts.NextRawPart()
	if err != nil {
		return nil, err
	}
	for _, values := range part.Header {
		for i := range values {
			values[i] = withControls(values[i])
		}
	}
	return part, nil
}

// controls spells control characters in the headers of parts so that package net/textproto lets
// them pass: clients send names of files as they are, and the file systems take them. The spelling
// is UTF-8 of two bytes, which no text has for them.
type controls struct {
	from      *bufio.Reader
	delimiter []byte // in front of the headers of a part
	headers   bool   // the next line is a header
	inside    bool   // a part of the line was read
	ready     []byte
}

func (c *controls) Read(p []byte) (int, error) {
	if len(c.ready) == 0 {
		line, err := c.from.ReadSlice('\n')
		if len(line) == 0 {
			return 0, err
		}
		begins := !c.inside
		c.inside = line[len(line)-1] != '\n'
		c.ready = line
		switch text := bytes.TrimRight(line, " \t\r\n"); {
		case !c.headers:
			c.headers = begins && !c.inside && bytes.Equal(text, c.delimiter)
		case begins && len(text) == 0:
			c.headers = false
		default:
			c.ready = nil
			end := line[len(bytes.TrimRight(line, "\r\n")):]
			for _, b := range line[:len(line)-len(end)] {
				if isControl(b) {
					c.ready = append(c.ready, 0xc0|b>>6, 0x80|b&0x3f)
				} else {
					c.ready = append(c.ready, b)
				}
			}
			c.ready = append(c.ready, end...)
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func isControl(b byte) bool { return b < ' ' && b != '\t' || b == 0x7f }

// withControls returns a value with the control characters that controls has spelled.
func withControls(value string) string {
	var b []byte
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c&0xfe == 0xc0 && i+1 < len(value) && value[i+1]&0xc0 == 0x80 {
			if long := c<<6 | value[i+1]&0x3f; isControl(long) { // no other character may be smuggled in
				c = long
				i++
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// Drain reads the rest of the body behind the closing boundary.
func (p *Parts) Drain() error {
	_, err := io.Copy(io.Discard, p.body)
	return err
}

// boundedBody limits the bytes that are read while the headers of a part are.
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

// Checked returns the content of a part. When the part ends, end gets the error and reads the rest
// of the form; its error, io.EOF if all is well, ends the content. So a second file or a lost end
// is found before the first file is stored.
func Checked(part io.Reader, end func(error) error) io.Reader {
	return &checkedPart{part: part, finish: end}
}

type checkedPart struct {
	part   io.Reader
	finish func(error) error
	end    error
}

func (c *checkedPart) Read(p []byte) (n int, err error) {
	if c.end == nil {
		if n, err = c.part.Read(p); err != nil {
			c.end = c.finish(err)
		}
	}
	return n, c.end
}

// Disposition reads the parameters of a part's Content-Disposition as most clients mean it, and
// reports whether the header is well formed. The reader of package mime/multipart would cut a
// path down to its last element, and that of mime refuses raw UTF-8, which clients send.
func Disposition(header string) (params map[string]string, regular bool) {
	_, rest, _ := strings.Cut(header, ";")
	params, regular = map[string]string{}, true
	for rest = strings.TrimSpace(rest); rest != ""; {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			return params, false
		}
		text, rest2, whole := paramValue(strings.TrimLeft(after, " \t"))
		key = strings.ToLower(strings.TrimSpace(key))
		_, twice := params[key]
		params[key] = text
		rest2 = strings.TrimLeft(rest2, " \t")
		regular = regular && whole && !twice && key != "" && !strings.ContainsAny(key, "\"; \t") &&
			(rest2 == "" || rest2[0] == ';')
		rest = strings.TrimLeft(strings.TrimPrefix(rest2, ";"), " \t")
	}
	return params, regular
}

// paramValue reads one value. It returns what follows it, and whether the value is well formed. In
// quotes only \" and \\ are escapes: browsers send a lone backslash as it is.
func paramValue(s string) (text, rest string, whole bool) {
	if !strings.HasPrefix(s, `"`) {
		text, _, _ = strings.Cut(s, ";")
		rest = s[len(text):]
		text = strings.TrimSpace(text)
		return text, rest, text != "" && !strings.ContainsAny(text, "\" \t")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", false
}

// ExtendedName decodes a filename* of RFC 5987, UTF-8'language'percent-encoded.
func ExtendedName(value string) (name string, ok bool) {
	charset, rest, _ := strings.Cut(value, "'")
	_, encoded, ok := strings.Cut(rest, "'")
	if !ok || !strings.EqualFold(charset, "utf-8") {
		return "", false
	}
	name, err := url.PathUnescape(encoded)
	return name, err == nil
}

// PartName returns the name of a form's field and of its file, as most clients mean them.
func PartName(header string) (field, file string, isFile bool) {
	params, _ := Disposition(header)
	file, isFile = params["filename"]
	if name, ok := ExtendedName(params["filename*"]); ok {
		file, isFile = name, true
	}
	return params["name"], file, isFile
}

// ShortName cuts a name to the limit of file systems, and keeps its extension.
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
