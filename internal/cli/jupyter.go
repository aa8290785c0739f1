package cli

import (
	"github.com/airlock-run/airlock/internal/dialect/jupyter"
	"github.com/airlock-run/airlock/internal/httpd"
)

// jupyter mounts what clients of a Jupyter server speak. Some of them show their key
// in the query only.
func (a *app) jupyter(s *service) (m httpd.Mount, end func()) {
	server := jupyter.New(jupyter.Options{
		Engine: s.engine, Live: s.interpreters, Caller: httpd.Caller, Kernels: a.cfg.OwnerLive, Idle: a.cfg.LiveIdle,
		Bodies: &s.bodies, Log: a.log, Gather: s.peers.Gather,
	})
	return httpd.Mount{
		Prefix:   "/jupyter",
		Handler:  server,
		Open:     jupyter.Open(),
		QueryKey: jupyter.QueryKey,
		Trusted:  true,
		MaxBody:  jupyter.MaxBody,
		Refuse:   jupyter.Refuse,
	}, server.Close
}
