package wire

import (
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
)

// inert are types that a browser may be given: it runs none of them. Other text becomes plain text,
// and the rest application/octet-stream.
var inert = map[string]bool{
	"text/plain": true, "text/csv": true, "text/markdown": true, "text/tab-separated-values": true,
	"application/json": true, "application/zip": true, "application/gzip": true, "application/x-tar": true,
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/bmp": true, "image/tiff": true,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         true,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   true,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": true,
	"application/vnd.apache.parquet":                                            true,
}

// Download sets the headers of a download, so that no browser shows or runs the file as a part of
// this service. The disposition is an attachment, as the protocol spells its name.
func Download(h http.Header, disposition, safeType string) {
	h.Set("Content-Type", safeType)
	h.Set("Content-Disposition", disposition)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// Attachment returns the disposition of a download. It has the name twice, as in RFC 6266: in ASCII
// for old clients, and in the encoding of RFC 5987. Folders are left out.
func Attachment(name string) string {
	name = path.Base(strings.ToValidUTF8(name, "\uFFFD"))
	if name == "." || name == "/" {
		name = "file"
	}
	return `attachment; filename="` + asciiName(name) + `"; filename*=` + ExtendedValue(name)
}

// asciiName returns a name with "_" for the characters that clients read differently.
func asciiName(name string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f || strings.ContainsRune(`"\%`, c) {
			return '_'
		}
		return c
	}, name)
}

// SafeType returns the type that a browser is given. more are inert types of one protocol.
func SafeType(mimeType string, more ...string) string {
	base, _, err := mime.ParseMediaType(mimeType)
	switch {
	case err != nil:
		return "application/octet-stream"
	case strings.HasPrefix(base, "text/"):
		if !inert[base] {
			base = "text/plain"
		}
		return base + "; charset=utf-8"
	case inert[base], slices.Contains(more, base):
		return base
	}
	return "application/octet-stream"
}

// ExtendedValue encodes a name for filename*, as in RFC 5987.
func ExtendedValue(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$&+-.^_`|~", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return "UTF-8''" + b.String()
}
