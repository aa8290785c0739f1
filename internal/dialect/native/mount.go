package native

import (
	"io"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Prefix is the address of the API.
const Prefix = "/api/v1"

// Dialect returns Airlock's own protocol, with the parts in o that it has beside those of
// every dialect.
func Dialect(o Options) dialect.Dialect {
	return dialect.Dialect{Name: "api", Mount: func(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
		o.Caller, o.MaxUpload = httpd.Caller, d.Config.MaxUpload
		o.Bodies, o.Log, o.Live = d.Bodies, d.Log, d.Live
		api := New(d.Engine, o)
		return []httpd.Mount{{
			Prefix: Prefix, Handler: api, Access: api.Access, AnyOrigin: anyOrigin(), Authenticate: d.Authenticate,
			MaxBody: max(d.Config.MaxUpload, MaxJSON) + dialect.FormRoom,
		}}, nil, nil
	}}
}
