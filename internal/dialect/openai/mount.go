package openai

import (
	"io"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the protocol of OpenAI's SDKs, which always send a key. Where no key is
// needed it accepts any.
var Dialect = dialect.Dialect{Name: "openai", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	up := d.Config.Upstream
	return []httpd.Mount{{
		Prefix: "/openai/v1",
		Handler: New(Options{
			Engine: d.Engine, Live: d.Live, Caller: httpd.Caller, Upstream: up.URL, Key: up.Key.Reveal(),
			HTTP: d.Client(up.URL), MaxUpload: d.Config.MaxUpload, Bodies: d.Bodies, Log: d.Log,
		}),
		Authenticate: d.Authenticate,
		Trusted:      true, Lenient: true, MaxBody: max(d.Config.MaxUpload, maxJSON) + dialect.FormRoom,
		Refuse: refuseRequest,
	}}, nil, nil
}
