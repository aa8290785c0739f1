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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keyring holds the keys by which tokens are verified, each under its kid. To
// rotate them an operator adds a file or a member of the set, and takes the old
// one away when its last token has expired.
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
			kid = r.config.KeyID // what an operator says goes before what a JWK says
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

// publicKey reads a JSON Web Key, with its kid if it has one, or what pemKey
// reads.
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

// usable returns a key with which we verify, and refuses what is weak or not
// meant for that.
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
