// Package oidctest runs an identity provider in the test's process: zitadel's, with its storage in memory.
package oidctest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"html/template"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// What the provider knows its clients and its users by. Ada's e-mail address is verified.
const (
	ClientID     = "airlock"
	ClientSecret = "a secret of the client" //nolint:gosec // of a test
	Ada          = "test-user2"
	Password     = "verysecure" //nolint:gosec // of a test
	subject      = "id2"
	Domain       = "zitadel.ch" // of Ada's e-mail address
)

// Provider is an identity provider.
type Provider struct {
	URL string // its issuer

	server *httptest.Server
	store  *store

	mu     sync.Mutex
	down   bool
	change func(claims map[string]any)
}

// store is zitadel's, with groups.
type store struct {
	*storage.Storage

	mu     sync.Mutex
	groups []string
}

func (s *store) addGroups(info *oidc.UserInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups != nil {
		info.AppendClaims("groups", s.groups)
	}
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (s *store) SetUserinfoFromRequest(
	ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string,
) error {
	defer s.addGroups(info)
	return s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

// SetUserinfoFromToken implements op.Storage.
func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	defer s.addGroups(info)
	return s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
}

// Start runs a provider that sends browsers back to an address.
func Start(t testing.TB, back string) *Provider {
	t.Helper()
	p := &Provider{}
	mux := http.NewServeMux()
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	p.URL = p.server.URL
	clients := map[string]*storage.Client{ClientID: storage.WebClient(ClientID, ClientSecret, back)}
	p.store = &store{Storage: storage.NewStorageWithClients(storage.NewUserStore(p.URL), clients)}
	provider, err := op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("key")), CryptoKeyId: "key",
		CodeMethodS256: true, GrantTypeRefreshToken: true}, p.store, op.StaticIssuer(p.URL), op.WithAllowInsecure(),
		op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	finished := op.AuthCallbackURL(provider)
	mux.Handle("/", p.wrap(provider))
	mux.HandleFunc("GET /login/username", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = form.Execute(w, r.FormValue("authRequestID"))
	})
	mux.HandleFunc("POST /login/username", op.NewIssuerInterceptor(provider.IssuerFromRequest).HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			err := p.store.CheckUsernamePassword(r.FormValue("username"), r.FormValue("password"), r.FormValue("id"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			http.Redirect(w, r, finished(r.Context(), r.FormValue("id")), http.StatusFound)
		}))
	return p
}

var form = template.Must(template.New("form").Parse(`<!DOCTYPE html><html lang="en"><title>Provider</title>
<form method="post" action="/login/username"><input type="hidden" name="id" value="{{.}}">
<input id="username" name="username"><input id="password" name="password" type="password">
<button id="enter">Enter</button></form></html>`))

// SetGroups sets the groups of everybody.
func (p *Provider) SetGroups(groups ...string) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.store.groups = groups
}

// Revoke ends what Ada has with the client.
func (p *Provider) Revoke(t testing.TB) {
	t.Helper()
	if err := p.store.TerminateSession(t.Context(), subject, ClientID); err != nil {
		t.Fatal(err)
	}
}

// SetDown has the provider answer 503, or answer again.
func (p *Provider) SetDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// SetClaims has change alter the claims of each ID token, which is then signed as before; nil: it is as it was.
func (p *Provider) SetClaims(change func(claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// wrap serves the provider as it was told to be.
func (p *Provider) wrap(provider http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down, change := p.down, p.change
		p.mu.Unlock()
		switch {
		case down:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case change == nil || !strings.HasSuffix(r.URL.Path, "/token"):
			provider.ServeHTTP(w, r)
		default:
			answer := httptest.NewRecorder()
			provider.ServeHTTP(answer, r)
			body, err := p.altered(r.Context(), answer.Body.Bytes(), change)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			maps.Copy(w.Header(), answer.Header())
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			w.WriteHeader(answer.Code)
			_, _ = io.Copy(w, bytes.NewReader(body))
		}
	})
}

// altered returns an answer whose ID token has other claims.
func (p *Provider) altered(ctx context.Context, body []byte, change func(map[string]any)) ([]byte, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	text, ok := fields["id_token"].(string)
	if !ok {
		return body, nil
	}
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, err
	}
	claims := map[string]any{}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return nil, err
	}
	change(claims)
	key, err := p.store.SigningKey(ctx)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key.Key(), KeyID: key.ID()}}, nil)
	if err != nil {
		return nil, err
	}
	if fields["id_token"], err = jwt.Signed(signer).Claims(claims).Serialize(); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
