package token

import (
	"bytes"
	"cmp"
	"context"
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

	"github.com/go-jose/go-jose/v4"
)

// Local has keys in settings and files, which are read again: to rotate keys an operator adds
// a file or a member of the set, and removes the old one when its last token has expired.
// The sources add up.
type Local struct {
	PublicKey string // PEM or JWK, Ed25519 or RSA; line ends may be written \n
	Secret    string // for HS256
	KeyID     string // id of PublicKey and Secret; empty: that in the JWK, else DefaultID
	SecretID  string // of Secret alone; empty: KeyID
	DefaultID string
	Directory string // directory of public keys called <kid>.pem
	JWKS      string // a JSON Web Key Set, or the name of a file with one
}

const (
	maxKeyFile   = 64 << 10
	maxKeySet    = 1 << 20
	minSecret    = 32
	maxDirectory = 256
)

// Empty reports whether there is no source of keys.
func (l *Local) Empty() bool {
	return l.PublicKey == "" && l.Secret == "" && l.Directory == "" && l.JWKS == ""
}

// Keys reads all sources. Each key has an id of its own.
func (l *Local) Keys(context.Context) ([]jose.JSONWebKey, error) {
	var keys []jose.JSONWebKey
	add := func(kid string, key any, err error) error {
		switch {
		case err != nil:
			return err
		case kid == "":
			return errors.New("a key without a kid")
		case slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == kid }):
			return fmt.Errorf("two keys with the kid %q", kid)
		}
		keys = append(keys, jose.JSONWebKey{KeyID: kid, Key: key})
		return nil
	}
	if l.PublicKey != "" {
		key, kid, err := publicKey([]byte(l.PublicKey))
		if err := add(cmp.Or(l.KeyID, kid, l.DefaultID), key, err); err != nil {
			return nil, fmt.Errorf("JWT public key: %w", err)
		}
	}
	if l.Secret != "" {
		key, err := secretKey(l.Secret)
		if err := add(cmp.Or(l.SecretID, l.KeyID, l.DefaultID), key, err); err != nil {
			return nil, fmt.Errorf("JWT secret: %w", err)
		}
	}
	if l.Directory != "" {
		if err := directoryKeys(l.Directory, add); err != nil {
			return nil, fmt.Errorf("JWT key directory: %w", err)
		}
	}
	if l.JWKS != "" {
		if err := setKeys(l.JWKS, add); err != nil {
			return nil, fmt.Errorf("JWT key set: %w", err)
		}
	}
	return keys, nil
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
		if weak(k) {
			return nil, fmt.Errorf("an RSA key of %d bits is too short", k.N.BitLen())
		}
		return k, nil
	case []byte:
		return secretKey(string(k))
	}
	return nil, errors.New("only Ed25519 and RSA public keys, and secrets, are taken")
}

// Algorithm returns the algorithm of a key: never the token determines it.
func Algorithm(key any) jose.SignatureAlgorithm {
	switch key.(type) {
	case ed25519.PublicKey:
		return jose.EdDSA
	case *rsa.PublicKey:
		return jose.RS256
	}
	return jose.HS256
}
