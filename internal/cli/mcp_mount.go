package cli

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
)

// mcpOptionsOf are those of a server over a service in this process.
func (a *app) mcpOptionsOf(s *service, images int) mcp.Options {
	return mcp.Options{
		Engine: s.engine, Live: s.interpreters,
		Caller: httpd.Caller, Local: engine.Caller{Owner: engine.Local},
		Images: images, Bodies: &s.bodies, Version: readVersion(a.release).Version, Log: a.log,
	}
}

const mcpPrefix = "/mcp"

// mcpMounts serve the Model Context Protocol, and the files that are sent to
// addresses that it told.
func (a *app) mcpMounts(s *service) (mounts []httpd.Mount, end func(), err error) {
	identity, document, err := a.mcpIdentity()
	if err != nil {
		return nil, nil, err
	}
	options := a.mcpOptionsOf(s, 2)
	options.Self, options.HTTP, options.PublicURL = s.engine.Self, true, strings.TrimSuffix(a.cfg.PublicURL, "/")
	server := mcp.New(options)
	handler := mcp.NewHandler(server, mcpPrefix)
	return append(document,
		httpd.Mount{Prefix: mcpPrefix, Handler: handler, Trusted: true, MaxBody: mcp.MaxBody, Identity: identity,
			Holder: mcp.Holder},
		httpd.Mount{
			Prefix: mcpPrefix + "/upload", Handler: server.Uploads(a.cfg.MaxUpload), Public: true, MaxBody: a.cfg.MaxUpload,
		}), handler.Close, nil
}

// ownHosts are the names by which the service may be called.
func (a *app) ownHosts() []string {
	if u, err := url.Parse(a.cfg.PublicURL); err == nil && u.Hostname() != "" {
		return append([]string{u.Hostname()}, a.cfg.AllowHosts...)
	}
	return a.cfg.AllowHosts
}

// mcpScope is what tokens must be for.
const mcpScope = "airlock"

// mcpIdentity takes tokens of the operator's identity provider, and tells clients of
// it. Without one there is no such document: an empty one has hosts begin a sign-in
// that fails.
func (a *app) mcpIdentity() (identity *httpd.Identity, document []httpd.Mount, err error) {
	issuer := a.cfg.MCPIssuer
	if issuer == "" {
		return nil, nil, nil
	}
	if a.cfg.PublicURL == "" {
		return nil, nil, fail(exitUsage, "set public_url: tokens are for the address at which clients call /mcp",
			"mcp_oauth_issuer needs public_url")
	}
	resource := strings.TrimSuffix(a.cfg.PublicURL, "/") + mcpPrefix
	client := a.webClient(issuer)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	identity, err = httpd.NewIdentity(httpd.IdentityOptions{
		Issuer: issuer, Resource: resource, Scope: mcpScope, Client: client,
	})
	if err != nil {
		return nil, nil, err
	}
	about := auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{issuer}, ScopesSupported: []string{mcpScope},
		BearerMethodsSupported: []string{"header"}, ResourceName: "Airlock",
	})
	return identity, []httpd.Mount{{Prefix: identity.Document(), Handler: about, Public: true}}, nil
}
