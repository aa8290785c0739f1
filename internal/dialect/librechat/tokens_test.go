package librechat

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/airlock-run/airlock/internal/engine"
)

const secret = "0123456789abcdef0123456789abcdef"

// sign makes a token like LibreChat; change modifies its claims.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, change func(claims map[string]any)) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	c := map[string]any{
		"iss": "librechat", "aud": "codeapi", "sub": "0123456789abcdef01234567", "jti": "j1", "iat": now, "nbf": now,
		"exp":              now + 300,
		"principal_source": "librechat_jwt", "auth_context_hash": "h", "tenant_id": "t1", "role": "USER",
	}
	if change != nil {
		change(c)
	}
	token, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func pemOf(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func jwkOf(t *testing.T, key any, kid string) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: kid})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const librechatTrust = `[{"issuer":"librechat","audiences":["codeapi"],"keyIds":["k"],"allowedAlgorithms":["EdDSA"],"principalSources":["librechat_jwt"]}]`

func edKey(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func newTokens(t *testing.T, c TokenConfig) *Tokens {
	t.Helper()
	tokens, err := NewTokens(c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestTokenSources(t *testing.T) {
	public, private := edKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for kid, key := range map[string]crypto.PublicKey{"one": public, "two": &rsaKey.PublicKey} {
		if err := os.WriteFile(filepath.Join(dir, kid+".pem"), []byte(pemOf(t, key)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: public, KeyID: "one", Use: "sig"}, {Key: &rsaKey.PublicKey, KeyID: "two"}}})
	if err != nil {
		t.Fatal(err)
	}
	onOneLine := strings.ReplaceAll(pemOf(t, public), "\n", `\n`)
	for name, test := range map[string]struct {
		config TokenConfig
		alg    jose.SignatureAlgorithm
		key    any
		kid    string
	}{
		"one PEM":         {TokenConfig{PublicKey: pemOf(t, public)}, jose.EdDSA, private, defaultKeyID},
		"PEM on one line": {TokenConfig{PublicKey: onOneLine, KeyID: "k"}, jose.EdDSA, private, "k"},
		"PEM in base64": {TokenConfig{PublicKey: base64.StdEncoding.EncodeToString([]byte(pemOf(t, public)))},
			jose.EdDSA, private, defaultKeyID},
		"RSA":                {TokenConfig{PublicKey: pemOf(t, &rsaKey.PublicKey)}, jose.RS256, rsaKey, defaultKeyID},
		"secret":             {TokenConfig{Secret: secret}, jose.HS256, []byte(secret), defaultKeyID},
		"directory, Ed25519": {TokenConfig{Directory: dir}, jose.EdDSA, private, "one"},
		"directory, RSA":     {TokenConfig{Directory: dir}, jose.RS256, rsaKey, "two"},
		"key set":            {TokenConfig{JWKS: string(set)}, jose.RS256, rsaKey, "two"},
		"JWK":                {TokenConfig{PublicKey: jwkOf(t, public, "")}, jose.EdDSA, private, defaultKeyID},
		"JWK with a kid":     {TokenConfig{PublicKey: jwkOf(t, public, "mine")}, jose.EdDSA, private, "mine"},
		"JWK, another kid": {TokenConfig{PublicKey: jwkOf(t, &rsaKey.PublicKey, "mine"), KeyID: "k"}, jose.RS256, rsaKey,
			"k"},
		"DER in base64": {TokenConfig{PublicKey: strings.Join(strings.Split(pemOf(t, public), "\n")[1:2], "")},
			jose.EdDSA, private, defaultKeyID},
		"secret's own kid": {TokenConfig{Secret: secret, SecretID: "hs", PublicKey: pemOf(t, public)}, jose.HS256,
			[]byte(secret), "hs"},
		"trust entries": {TokenConfig{PublicKey: pemOf(t, public), KeyID: "k", Trust: librechatTrust}, jose.EdDSA,
			private, "k"},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := newTokens(t, test.config)
			caller, err := tokens.Verify(sign(t, test.alg, test.key, test.kid, nil))
			if err != nil || caller.Owner != "jwt/t1/user/0123456789abcdef01234567" || caller.Key == "" {
				t.Fatalf("%+v, %v", caller, err)
			}
			if _, err := tokens.Verify(sign(t, test.alg, test.key, "other", nil)); engine.KindOf(err) != engine.ErrForbidden {
				t.Errorf("another kid: %v", err)
			}
			if _, err := tokens.Verify(sign(t, test.alg, test.key, "", nil)); err == nil {
				t.Error("no kid is good")
			}
			// The public key as an HMAC secret, a known attack.
			text := []byte(pemOf(t, public) + strings.Repeat(" ", 32))
			if _, err := tokens.Verify(sign(t, jose.HS256, text, test.kid, nil)); err == nil {
				t.Error("a token signed by the public key is good")
			}
		})
	}
}

func TestTokenClaims(t *testing.T) {
	public, private := edKey(t)
	now := time.Now().Unix()
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(map[string]any)
		strict bool
		owner  engine.Owner // empty: rejected
	}{
		"as they are":         {nil, true, "jwt/t1/user/0123456789abcdef01234567"},
		"a list of audiences": {set("aud", []string{"x", "codeapi"}), false, "jwt/t1/user/0123456789abcdef01234567"},
		"the other source":    {set("principal_source", "openid_reuse"), false, "jwt/t1/user/0123456789abcdef01234567"},
		"no tenant":           {set("tenant_id", nil), false, "jwt/legacy/user/0123456789abcdef01234567"},
		"names with slashes": {func(c map[string]any) { c["sub"], c["tenant_id"] = "a/b", "t/user/x" }, false,
			"jwt/t%2Fuser%2Fx/user/a%2Fb"},
		"a clock that is slow": {func(c map[string]any) { c["iat"], c["nbf"], c["exp"] = now+20, now+20, now+200 }, false,
			"jwt/t1/user/0123456789abcdef01234567"},
		"no tenant, strict": {set("tenant_id", nil), true, ""},
		"expired":           {func(c map[string]any) { c["iat"], c["exp"] = now-400, now-100 }, false, ""},
		"not yet":           {set("nbf", now+100), false, ""},
		"from the future":   {set("iat", now+100), false, ""},
		"lives too long":    {func(c map[string]any) { c["iat"], c["exp"] = now, now+301 }, false, ""},
		"no exp":            {set("exp", nil), false, ""},
		"no iat":            {set("iat", nil), false, ""},
		"no nbf":            {set("nbf", nil), false, ""},
		"another issuer":    {set("iss", "x"), false, ""},
		"another audience":  {set("aud", "x"), false, ""},
		"no audience":       {set("aud", nil), false, ""},
		"no subject":        {set("sub", nil), false, ""},
		"a blank subject":   {set("sub", " \t"), false, ""},
		"a blank jti":       {set("jti", " "), false, ""},
		"a blank context":   {set("auth_context_hash", " "), false, ""},
		"a blank tenant":    {set("tenant_id", " "), false, ""},
		"no life":           {set("exp", now), false, ""},
		"no jti":            {set("jti", nil), false, ""},
		"a long jti":        {set("jti", strings.Repeat("x", 257)), false, ""},
		"another source":    {set("principal_source", "me"), false, ""},
		"no context":        {set("auth_context_hash", nil), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := newTokens(t, TokenConfig{PublicKey: pemOf(t, public), Strict: test.strict})
			caller, err := tokens.Verify(sign(t, jose.EdDSA, private, defaultKeyID, test.change))
			if caller.Owner != test.owner || (err == nil) != (test.owner != "") {
				t.Errorf("%+v, %v", caller, err)
			}
		})
	}
	tokens := newTokens(t, TokenConfig{PublicKey: pemOf(t, public)})
	good := sign(t, jose.EdDSA, private, defaultKeyID, nil)
	_, other := edKey(t)
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"`+defaultKeyID+`"}`)) +
		good[strings.IndexByte(good, '.'):strings.LastIndexByte(good, '.')] + "."
	for name, token := range map[string]string{
		"another key": sign(t, jose.EdDSA, other, defaultKeyID, nil), "cut short": good[:len(good)-3],
		"no signature": unsigned, "nonsense": "a.b.c",
	} {
		if _, err := tokens.Verify(token); err == nil {
			t.Errorf("%s is good", name)
		}
	}
}

// Each issuer has its own keys, audiences, algorithms and sources.
func TestTrustEntries(t *testing.T) {
	public, private := edKey(t)
	other, otherKey := edKey(t)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: public, KeyID: "a"}, {Key: other, KeyID: "b"}, {Key: public}}})
	if err != nil {
		t.Fatal(err)
	}
	const both = `[{"issuer":"librechat","audiences":["codeapi","code2"],"keyIds":["a"],"allowedAlgorithms":["EdDSA"],"principalSources":["librechat_jwt"]},
		{"issuer":"school","audiences":["codeapi"],"keyIds":["b","hs"],"allowedAlgorithms":["EdDSA","HS256"],"principalSources":["external:school"]}]`
	tokens := newTokens(t, TokenConfig{JWKS: string(set), Secret: secret, SecretID: "hs", Trust: both})
	of := func(issuer, audience, source string) func(map[string]any) {
		return func(c map[string]any) { c["iss"], c["aud"], c["principal_source"] = issuer, audience, source }
	}
	for name, c := range map[string]struct {
		token string
		good  bool
	}{
		"the first":  {sign(t, jose.EdDSA, private, "a", of("librechat", "code2", "librechat_jwt")), true},
		"the second": {sign(t, jose.EdDSA, otherKey, "b", of("school", "codeapi", "external:school")), true},
		"the second, by secret": {sign(t, jose.HS256, []byte(secret), "hs", of("school", "codeapi", "external:school")),
			true},
		"the other's key":       {sign(t, jose.EdDSA, otherKey, "b", of("librechat", "codeapi", "librechat_jwt")), false},
		"the other's source":    {sign(t, jose.EdDSA, otherKey, "b", of("school", "codeapi", "librechat_jwt")), false},
		"the other's audience":  {sign(t, jose.EdDSA, otherKey, "b", of("school", "code2", "external:school")), false},
		"a source of no entry":  {sign(t, jose.EdDSA, private, "a", of("librechat", "codeapi", "openid_reuse")), false},
		"an issuer of no entry": {sign(t, jose.EdDSA, private, "a", of("other", "codeapi", "librechat_jwt")), false},
		"no issuer":             {sign(t, jose.EdDSA, private, "a", of("", "codeapi", "librechat_jwt")), false},
		"a key under its kid":   {sign(t, jose.EdDSA, otherKey, "a", of("librechat", "codeapi", "librechat_jwt")), false},
	} {
		if _, err := tokens.Verify(c.token); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	few := newTokens(t, TokenConfig{JWKS: string(set), Algorithms: "RS256"})
	if _, err := few.Verify(sign(t, jose.EdDSA, private, "a", nil)); err == nil {
		t.Error("an algorithm that is not allowed is good")
	}
	short := newTokens(t, TokenConfig{JWKS: string(set), MaxLife: time.Minute})
	if _, err := short.Verify(sign(t, jose.EdDSA, private, "a", nil)); err == nil {
		t.Error("a token that lives longer than allowed is good")
	}
	for name, c := range map[string]TokenConfig{
		"no JSON": {Trust: "x"}, "no list": {Trust: "{}"}, "an empty list": {Trust: "[]"}, "two lists": {Trust: both + both},
		"an unknown field":    {Trust: strings.Replace(both, `"issuer"`, `"admin":true,"issuer"`, 1)},
		"an issuer twice":     {Trust: strings.Replace(both, `"school"`, `"librechat"`, 1)},
		"a key twice":         {Trust: strings.Replace(both, `"b",`, `"a",`, 1)},
		"a key of no entry":   {Trust: strings.Replace(both, `"b",`, ``, 1)},
		"a key nobody has":    {Trust: strings.Replace(both, `["a"]`, `["a","z"]`, 1)},
		"a wrong algorithm":   {Trust: strings.Replace(both, `["EdDSA"]`, `["RS256"]`, 1)},
		"no such algorithm":   {Trust: strings.Replace(both, `["EdDSA"]`, `["EdDSA","none"]`, 1)},
		"no audience":         {Trust: strings.Replace(both, `["codeapi","code2"]`, `[]`, 1)},
		"no such source":      {Trust: strings.Replace(both, `external:school`, `external:none`, 1)},
		"an issuer beside it": {Trust: both, Issuer: "x"},
		"algorithms beside":   {Trust: both, Algorithms: "EdDSA"},
	} {
		c.JWKS, c.Secret, c.SecretID = string(set), secret, "hs"
		if _, err := NewTokens(c, time.Now); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := NewTokens(TokenConfig{JWKS: string(set), Algorithms: "none"}, time.Now); err == nil {
		t.Error("an unknown algorithm is taken")
	}
}

// Keys are added and removed while the service runs.
func TestTokenRotation(t *testing.T) {
	dir := t.TempDir()
	write := func(kid string) ed25519.PrivateKey {
		public, private := edKey(t)
		if err := os.WriteFile(filepath.Join(dir, kid+".pem"), []byte(pemOf(t, public)), 0o600); err != nil {
			t.Fatal(err)
		}
		return private
	}
	first := write("first")
	var ahead time.Duration
	tokens, err := NewTokens(TokenConfig{Directory: dir}, func() time.Time { return time.Now().Add(ahead) })
	if err != nil {
		t.Fatal(err)
	}
	later := func(c map[string]any) {
		for _, name := range []string{"iat", "nbf", "exp"} {
			c[name] = c[name].(int64) + int64(ahead/time.Second)
		}
	}
	good := func(key ed25519.PrivateKey, kid string) bool {
		_, err := tokens.Verify(sign(t, jose.EdDSA, key, kid, later))
		return err == nil
	}
	second := write("second")
	if !good(first, "first") || good(second, "second") {
		t.Error("the keys are read for every token")
	}
	ahead = keysFresh
	if !good(first, "first") || !good(second, "second") {
		t.Error("a new key does not count")
	}
	os.Remove(filepath.Join(dir, "first.pem"))
	ahead += keysFresh
	if good(first, "first") || !good(second, "second") {
		t.Error("an old key still counts")
	}
	os.Remove(filepath.Join(dir, "second.pem"))
	ahead += keysFresh
	if !good(second, "second") {
		t.Error("keys that cannot be read for a moment are lost")
	}
	ahead += keysStale
	if good(second, "second") {
		t.Error("keys that have been gone for long still count")
	}
	if good(second, "second") {
		t.Error("keys that have been gone for long count again until they are next read")
	}
}

func TestBadKeys(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // to be refused
	if err != nil {
		t.Skip(err)
	}
	_, private := edKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]TokenConfig{
		"no PEM": {PublicKey: "x"}, "weak RSA": {PublicKey: pemOf(t, &weak.PublicKey)}, "short secret": {Secret: "x"},
		"private key": {PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))},
		"private JWK": {PublicKey: jwkOf(t, private, "")}, "secret JWK": {PublicKey: jwkOf(t, []byte(secret), "")},
		"no JWK":          {PublicKey: "{}"},
		"empty directory": {Directory: t.TempDir()}, "empty set": {JWKS: `{"keys":[]}`}, "no file": {JWKS: "/nonexistent"},
		"two with one kid": {Secret: secret, PublicKey: pemOf(t, private.Public())},
	} {
		if _, err := NewTokens(c, time.Now); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestKeys(t *testing.T) {
	public, private := edKey(t)
	keys := &Keys{Tokens: newTokens(t, TokenConfig{PublicKey: pemOf(t, public)}), Static: "static", Others: authenticate}
	for token, owner := range map[string]engine.Owner{
		"static": StaticOwner, aliceKey: "alice", sign(t, jose.EdDSA, private, defaultKeyID,
			nil): "jwt/t1/user/0123456789abcdef01234567",
		"Static": "", "": "", "x.y.z": "",
	} {
		caller, err := keys.Authenticate(context.Background(), token)
		if caller.Owner != owner || (err == nil) != (owner != "") {
			t.Errorf("%.20q: %+v, %v", token, caller, err)
		}
	}
	if _, err := (&Keys{Others: authenticate}).Authenticate(context.Background(), ""); err == nil {
		t.Error("no key is good where there is none")
	}
}
