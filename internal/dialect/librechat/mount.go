package librechat

import (
	"cmp"
	"io"
	"time"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
)

// Dialect is the protocol of LibreChat, whose clients send tokens, keys or nothing.
var Dialect = dialect.Dialect{Name: "librechat", Mount: mount}

func mount(d dialect.Deps) ([]httpd.Mount, io.Closer, error) {
	c := &d.Config.LibreChat
	keys := &Keys{Static: string(c.APIKey), Others: d.Authenticate}
	tokens := TokenConfig{
		PublicKey: c.JWTPublicKey, Secret: string(c.JWTSecret), KeyID: c.JWTKeyID, Directory: c.JWTKeysDir, JWKS: c.JWTKeySet,
		SecretID: c.JWTSecretKeyID, Algorithms: c.JWTAlgorithms, Trust: c.JWTTrust, MaxLife: c.JWTMaxLife,
		Skew:   cmp.Or(c.JWTSkew, -1),
		Issuer: c.JWTIssuer, Audience: c.JWTAudience, Tenant: c.JWTTenant, Strict: c.JWTStrictTenant,
	}
	if !tokens.Empty() {
		var err error
		if keys.Tokens, err = NewTokens(tokens, time.Now); err != nil {
			return nil, nil, &dialect.SettingError{Kind: engine.ErrUnavailable, Err: err,
				Hint: "the settings librechat_jwt_* name the keys of LibreChat's tokens"}
		}
	}
	handler := New(d.Engine, Options{
		Caller: httpd.Caller, Authenticate: keys.Authenticate, Language: findLanguage,
		Version: d.Version, MaxUpload: d.Config.MaxUpload, FileTTL: c.FileTTL,
		StrictUsers: c.UserScope == config.UserScopeStrict, UnknownSession: UnknownSession(c.UnknownSession),
		PeerErrors: c.PeerErrors, State: State(c.PythonState),
		Bodies: d.Bodies, Metrics: d.Metrics.Handler(), Log: d.Log,
	})
	atRoot := map[string]httpd.Claim{}
	for _, pattern := range rootRoutes() {
		atRoot[pattern] = nil // everything that Onyx does not claim
	}
	return []httpd.Mount{{
		Prefix: "/librechat", Handler: handler, Open: openPaths(), AtRoot: atRoot,
		Trusted: true, Keyed: keys.Any(), Lenient: true, Authenticate: keys.Authenticate,
		MaxBody: max(batchFactor*d.Config.MaxUpload, maxJSON) + dialect.FormRoom, Refuse: refuseRequest,
	}}, handler, nil
}

func findLanguage(name string) (Language, bool) {
	l, ok := language.Find(name)
	return Language{Name: l.Name, Entry: l.Entry, Source: l.Source}, ok
}
