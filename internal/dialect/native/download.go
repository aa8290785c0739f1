package native

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/wire"
)

func asDownload(h http.Header, name, mimeType string) {
	wire.Download(h, wire.Attachment(name), safeType(mimeType))
}

func safeType(mimeType string) string {
	return wire.SafeType(mimeType, "audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm")
}
