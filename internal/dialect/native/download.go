package native

import (
	"net/http"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/wire"
)

func asDownload(h http.Header, name, mimeType string) {
	wire.Download(h, disposition(name), safeType(mimeType))
}

func safeType(mimeType string) string {
	return wire.SafeType(mimeType, "audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm")
}

// disposition spells a file name twice, as RFC 6266 has it: in ASCII for old
// clients, and whole, in the encoding of RFC 5987.
func disposition(name string) string {
	name = path.Base(strings.ToValidUTF8(name, "\uFFFD"))
	if name == "." || name == "/" {
		name = "file"
	}
	var plain strings.Builder
	for _, c := range name {
		if c < ' ' || c >= 0x7f || strings.ContainsRune(`"\%`, c) {
			plain.WriteByte('_')
		} else {
			plain.WriteRune(c)
		}
	}
	return `attachment; filename="` + plain.String() + `"; filename*=` + wire.ExtendedValue(name)
}
