package engine

import (
	"errors"
	"io"
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// headSize is how much of a file's beginning tells its type.
const headSize = 3072

const octetStream = "application/octet-stream"

// textTypes are the types that only a name can tell: the content is text all
// the same. The operating system's own table is not asked, for it differs from
// host to host.
var textTypes = map[string]string{
	".c": "text/x-c", ".cfg": "text/plain", ".conf": "text/plain", ".cpp": "text/x-c++", ".css": "text/css",
	".csv": "text/csv", ".env": "text/plain", ".go": "text/x-go", ".h": "text/x-c", ".htm": "text/html",
	".html": "text/html", ".ini": "text/plain", ".ipynb": "application/x-ipynb+json", ".java": "text/x-java",
	".js": "text/javascript", ".json": "application/json", ".jsonl": "application/x-ndjson", ".log": "text/plain",
	".lua": "text/x-lua", ".md": "text/markdown", ".mjs": "text/javascript", ".ndjson": "application/x-ndjson",
	".php": "text/x-php", ".py": "text/x-python", ".r": "text/x-r", ".rb": "text/x-ruby", ".rs": "text/x-rust",
	".sh": "text/x-shellscript", ".sql": "application/sql", ".svg": "image/svg+xml", ".tex": "text/x-tex",
	".toml": "application/toml", ".ts": "text/x-typescript", ".tsv": "text/tab-separated-values",
	".txt": "text/plain", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
}

// binaryTypes are asked when the content says nothing better than "bytes".
var binaryTypes = map[string]string{
	".arrow": "application/vnd.apache.arrow.file", ".feather": "application/vnd.apache.arrow.file",
	".parquet": "application/vnd.apache.parquet", ".wasm": "application/wasm",
}

// typeOf finds the MIME type of a file. The name decides between kinds of
// text, the content everything else: a PNG called data.csv is a PNG.
func typeOf(name string, head []byte) string {
	ext := strings.ToLower(path.Ext(name))
	if t, ok := textTypes[ext]; ok && isText(head) {
		return t
	}
	found := mimetype.Detect(head).String()
	if found == octetStream {
		if t, ok := binaryTypes[ext]; ok {
			return t
		}
	}
	// The parameter is dropped: it is guessed from the head alone.
	found, _, _ = strings.Cut(found, ";")
	return found
}

// isText reports whether the beginning of a file is UTF-8 without the control
// characters that text never has.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 && utf8.FullRune(head) {
			return false
		}
		if r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r) {
			return false
		}
		head = head[size:]
	}
	return true
}

// givenType returns the type that an uploader names, if it can be sent back
// in a header as it is.
func givenType(s string) (string, error) {
	if len(s) > maxSegment {
		return "", errors.New("is too long")
	}
	kind, params, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(kind, "/") {
		return "", errors.New("is not a media type")
	}
	return mime.FormatMediaType(kind, params), nil
}

// head is a writer that keeps the beginning of its input.
type head struct{ bytes []byte }

func (h *head) Write(p []byte) (int, error) {
	room := headSize - len(h.bytes)
	h.bytes = append(h.bytes, p[:min(room, len(p))]...)
	return len(p), nil
}

// Head reads the beginning of a file, enough to tell its type, without moving its
// offset. One that cannot be read has none; storing it will say so.
func Head(r io.ReaderAt) []byte {
	b := make([]byte, headSize)
	n, err := r.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return b[:n]
}
