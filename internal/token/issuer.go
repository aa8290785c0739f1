package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an identity provider that publishes its keys.
type Issuer struct {
	URL    string // https://id.example.com, as tokens spell it
	Client *http.Client
}

const (
	issuerTime  = 10 * time.Second // for all requests
	maxDocument = 1 << 20
)

// Keys fetches the public keys for signatures.
func (i *Issuer) Keys(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTime)
	defer cancel()
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	var failed []error
	for _, document := range issuerDocuments(i.URL) {
		err := i.get(ctx, document, &about)
		if err == nil {
			failed = nil
			break
		}
		failed = append(failed, err)
	}
	if failed != nil {
		return nil, errors.Join(failed...)
	}
	if about.Issuer != i.URL { // an issuer must not publish keys of another
		return nil, fmt.Errorf("it says of itself that it is %q", about.Issuer)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.get(ctx, about.Keys, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && verifies(&key) { // keys of other kinds are skipped
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key for signatures in " + about.Keys)
	}
	return keys, nil
}

// verifies reports whether signatures can be verified with a key. A published secret cannot.
func verifies(key *jose.JSONWebKey) bool {
	return !weak(key.Key) && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig")
}

func (i *Issuer) get(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := i.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", address, maxDocument)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// issuerDocuments returns the addresses of an issuer's metadata, by OpenID Connect and by
// RFC 8414.
func issuerDocuments(issuer string) []string {
	at := strings.TrimSuffix(issuer, "/")
	documents := []string{at + "/.well-known/openid-configuration"}
	if u, err := url.Parse(at); err == nil {
		u.Path = "/.well-known/oauth-authorization-server" + u.Path
		documents = append(documents, u.String())
	}
	return documents
}
