package native

import (
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// inert are the types that a browser may be told: none of them can run
// anything. Other text is plain text, and the rest is just bytes.
var inert = map[string]bool{
	"text/plain": true, "text/csv": true, "text/markdown": true, "text/tab-separated-values": true,
	"application/json": true, "application/zip": true, "application/gzip": true, "application/x-tar": true,
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/bmp": true, "image/tiff": true,
	"audio/mpeg": true, "audio/wav": true, "audio/ogg": true, "video/mp4": true, "video/webm": true,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         true,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   true,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": true,
	"application/vnd.apache.parquet":                                            true,
}

// asDownload makes an answer one that no browser shows or runs in our name,
// whatever is in the file and however it is called.
func asDownload(h http.Header, name, mimeType string) {
	h.Set("Content-Type", safeType(mimeType))
	h.Set("Content-Disposition", disposition(name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func safeType(mimeType string) string {
	base, _, err := mime.ParseMediaType(mimeType)
	switch {
	case err != nil:
		return "application/octet-stream"
	case strings.HasPrefix(base, "text/"):
		if !inert[base] {
			base = "text/plain"
		}
		return base + "; charset=utf-8"
	case inert[base]:
		return base
	}
	return "application/octet-stream"
}

// disposition spells a file name twice, as RFC 6266 has it: in ASCII for old
// clients, and whole, in the encoding of RFC 5987.
func disposition(name string) string {
	name = path.Base(strings.ToValidUTF8(name, "\uFFFD"))
	if name == "." || name == "/" {
		name = "file"
	}
	var plain, exact strings.Builder
	for _, c := range name {
		if c < ' ' || c >= 0x7f || strings.ContainsRune(`"\%`, c) {
			plain.WriteByte('_')
		} else {
			plain.WriteRune(c)
		}
	}
	var buf [utf8.UTFMax]byte
	for _, c := range name {
		for _, b := range buf[:utf8.EncodeRune(buf[:], c)] {
			if attrChar(b) {
				exact.WriteByte(b)
			} else {
				const hex = "0123456789ABCDEF"
				exact.Write([]byte{'%', hex[b>>4], hex[b&15]})
			}
		}
	}
	return `attachment; filename="` + plain.String() + `"; filename*=UTF-8''` + exact.String()
}

// attrChar is what RFC 5987 leaves as it is.
func attrChar(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0
}
