package onyx

import (
	"io"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the protocol of Onyx, which has no keys: trusted networks need none.
var Dialect = dialect.Dialect{Name: "onyx", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	c := &d.Config.Onyx
	maxFile := min(c.MaxFile, d.Config.MaxUpload)
	return []httpd.Mount{{
		Prefix: "/onyx",
		Handler: New(d.Engine, Options{
			Caller:     httpd.Caller,
			MaxTimeout: c.MaxTimeout, MaxOutput: int(c.MaxOutput), MaxFile: maxFile, FileTTL: c.FileTTL,
			Memory: c.Memory, CPUTime: c.CPUTime,
			Bodies: d.Bodies, Registry: d.Metrics.Registry, Metrics: d.Metrics.Handler(), Log: d.Log,
		}),
		Authenticate: d.Authenticate,

		Open:    []string{"/health", "/ready", "/openapi.json", "/docs", "/redoc"},
		AtRoot:  rootRoutes(),
		Trusted: true,
		MaxBody: max(maxFile, maxJSON) + dialect.FormRoom,
		Refuse:  refuseWith(maxFile),
	}}, nil, nil
}
