package mcp

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
)

// Dialect is the Model Context Protocol, with the upload addresses that it hands out.
var Dialect = dialect.Dialect{Name: "mcp", Mount: mount}

const (
	mountPrefix = "/mcp"
	tokenScope  = "airlock" // that tokens must have

	imagesOverHTTP = 2 // in an answer
)

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	identity, mounts, err := newIdentity(d)
	if err != nil {
		return nil, nil, err
	}
	server := New(Options{
		Engine: d.Engine, Live: d.Live, Caller: httpd.Caller, Local: engine.Caller{Owner: engine.Local},
		Self: d.Engine.Self, HTTP: true, PublicURL: strings.TrimSuffix(d.Config.PublicURL, "/"),
		Images: imagesOverHTTP, Bodies: d.Bodies, Version: d.Version, Log: d.Log,
	})
	handler := NewHandler(server, mountPrefix)
	return append(mounts,
		httpd.Mount{Prefix: mountPrefix, Handler: handler, End: handler.Close, Trusted: true, MaxBody: maxBody,
			Identity: identity, Authenticate: d.Authenticate, Holder: holder},
		httpd.Mount{Prefix: mountPrefix + "/upload", Handler: server.Uploads(d.Config.MaxUpload), Public: true,
			MaxBody: d.Config.MaxUpload}), nil, nil
}

// newIdentity returns what accepts tokens of the operator's identity provider, and the
// mount of the document that tells clients of it. Without a provider there is no
// document, since hosts would begin a sign-in that fails.
func newIdentity(d dialect.Deps) (identity *httpd.Identity, document []httpd.Mount, err error) {
	issuer := d.Config.MCPIssuer
	if issuer == "" {
		return nil, nil, nil
	}
	if d.Config.PublicURL == "" {
		return nil, nil, &dialect.SettingError{Kind: engine.ErrInvalid,
			Hint: "set public_url: tokens are for the address at which clients call /mcp",
			Err:  errors.New("mcp_oauth_issuer needs public_url")}
	}
	resource := strings.TrimSuffix(d.Config.PublicURL, "/") + mountPrefix
	client := d.Client(issuer)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	identity, err = httpd.NewIdentity(httpd.IdentityOptions{
		Issuer: issuer, Resource: resource, Scope: tokenScope, Client: client,
	})
	if err != nil {
		return nil, nil, err
	}
	about := auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{issuer}, ScopesSupported: []string{tokenScope},
		BearerMethodsSupported: []string{"header"}, ResourceName: "Airlock",
	})
	return identity, []httpd.Mount{{Prefix: identity.Document(), Handler: about, Public: true}}, nil
}
