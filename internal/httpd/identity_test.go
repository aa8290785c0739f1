package httpd

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// provider is an identity provider that publishes its keys.
type provider struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched atomic.Int64 // sets of keys
	broken  bool
	issuer  string // its reported issuer; empty: the real one
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		about := map[string]string{"issuer": cmp.Or(p.issuer, p.URL), "jwks_uri": p.URL + "/keys"}
		_ = json.NewEncoder(w).Encode(about)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.fetched.Add(1)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.broken {
			http.Error(w, "out of order", http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// publish replaces the published keys.
func (p *provider) publish(keys map[string]crypto.Signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = nil
	for id, key := range keys {
		p.keys = append(p.keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
	}
}

const (
	testResource = "https://airlock.example.com/mcp"
	testMetadata = "https://airlock.example.com/.well-known/oauth-protected-resource/mcp"
)

// claimsOf returns the claims of a valid token, with some of them changed; nil omits one.
func (p *provider) claimsOf(change map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "sub": "ada", "aud": testResource, "scope": "openid airlock", "client_id": "host",
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id, typ string, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func newRSA(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// door serves a mount that accepts a provider's tokens, and returns a function that sends a
// token and returns the answer.
func door(t *testing.T, p *provider, clock func() time.Time) func(token string) (status int, challenge, body string) {
	t.Helper()
	identity, err := NewIdentity(IdentityOptions{
		Issuer: p.URL, Resource: testResource, Scope: "airlock", Client: p.Client(), Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, address := start(t, Options{Mounts: []Mount{{Prefix: "/mcp", Handler: dialect(), Identity: identity}},
		Engine: &fakeEngine{}})
	return func(token string) (int, string, string) {
		header := ""
		if token != "" {
			header = "Authorization: Bearer " + token
		}
		resp, body := request(t, "POST", address+"/mcp/x", header, "")
		return resp.StatusCode, resp.Header.Get("WWW-Authenticate"), body
	}
}

func TestIdentityTokens(t *testing.T) {
	p := newProvider(t)
	key, small := newRSA(t, 2048), newRSA(t, 1024)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	p.publish(map[string]crypto.Signer{"rsa": key, "ec": curve, "ed": edwards, "small": small})
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	unsigned := func(head string) string {
		claims, _ := json.Marshal(p.claimsOf(nil))
		return base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString(claims) + "."
	}
	good := func(change map[string]any) string {
		return sign(t, jose.RS256, key, "rsa", "at+jwt", p.claimsOf(change))
	}
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	ask := door(t, p, nil)
	owners := map[string]bool{}
	for name, token := range map[string]string{
		"RSA": good(nil), "EC": sign(t, jose.ES256, curve, "ec", "JWT", p.claimsOf(nil)),
		"Ed25519": sign(t, jose.EdDSA, edwards, "ed", "application/at+jwt", p.claimsOf(nil)),
		"PSS":     sign(t, jose.PS512, key, "rsa", "", p.claimsOf(nil)), "a list of audiences": good(map[string]any{
			"aud": []string{"account", testResource}}),
		"scp":             good(map[string]any{"scope": nil, "scp": []string{"airlock"}}),
		"within the skew": good(map[string]any{"exp": in(-20 * time.Second), "nbf": in(20 * time.Second)}),
	} {
		status, _, body := ask(token)
		if status != 200 || !strings.Contains(body, "owner=oauth-") || !strings.Contains(body, "admin=false") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		owners[strings.Fields(body)[0]] = true
	}
	if len(owners) != 1 {
		t.Errorf("one subject is %v", owners)
	}
	if _, _, body := ask(good(map[string]any{"sub": "bob"})); owners[strings.Fields(body)[0]] {
		t.Errorf("another subject is the same owner: %s", body)
	}
	for name, bad := range map[string]struct{ token, says string }{
		"alg none":          {unsigned(`{"alg":"none","kid":"rsa"}`), "no JWT"},
		"alg None":          {unsigned(`{"alg":"None"}`), "no JWT"},
		"HS with the key":   {sign(t, jose.HS256, public, "rsa", "JWT", p.claimsOf(nil)), "no JWT"},
		"another audience":  {good(map[string]any{"aud": "https://other.example.com/mcp"}), "another resource"},
		"the whole service": {good(map[string]any{"aud": "https://airlock.example.com"}), "another resource"},
		"no audience":       {good(map[string]any{"aud": nil}), "another resource"},
		"expired":           {good(map[string]any{"exp": in(-40 * time.Second)}), "expired"},
		"without an end":    {good(map[string]any{"exp": nil}), "exp is missing"},
		"not yet":           {good(map[string]any{"nbf": in(time.Minute)}), "not valid yet"},
		"of tomorrow":       {good(map[string]any{"iat": in(time.Hour)}), "not valid yet"},
		"another issuer":    {good(map[string]any{"iss": "https://evil.example.com"}), "another issuer"},
		"no subject":        {good(map[string]any{"sub": " "}), "sub is missing"},
		"an unknown key":    {sign(t, jose.RS256, newRSA(t, 2048), "new", "JWT", p.claimsOf(nil)), "no such key"},
		"another's key":     {sign(t, jose.RS256, newRSA(t, 2048), "rsa", "JWT", p.claimsOf(nil)), "signature"},
		"a weak key":        {sign(t, jose.RS256, small, "small", "JWT", p.claimsOf(nil)), "no such key"},
		"an ID token":       {sign(t, jose.RS256, key, "rsa", "logout+jwt", p.claimsOf(nil)), "no access token"},
		"another algorithm": {sign(t, jose.ES256, curve, "rsa", "JWT", p.claimsOf(nil)), "signature"},
		"a changed claim":   {tamper(good(nil)), "signature"},
		"no JSON inside":    {"eyJh.eyJh.eyJh", "no JWT"},
	} {
		status, challenge, body := ask(bad.token)
		if status != 401 || !strings.Contains(challenge, bad.says) ||
			!strings.Contains(challenge, `resource_metadata="`+testMetadata+`"`) ||
			!strings.Contains(challenge, `error="invalid_token"`) {
			t.Errorf("%s: %d %s %s", name, status, challenge, body)
		}
	}
	status, challenge, _ := ask(good(map[string]any{"scope": "openid airlock2"}))
	if status != 403 || !strings.Contains(challenge, `error="insufficient_scope"`) ||
		!strings.Contains(challenge, `scope="airlock"`) {
		t.Errorf("without the scope: %d %s", status, challenge)
	}
	// Without a credential a client learns where to get one, and no error.
	status, challenge, _ = ask("")
	if status != 401 || !strings.HasPrefix(challenge, `Bearer realm="airlock"`) || strings.Contains(challenge, "error=") ||
		!strings.Contains(challenge, testMetadata) {
		t.Errorf("without anything: %d %s", status, challenge)
	}
	if status, _, body := ask(aliceKey); status != 200 || !strings.Contains(body, "owner=alice ") {
		t.Errorf("a key: %d %s", status, body)
	}
}

// tamper changes a letter of a token's claims.
func tamper(token string) string {
	parts := strings.Split(token, ".")
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), `"ada"`, `"bob"`, 1)))
	return strings.Join(parts, ".")
}

// A new key is valid at once, and a withdrawn key is not. If the provider is down, known
// keys stay valid. Invented key ids do not cause requests to the provider.
func TestIdentityKeysRotate(t *testing.T) {
	p := newProvider(t)
	first, second := newRSA(t, 2048), newRSA(t, 2048)
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	later := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	ask := door(t, p, clock)
	token := func(id string, key *rsa.PrivateKey) string {
		at := clock()
		return sign(t, jose.RS256, key, id, "JWT", p.claimsOf(map[string]any{
			"iat": at.Unix(), "exp": at.Add(5 * time.Minute).Unix()}))
	}
	want := func(what, token string, status int, fetched int64) {
		t.Helper()
		if got, challenge, body := ask(token); got != status || p.fetched.Load() != fetched {
			t.Errorf("%s: %d after %d fetches, want %d after %d: %s %s", what, got, p.fetched.Load(), status, fetched,
				challenge, body)
		}
	}
	p.broken = true
	want("a provider that is down from the start", token("first", first), 503, 1)
	p.mu.Lock()
	p.broken = false
	p.mu.Unlock()
	p.publish(map[string]crypto.Signer{"first": first})
	want("asked again too soon", token("first", first), 503, 1)
	later(keysPause)
	for range 3 {
		want("the first key", token("first", first), 200, 2)
	}
	for range 3 {
		want("made-up keys", token("second", second), 401, 2)
	}
	p.publish(map[string]crypto.Signer{"first": first, "second": second})
	later(keysPause)
	want("a new key", token("second", second), 200, 3)
	p.publish(map[string]crypto.Signer{"second": second})
	want("a withdrawn key, for now", token("first", first), 200, 3)
	later(keysFresh)
	want("a withdrawn key", token("first", first), 401, 4)
	p.mu.Lock()
	p.broken = true
	p.mu.Unlock()
	later(keysFresh)
	want("a provider that is down", token("second", second), 200, 5)
	later(keysStale)
	want("for long", token("second", second), 503, 6)
	p.mu.Lock()
	p.broken, p.issuer = false, "https://other.example.com"
	p.mu.Unlock()
	later(keysPause)
	want("one that speaks for another", token("second", second), 503, 6)
}
