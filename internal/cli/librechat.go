package cli

import (
	"cmp"
	"time"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/librechat"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
)

// libreChat mounts what LibreChat speaks. Its clients show tokens, keys or
// nothing, each at a place of their own.
func (a *app) libreChat(s *service, metrics *httpd.Metrics) (httpd.Mount, error) {
	c := &a.cfg.LibreChat
	keys := &librechat.Keys{Static: string(c.APIKey), Others: s.engine.Authenticate}
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
		atRoot[pattern] = nil // what Onyx does not claim
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
