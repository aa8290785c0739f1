package cli

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/dify"
	"github.com/airlock-run/airlock/internal/dialect/e2b"
	"github.com/airlock-run/airlock/internal/dialect/jupyter"
	"github.com/airlock-run/airlock/internal/dialect/librechat"
	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/dialect/onyx"
	"github.com/airlock-run/airlock/internal/dialect/openai"
	"github.com/airlock-run/airlock/internal/dialect/openterminal"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
)

// e2b mounts the protocol of E2B's SDKs: below its prefix, and by the host names of sandboxes.
func (a *app) e2b(s *service) (mount httpd.Mount, end func()) {
	handler := e2b.New(e2b.Options{
		Live: s.interpreters, Caller: httpd.Caller, Limits: s.engine.Limits, Domain: a.cfg.E2BDomain, Log: a.log,
		Self: s.engine.Self, Gather: s.peers.Gather,
	})
	signed := func(r *http.Request) bool { _, everyone := handler.Access(r); return everyone }
	return httpd.Mount{
		Prefix: "/e2b", Handler: handler, Access: handler.Access, Lenient: true, Holder: handler.Holder,
		Authenticate: e2b.Authenticate(s.engine.AuthenticateFor("e2b")),
		MaxBody:      a.cfg.MaxUpload + formRoom, Refuse: e2b.Refuse, Hosts: handler.Hosts, Compressed: handler.Compressed,
		// SDKs omit the prefix in addresses that they sign.
		AtRoot: map[string]httpd.Claim{"GET /files": signed, "POST /files": signed},
	}, handler.Close
}

// openAI mounts the protocol of OpenAI's SDKs, which always send a key. Where no key is
// needed it accepts any.
func (a *app) openAI(s *service) httpd.Mount {
	up := a.cfg.Upstream
	return httpd.Mount{
		Prefix: "/openai/v1",
		Handler: openai.New(openai.Options{
			Engine: s.engine, Live: s.interpreters, Caller: httpd.Caller, Upstream: up.URL, Key: up.Key.Reveal(),
			HTTP:      a.webClient(up.URL),
			MaxUpload: a.cfg.MaxUpload, Bodies: &s.bodies, Log: a.log,
		}),
		Authenticate: s.engine.AuthenticateFor("openai"),
		Trusted:      true, Lenient: true, MaxBody: max(a.cfg.MaxUpload, openai.MaxJSON) + formRoom, Refuse: openai.Refuse,
	}
}

// jupyter mounts the protocol of a Jupyter server. Some clients send their key only in
// the query.
func (a *app) jupyter(s *service) (m httpd.Mount, end func()) {
	server := jupyter.New(jupyter.Options{
		Engine: s.engine, Live: s.interpreters, Caller: httpd.Caller, Idle: a.cfg.LiveIdle,
		Bodies: &s.bodies, Log: a.log, Gather: s.peers.Gather,
	})
	return httpd.Mount{
		Prefix:       "/jupyter",
		Handler:      server,
		Open:         jupyter.Open(),
		QueryKey:     jupyter.QueryKey,
		Authenticate: s.engine.AuthenticateFor("jupyter"),
		Trusted:      true,
		MaxBody:      jupyter.MaxBody,
		Refuse:       jupyter.Refuse,
	}, server.Close
}

// libreChat mounts the protocol of LibreChat, whose clients send tokens, keys or nothing.
func (a *app) libreChat(s *service, metrics *httpd.Metrics) (httpd.Mount, error) {
	c := &a.cfg.LibreChat
	keys := &librechat.Keys{Static: string(c.APIKey), Others: s.engine.AuthenticateFor("librechat")}
	tokens := librechat.TokenConfig{
		PublicKey: c.JWTPublicKey, Secret: string(c.JWTSecret), KeyID: c.JWTKeyID, Directory: c.JWTKeysDir, JWKS: c.JWTKeySet,
		SecretID: c.JWTSecretKeyID, Algorithms: c.JWTAlgorithms, Trust: c.JWTTrust, MaxLife: c.JWTMaxLife,
		Skew:   cmp.Or(c.JWTSkew, -1),
		Issuer: c.JWTIssuer, Audience: c.JWTAudience, Tenant: c.JWTTenant, Strict: c.JWTStrictTenant,
	}
	if !tokens.Empty() {
		var err error
		if keys.Tokens, err = librechat.NewTokens(tokens, time.Now); err != nil {
			return httpd.Mount{}, fail(exitUnavailable, "the settings librechat_jwt_* name the keys of LibreChat's tokens", "%w",
				err)
		}
	}
	handler := librechat.New(s.engine, librechat.Options{
		Caller: httpd.Caller, Authenticate: keys.Authenticate, Language: libreChatLanguage,
		Version: readVersion(a.release).Version, MaxUpload: a.cfg.MaxUpload, FileTTL: c.FileTTL,
		StrictUsers: c.UserScope == config.UserScopeStrict, UnknownSession: librechat.UnknownSession(c.UnknownSession),
		PeerErrors: c.PeerErrors, State: librechat.State(c.PythonState),
		Bodies: &s.bodies, Metrics: metrics.Handler(), Log: a.log,
	})
	s.below = append(s.below, handler.Close)
	atRoot := map[string]httpd.Claim{}
	for _, pattern := range librechat.AtRoot() {
		atRoot[pattern] = nil // everything that Onyx does not claim
	}
	return httpd.Mount{
		Prefix:       "/librechat",
		Handler:      handler,
		Open:         librechat.Open(),
		AtRoot:       atRoot,
		Trusted:      true,
		Keyed:        keys.Any(),
		Lenient:      true,
		Authenticate: keys.Authenticate,
		MaxBody:      max(librechat.BatchFactor*a.cfg.MaxUpload, librechat.MaxJSON) + formRoom,
		Refuse:       librechat.Refuse,
	}, nil
}

func libreChatLanguage(name string) (librechat.Language, bool) {
	l, ok := language.Find(name)
	return librechat.Language{Name: l.Name, Entry: l.Entry, Source: l.Source}, ok
}

// mcpOptionsOf returns the options of a server for a service in this process.
func (a *app) mcpOptionsOf(s *service, images int) mcp.Options {
	return mcp.Options{
		Engine: s.engine, Live: s.interpreters,
		Caller: httpd.Caller, Local: engine.Caller{Owner: engine.Local},
		Images: images, Bodies: &s.bodies, Version: readVersion(a.release).Version, Log: a.log,
	}
}

const mcpPrefix = "/mcp"

// mcpMounts mount the Model Context Protocol, and the upload addresses that it hands out.
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
			Authenticate: s.engine.AuthenticateFor("mcp"),
			Holder:       mcp.Holder},
		httpd.Mount{
			Prefix: mcpPrefix + "/upload", Handler: server.Uploads(a.cfg.MaxUpload), Public: true, MaxBody: a.cfg.MaxUpload,
		}), handler.Close, nil
}

// ownHosts returns the host names of the service.
func (a *app) ownHosts() []string {
	if u, err := url.Parse(a.cfg.PublicURL); err == nil && u.Hostname() != "" {
		return append([]string{u.Hostname()}, a.cfg.AllowHosts...)
	}
	return a.cfg.AllowHosts
}

// mcpScope is the scope that tokens must have.
const mcpScope = "airlock"

// mcpIdentity returns what accepts tokens of the operator's identity provider, and the
// mount of the document that tells clients of it. Without a provider there is no
// document, since hosts would begin a sign-in that fails.
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

// onyx mounts the protocol of Onyx, which has no keys: trusted networks need none.
func (a *app) onyx(s *service, metrics *httpd.Metrics) httpd.Mount {
	c := &a.cfg.Onyx
	maxFile := min(c.MaxFile, a.cfg.MaxUpload)
	return httpd.Mount{
		Prefix: "/onyx",
		Handler: onyx.New(s.engine, onyx.Options{
			Caller:     httpd.Caller,
			MaxTimeout: c.MaxTimeout, MaxOutput: int(c.MaxOutput), MaxFile: maxFile, FileTTL: c.FileTTL,
			Memory: c.Memory, CPUTime: c.CPUTime,
			Bodies: &s.bodies, Registry: metrics.Registry, Metrics: metrics.Handler(), Log: a.log,
		}),
		Authenticate: s.engine.AuthenticateFor("onyx"),

		Open:    onyx.Open(),
		AtRoot:  onyx.AtRoot(),
		Trusted: true,
		MaxBody: max(maxFile, onyx.MaxJSON) + formRoom,
		Refuse:  onyx.RefuseWith(maxFile),
	}
}

// dify mounts the protocol of Dify, which sends the key dify-sandbox by default.
func (a *app) dify(s *service) httpd.Mount {
	return httpd.Mount{
		Prefix: "/dify",
		Handler: dify.New(s.engine, dify.Options{
			Caller: httpd.Caller, Timeout: a.cfg.DifyTimeout, Bodies: &s.bodies, Log: a.log,
		}),
		Authenticate: s.engine.AuthenticateFor("dify"),
		Open:         dify.Open(), Trusted: true, Lenient: true, MaxBody: dify.MaxBody, Refuse: dify.Refuse,
	}
}

// openTerminal mounts the protocol between Open WebUI and an Open Terminal. Where no key
// is needed it accepts any, since Open WebUI's settings may have one.
func (a *app) openTerminal(s *service) httpd.Mount {
	authenticate := s.engine.AuthenticateFor("terminal")
	terminals := func(ctx context.Context, token string) (engine.Caller, error) {
		caller, err := authenticate(ctx, token)
		if err == nil {
			httpd.Authenticated(ctx)
		}
		return caller, err
	}
	return httpd.Mount{
		Prefix: "/terminal", Authenticate: authenticate,
		Handler: openterminal.New(s.engine, s.interpreters, openterminal.Options{
			Caller: httpd.Caller, Authenticate: terminals, MaxUpload: a.cfg.MaxUpload, Bodies: &s.bodies, Log: a.log,
		}),
		Access: openterminal.Access, AnyOrigin: openterminal.AnyOrigin(), Lenient: true,
		MaxBody: max(a.cfg.MaxUpload, openterminal.MaxJSON) + formRoom, Refuse: openterminal.Refuse,
	}
}

// formRoom is the space in a form beside the file.
const formRoom = 1 << 20
