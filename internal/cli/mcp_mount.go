package cli

import (
	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
)

// mcpOptionsOf are those of a server over a service in this process.
func (a *app) mcpOptionsOf(s *service, images int) mcp.Options {
	return mcp.Options{
		Engine: s.engine, Live: s.interpreters, Files: mcpFiles{s.interpreters},
		Caller: httpd.Caller, Local: engine.Caller{Owner: engine.Local},
		Images: images, Bodies: &s.bodies, Version: readVersion(a.release).Version, Log: a.log,
	}
}

// mcpMounts serve the Model Context Protocol, and the files that are sent to
// addresses that it told.
func (a *app) mcpMounts(s *service) (mounts []httpd.Mount, end func()) {
	options := a.mcpOptionsOf(s, 2)
	options.HTTP = true
	server := mcp.New(options)
	handler := mcp.NewHandler(server, "/mcp")
	return []httpd.Mount{
		{Prefix: "/mcp", Handler: handler, Trusted: true, MaxBody: mcp.MaxBody},
		{Prefix: "/mcp/upload", Handler: server.Uploads(a.cfg.MaxUpload), Public: true, MaxBody: a.cfg.MaxUpload},
	}, handler.Close
}
