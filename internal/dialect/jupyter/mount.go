package jupyter

import (
	"io"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the protocol of a Jupyter server. Some clients send their key only in the
// query.
var Dialect = dialect.Dialect{Name: "jupyter", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	server := New(Options{
		Engine: d.Engine, Live: d.Live, Caller: httpd.Caller, Idle: d.Config.LiveIdle,
		Bodies: d.Bodies, Log: d.Log, Gather: d.Gather,
	})
	return []httpd.Mount{{
		Prefix: "/jupyter", Handler: server, End: server.Close,
		Open:     []string{"/api", "/api/"},
		QueryKey: queryKey, Authenticate: d.Authenticate, Trusted: true, MaxBody: maxBody, Refuse: refuseRequest,
	}}, nil, nil
}
