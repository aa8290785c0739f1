package e2b

import (
	"io"
	"net/http"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the protocol of E2B's SDKs: below its prefix, and by the host names of sandboxes.
var Dialect = dialect.Dialect{Name: "e2b", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	handler := New(Options{
		Live: d.Live, Caller: httpd.Caller, Limits: d.Engine.Limits, Images: d.Engine.ImagesOf, Engine: d.Engine,
		Domain: d.Config.E2BDomain, Log: d.Log,
		Self: d.Engine.Self, Gather: d.Gather, Store: d.Engine, Kept: d.Config.SnapshotTTL,
	})
	signed := func(r *http.Request) bool { _, everyone := handler.Access(r); return everyone }
	return []httpd.Mount{{
		Prefix: "/e2b", Handler: handler, End: handler.Close, Access: handler.Access, Lenient: true,
		Holder: handler.Holder, Hosts: handler.Hosts, Compressed: handler.Compressed,
		Authenticate: d.Authenticate,
		MaxBody:      d.Config.MaxUpload + dialect.FormRoom, Refuse: refuseRequest,
		// SDKs omit the prefix in addresses that they sign.
		AtRoot: map[string]httpd.Claim{"GET /files": signed, "POST /files": signed},
	}}, nil, nil
}
