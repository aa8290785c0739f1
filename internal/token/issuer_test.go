package token

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func TestIssuerKeys(t *testing.T) {
	public, private := newEd(t)
	good := jose.JSONWebKey{Key: public, KeyID: "k", Use: "sig"}
	unknown := json.RawMessage(`{"kty":"new","kid":"k"}`)
	const openID = "/.well-known/openid-configuration"
	for name, c := range map[string]struct {
		at     string // the path of the metadata
		issuer string // as it says; "": as it is
		keys   []any
		size   int // of blanks behind the keys
		want   int // keys
		err    string
	}{
		"OpenID Connect":              {at: openID, keys: []any{good}, want: 1},
		"RFC 8414":                    {at: "/.well-known/oauth-authorization-server", keys: []any{good}, want: 1},
		"another issuer":              {at: openID, issuer: "https://evil.test", keys: []any{good}, err: "says of itself"},
		"no metadata":                 {at: "/elsewhere", keys: []any{good}, err: "404"},
		"a key of a kind of tomorrow": {at: openID, keys: []any{unknown, good}, want: 1},
		"a secret": {at: openID, keys: []any{jose.JSONWebKey{Key: []byte(secret), KeyID: "s"}},
			err: "no public key"},
		"a private key": {at: openID, keys: []any{jose.JSONWebKey{Key: private, KeyID: "p"}},
			err: "no public key"},
		"a short RSA key": {at: openID, keys: []any{jose.JSONWebKey{Key: weakRSA(), KeyID: "w"}},
			err: "no public key"},
		"a key for encryption": {at: openID, keys: []any{jose.JSONWebKey{Key: public, KeyID: "e", Use: "enc"}},
			err: "no public key"},
		"no key":   {at: openID, keys: []any{}, err: "no public key"},
		"too long": {at: openID, keys: []any{good}, size: maxDocument, err: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case c.at:
					issuer := c.issuer
					if issuer == "" {
						issuer = server.URL
					}
					_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer, "jwks_uri": server.URL + "/keys"})
				case "/keys":
					_ = json.NewEncoder(w).Encode(map[string]any{"keys": c.keys})
					_, _ = w.Write([]byte(strings.Repeat(" ", c.size)))
				default:
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			keys, err := (&Issuer{URL: server.URL, Client: server.Client()}).Keys(t.Context())
			switch {
			case c.err == "" && (err != nil || len(keys) != c.want):
				t.Errorf("%d keys, %v, want %d", len(keys), err, c.want)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%d keys, error %v, want %q", len(keys), err, c.err)
			}
		})
	}
}
