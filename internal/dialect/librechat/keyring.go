package librechat

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keyring holds the keys that verify tokens, by kid. To rotate them an operator adds a file or a
// member of the set, and removes the old one when its last token has expired.
type keyring struct {
	config TokenConfig
	trusts []trust
	now    func() time.Time

	mu     sync.Mutex
	keys   map[string]any // ed25519.PublicKey, *rsa.PublicKey or []byte
	loaded time.Time      // when the sources were last read well
	tried  time.Time
}

// How long keys count after they were read: when they are read again, and when
// they are discarded, should that fail.
const (
	keysFresh = 30 * time.Second
	keysStale = 300 * time.Second
)

const (
	maxKeyFile   = 64 << 10
	maxKeySet    = 1 << 20
	minSecret    = 32
	minRSA       = 2048
	maxDirectory = 256
)

func newKeyring(c TokenConfig, entries []trust, now func() time.Time) (*keyring, error) {
	r := &keyring{config: c, trusts: entries, now: now}
	keys, err := r.load()
	if err != nil {
		return nil, err
	}
	r.keys, r.loaded, r.tried = keys, now(), now()
	return r, nil
}

// find returns the key of that kid.
func (r *keyring) find(kid string) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.tried) >= keysFresh {
		r.tried = now
		if keys, err := r.load(); err == nil {
			r.keys, r.loaded = keys, now
		} else if now.Sub(r.loaded) >= keysStale {
			return nil, fmt.Errorf("the keys cannot be read: %w", err)
		}
	}
	key, ok := r.keys[kid]
	if !ok {
		return nil, errors.New("its kid is not known")
	}
	return key, nil
}

// load reads all sources.
func (r *keyring) load() (map[string]any, error) {
	keys := map[string]any{}
	add := func(kid string, key any, err error) error {
		switch {
		case err != nil:
			return err
		case kid == "":
			return errors.New("a key without a kid")
		case keys[kid] != nil:
			return fmt.Errorf("two keys with the kid %q", kid)
		}
		keys[kid] = key
		return nil
	}
	if r.config.PublicKey != "" {
		key, kid, err := publicKey([]byte(r.config.PublicKey))
		if r.config.KeyID != defaultKeyID || kid == "" {
			kid = r.config.KeyID // the operator's setting takes precedence over the JWK
		}
		if err := add(kid, key, err); err != nil {
			return nil, fmt.Errorf("JWT public key: %w", err)
		}
	}
	if r.config.Secret != "" {
		key, err := secretKey(r.config.Secret)
		if err := add(cmp.Or(r.config.SecretID, r.config.KeyID), key, err); err != nil {
			return nil, fmt.Errorf("JWT secret: %w", err)
		}
	}
	if r.config.Directory != "" {
		if err := directoryKeys(r.config.Directory, add); err != nil {
			return nil, fmt.Errorf("JWT key directory: %w", err)
		}
	}
	if r.config.JWKS != "" {
		if err := setKeys(r.config.JWKS, add); err != nil {
			return nil, fmt.Errorf("JWT key set: %w", err)
		}
	}
	return keys, checkKeys(r.trusts, keys)
}

// directoryKeys reads the files of a directory, each named after its kid.
func directoryKeys(dir string, add func(kid string, key any, err error) error) error {
	names, err := filepath.Glob(filepath.Join(dir, "[^.]*")) // mounted secrets have folders that begin with dots
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	})
	if len(names) == 0 || len(names) > maxDirectory {
		return fmt.Errorf("%s has %d files; 1 to %d are expected", dir, len(names), maxDirectory)
	}
	for _, name := range names {
		text, err := readBounded(name, maxKeyFile)
		if err != nil {
			return err
		}
		base := filepath.Base(name)
		key, _, err := publicKey(text)
		if err := add(strings.TrimSuffix(base, filepath.Ext(base)), key, err); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// setKeys reads a JSON Web Key Set from a text, or from the file that it names.
func setKeys(source string, add func(kid string, key any, err error) error) error {
	text := []byte(source)
	if !strings.HasPrefix(strings.TrimSpace(source), "{") {
		var err error
		if text, err = readBounded(source, maxKeySet); err != nil {
			return err
		}
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return err
	}
	// The official server passes over keys without a kid.
	set.Keys = slices.DeleteFunc(set.Keys, func(k jose.JSONWebKey) bool { return k.KeyID == "" })
	if len(set.Keys) == 0 {
		return errors.New("it holds no key with a kid")
	}
	for _, jwk := range set.Keys {
		key, err := usable(jwk.Key)
		if jwk.Use != "" && jwk.Use != "sig" {
			err = fmt.Errorf("the key %q is not for signatures", jwk.KeyID)
		}
		if err := add(jwk.KeyID, key, err); err != nil {
			return err
		}
	}
	return nil
}

func readBounded(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, most)
	}
	return os.ReadFile(name)
}

// publicKey reads a JSON Web Key, with its kid if it has one, or a key in PEM.
func publicKey(text []byte) (key any, kid string, err error) {
	text = bytes.TrimSpace(bytes.ReplaceAll(text, []byte(`\n`), []byte("\n")))
	if !bytes.HasPrefix(text, []byte("{")) {
		key, err := pemKey(text)
		return key, "", err
	}
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(text, &jwk); err != nil {
		return nil, "", errors.New("it is not a JSON Web Key")
	}
	if !jwk.IsPublic() {
		return nil, "", errors.New("it is a private or a secret key: here belongs the public one")
	}
	key, err = usable(jwk.Key)
	return key, jwk.KeyID, err
}

// pemKey reads a PEM block, or the base64 of one or of its content.
func pemKey(text []byte) (any, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		raw, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			return nil, errors.New("it is neither PEM nor a JSON Web Key")
		}
		if block, _ = pem.Decode(raw); block == nil {
			block = &pem.Block{Type: "PUBLIC KEY", Bytes: raw}
		}
	}
	if strings.Contains(block.Type, "PRIVATE") {
		return nil, errors.New("it is a private key: here belongs the public one")
	}
	if block.Type == "CERTIFICATE" {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return usable(cert.PublicKey)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	return usable(key)
}

func secretKey(secret string) (any, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("it has %d bytes; at least %d are needed", len(secret), minSecret)
	}
	return []byte(secret), nil
}

// usable returns a key for verification, and refuses weak keys and other types.
func usable(key any) (any, error) {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return k, nil
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, fmt.Errorf("an RSA key of %d bits is too short", k.N.BitLen())
		}
		return k, nil
	case []byte:
		return secretKey(string(k))
	}
	return nil, errors.New("only Ed25519 and RSA public keys, and secrets, are taken")
}

func algorithmOf(key any) jose.SignatureAlgorithm {
	switch key.(type) {
	case ed25519.PublicKey:
		return jose.EdDSA
	case *rsa.PublicKey:
		return jose.RS256
	}
	return jose.HS256
}

// trust lists the accepted properties of an issuer's tokens. The names are those of the
// official server's CODEAPI_JWT_TRUST_ENTRIES_JSON.
type trust struct {
	Issuer     string   `json:"issuer"`
	Audiences  []string `json:"audiences"`
	KeyIDs     []string `json:"keyIds"`
	Algorithms []string `json:"allowedAlgorithms"`
	Sources    []string `json:"principalSources"`

	anyKey bool // accept any configured key
}

// sources are the sources of LibreChat's own tokens.
var sources = []string{"librechat_jwt", "openid_reuse"}

// external is a source of another application's tokens.
var external = regexp.MustCompile(`^external:[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// trusts returns the entries of a configuration: its table, or one for all of its keys.
func trusts(c TokenConfig) ([]trust, error) {
	algorithms, err := splitAlgorithms(c.Algorithms)
	if err != nil {
		return nil, err
	}
	if c.Trust == "" {
		return []trust{{
			Issuer: c.Issuer, Audiences: []string{c.Audience}, Algorithms: algorithms, Sources: sources, anyKey: true,
		}}, nil
	}
	if c.Issuer != defaultIssuer || c.Audience != defaultAudience || c.Algorithms != "" {
		return nil, errors.New("the trust entries name issuers, audiences and algorithms: these cannot be set beside them")
	}
	entries, err := parseTrust(c.Trust)
	if err != nil {
		return nil, fmt.Errorf("trust entries: %w", err)
	}
	return entries, nil
}

func splitAlgorithms(list string) ([]string, error) {
	if list == "" {
		return []string{string(jose.EdDSA), string(jose.RS256), string(jose.HS256)}, nil // each key has its own
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names, checkList("the algorithms", names, isAlgorithm)
}

func isAlgorithm(name string) bool {
	return slices.Contains([]jose.SignatureAlgorithm{jose.EdDSA, jose.RS256, jose.HS256}, jose.SignatureAlgorithm(name))
}

func isSource(name string) bool {
	return slices.Contains(sources, name) ||
		external.MatchString(name) && !slices.Contains([]string{
			"external:synthetic_test", "external:none", "external:api_key"}, name)
}

// parseTrust parses the table. Any mistake in it is an error, because a partly parsed table
// would trust too much.
func parseTrust(text string) ([]trust, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	var entries []trust
	if err := decoder.Decode(&entries); err != nil {
		return nil, err
	}
	if len(entries) == 0 || decoder.More() {
		return nil, errors.New("they must be one list with at least one entry")
	}
	issuers, kids := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if e.Issuer == "" || e.Issuer != strings.TrimSpace(e.Issuer) || issuers[e.Issuer] {
			return nil, fmt.Errorf("the issuer %q is empty, has space around it, or is there twice", e.Issuer)
		}
		issuers[e.Issuer] = true
		named := func(string) bool { return true }
		if err := cmp.Or(
			checkList("audiences", e.Audiences, named), checkList("keyIds", e.KeyIDs, named),
			checkList("allowedAlgorithms", e.Algorithms, isAlgorithm), checkList("principalSources", e.Sources, isSource),
		); err != nil {
			return nil, fmt.Errorf("issuer %q: %w", e.Issuer, err)
		}
		for _, kid := range e.KeyIDs {
			if kids[kid] {
				return nil, fmt.Errorf("the key %q is in two entries", kid)
			}
			kids[kid] = true
		}
	}
	return entries, nil
}

// checkList refuses a list that is empty, or has an element twice or an invalid one.
func checkList(what string, list []string, good func(string) bool) error {
	if len(list) == 0 {
		return fmt.Errorf("%s must not be empty", what)
	}
	for i, item := range list {
		if item == "" || item != strings.TrimSpace(item) || !good(item) || slices.Contains(list[:i], item) {
			return fmt.Errorf("%s: %q is not known, or is there twice", what, item)
		}
	}
	return nil
}

// checkKeys rejects entries without keys and keys without entries. An unused key is a
// configuration mistake.
func checkKeys(entries []trust, keys map[string]any) error {
	named := map[string]bool{}
	for _, e := range entries {
		if e.anyKey {
			return nil
		}
		for _, kid := range e.KeyIDs {
			key, ok := keys[kid]
			if !ok {
				return fmt.Errorf("trust entries: the issuer %q names the key %q, which is not configured", e.Issuer, kid)
			}
			if alg := string(algorithmOf(key)); !slices.Contains(e.Algorithms, alg) {
				return fmt.Errorf("trust entries: the key %q is for %s, which the issuer %q may not use", kid, alg, e.Issuer)
			}
			named[kid] = true
		}
	}
	for kid := range keys {
		if !named[kid] {
			return fmt.Errorf("trust entries: no issuer has the key %q", kid)
		}
	}
	return nil
}
