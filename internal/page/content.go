package page

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/wire"
)

// ShownImages are the types that a browser may show as a picture. SVG is not one of them:
// it is a document, and can have scripts.
var ShownImages = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/bmp": true,
}

// filePolicy disables scripts, gives an opaque origin and blocks loading for a file that is
// opened by itself.
const filePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// ServeContent serves a file with its hash as ETag. Pages can show pictures. Other files are only
// downloaded, and never with a type that runs, such as HTML, SVG or scripts.
func ServeContent(
	w http.ResponseWriter, v *Request, f File, hash string, modified time.Time, content io.ReadSeeker,
) {
	kind, name := SafeType(f.MIME), f.Name
	if ShownImages[kind] && !v.URL.Query().Has("download") {
		name = ""
	}
	Untrusted(w, kind, name)
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+hash+`"`)
	http.ServeContent(w, v.Request, "", modified, content)
}

// File is a file as the page shows it.
type File struct {
	Name string // its path in a session, else its name
	MIME string
	Size int64
}

// SafeType returns the type of a file for browsers: a picture, plain text, or bytes.
func SafeType(given string) string {
	base, _, err := mime.ParseMediaType(given)
	switch {
	case err != nil:
	case ShownImages[base]:
		return base
	case strings.HasPrefix(base, "text/"), base == "application/json":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// Untrusted sets the headers of content that this package did not make. A browser saves it
// under its name, or shows it without one.
func Untrusted(w http.ResponseWriter, kind, name string) {
	h := w.Header()
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Content-Type", kind)
	if name != "" {
		h.Set("Content-Disposition", wire.Attachment(name))
	}
}

// XlsxType is the media type of a workbook.
const XlsxType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

// PreviewKind returns the kind of a file's preview, "" for none.
func PreviewKind(f File) string {
	base, _, _ := strings.Cut(f.MIME, ";")
	ext := strings.ToLower(path.Ext(f.Name))
	switch {
	case ShownImages[base]:
		return "image"
	case base == "text/csv", base == "text/tab-separated-values", base == "application/vnd.apache.parquet",
		base == XlsxType, ext == ".csv", ext == ".tsv", ext == ".parquet", ext == ".xlsx",
		base == "application/x-ndjson", ext == ".jsonl", ext == ".ndjson":
		return "table"
	case base == "application/pdf", ext == ".pdf":
		return "pages"
	case base == "text/markdown":
		return "markdown"
	case base == "application/json":
		return "json"
	case strings.HasPrefix(base, "text/"), base == "image/svg+xml", base == "application/xml",
		base == "application/sql", base == "application/x-ipynb+json":
		return "text"
	}
	return ""
}
