package dify

import (
	"io"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the protocol of Dify, which sends the key dify-sandbox by default.
var Dialect = dialect.Dialect{Name: "dify", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	return []httpd.Mount{{
		Prefix: "/dify",
		Handler: New(d.Engine, Options{
			Caller: httpd.Caller, Timeout: d.Config.DifyTimeout, Bodies: d.Bodies, Log: d.Log,
		}),
		Authenticate: d.Authenticate,
		Open:         []string{"/health"}, Trusted: true, Lenient: true, MaxBody: maxBody, Refuse: refuseRequest,
	}}, nil, nil
}
