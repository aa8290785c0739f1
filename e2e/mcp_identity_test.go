package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// identityProvider signs tokens, and publishes the key.
func identityProvider(t *testing.T) (issuer string, token func(subject, audience, scope string) string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	answer := func(path string, body any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(body) })
	}
	answer("/.well-known/openid-configuration", map[string]string{"issuer": server.URL, "jwks_uri": server.URL + "/keys"})
	answer("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}})
	return server.URL, func(subject, audience, scope string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}},
			(&jose.SignerOptions{}).WithType("at+jwt"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": server.URL, "sub": subject, "aud": audience, "scope": scope, "exp": time.Now().Add(time.Hour).Unix(),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A client without a key is told where to get a token, and with one it works: as an
// owner of its own, at /mcp alone.
func TestMCPIdentityProvider(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	const public = "https://airlock.example.com"
	issuer, token := identityProvider(t)
	data := dataFolder(t, who)
	s := serveWith(t, who, data, []string{"AIRLOCK_PUBLIC_URL=" + public, "AIRLOCK_MCP_OAUTH_ISSUER=" + issuer})
	ask := func(method, path, token string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	resp, _ := ask("POST", "/mcp", "")
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil || resp.StatusCode != 401 || len(challenges) != 1 ||
		challenges[0].Params["resource_metadata"] != public+"/.well-known/oauth-protected-resource/mcp" {
		t.Errorf("without a token: %d %v, %v", resp.StatusCode, challenges, err)
	}
	var about oauthex.ProtectedResourceMetadata
	resp, body := ask("GET", "/.well-known/oauth-protected-resource/mcp", "")
	if err := json.Unmarshal([]byte(body), &about); err != nil || about.Resource != public+"/mcp" ||
		len(about.AuthorizationServers) != 1 || about.AuthorizationServers[0] != issuer ||
		resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the document: %s, %v", body, err)
	}
	if resp, body = ask("POST", "/mcp", token("ada", public+"/mcp", "openid")); resp.StatusCode != 403 ||
		!strings.Contains(resp.Header.Get("WWW-Authenticate"), "insufficient_scope") {
		t.Errorf("without the scope: %d %s", resp.StatusCode, body)
	}
	if resp, body = ask("GET", "/api/v1/sessions", token("ada", public+"/mcp", "airlock")); resp.StatusCode != 401 {
		t.Errorf("at the native API: %d %s", resp.StatusCode, body)
	}
	as := func(subject string) *agent {
		return newAgent(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp",
			HTTPClient: &http.Client{Transport: bearer(token(subject, public+"/mcp", "airlock"))}}, nil)
	}
	ada, bob := as("ada"), as("bob")
	first, _ := ada.call("run_code", map[string]any{"code": "x=42", "language": "bash"})
	again := map[string]any{"code": "echo $x", "language": "bash", "session": sessionHandle.FindString(first)}
	if got, _ := bob.call("run_code", again); !strings.HasPrefix(got, "there is no session") {
		t.Errorf("another subject: %q", got)
	}
	if got, _ := as("ada").call("run_code", again); !strings.HasSuffix(got, "\n42\n") {
		t.Errorf("the same subject later: %q", got)
	}
	s.stop()
	if status := who.command(t, []string{"AIRLOCK_MCP_OAUTH_ISSUER=" + issuer}, "serve", "--data", data, "--listen",
		"127.0.0.1:0").Run(); status == nil || !strings.Contains(status.Error(), "exit status 2") {
		t.Errorf("without public_url: %v", status)
	}
	plain := serve(t, who, data)
	resp, err = http.Get(plain.url + "/.well-known/oauth-protected-resource/mcp")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("without an issuer there is a document: %d", resp.StatusCode)
	}
}
