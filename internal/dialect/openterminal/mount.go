package openterminal

import (
	"context"
	"io"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the protocol between Open WebUI and an Open Terminal. Where no key is needed
// it accepts any, since Open WebUI's settings may have one.
var Dialect = dialect.Dialect{Name: "terminal", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	terminals := func(ctx context.Context, token string) (engine.Caller, error) {
		caller, err := d.Authenticate(ctx, token)
		if err == nil {
			httpd.Authenticated(ctx)
		}
		return caller, err
	}
	return []httpd.Mount{{
		Prefix: "/terminal", Authenticate: d.Authenticate,
		Handler: New(d.Engine, d.Live, Options{
			Caller: httpd.Caller, Authenticate: terminals, MaxUpload: d.Config.MaxUpload, Bodies: d.Bodies, Log: d.Log,
		}),
		Access: access, AnyOrigin: anyOrigin(), Lenient: true,
		MaxBody: max(d.Config.MaxUpload, maxJSON) + dialect.FormRoom, Refuse: refuseRequest,
	}}, nil, nil
}
