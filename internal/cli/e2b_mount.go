package cli

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/dialect/e2b"
	"github.com/airlock-run/airlock/internal/httpd"
)

// e2b mounts what E2B's SDKs speak: below its prefix, and by the names of sandboxes.
func (a *app) e2b(s *service) (mount httpd.Mount, end func()) {
	handler := e2b.New(e2b.Options{
		Live: s.interpreters, Caller: httpd.Caller, Limits: s.engine.Limits, Domain: a.cfg.E2BDomain, Log: a.log,
		Self: s.engine.Self, Gather: s.peers.Gather,
	})
	signed := func(r *http.Request) bool { _, everyone := handler.Access(r); return everyone }
	return httpd.Mount{
		Prefix: "/e2b", Handler: handler, Access: handler.Access, Authenticate: e2b.Authenticate(s.engine.Authenticate),
		Lenient: true, Holder: handler.Holder,
		MaxBody: a.cfg.MaxUpload + formRoom, Refuse: e2b.Refuse, Hosts: handler.Hosts, Compressed: handler.Compressed,
		// SDKs leave the prefix out of addresses that they sign.
		AtRoot: map[string]httpd.Claim{"GET /files": signed, "POST /files": signed},
	}, handler.Close
}
