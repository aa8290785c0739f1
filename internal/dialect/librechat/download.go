package librechat

import (
	"net/http"
	"path"

	"github.com/airlock-run/airlock/internal/wire"
)

// asDownload answers with a file. LibreChat looks at its bytes.
func asDownload(h http.Header, name, mimeType string) {
	wire.Download(h, "attachment; filename*="+wire.ExtendedValue(path.Base(name)), wire.SafeType(mimeType))
}
