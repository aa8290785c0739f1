package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// A token is "ak_", the public id of its key, "_", and 256 random bits.
const (
	tokenPrefix  = "ak_"
	keyIDLength  = 12
	secretBytes  = 32
	tokenLength  = len(tokenPrefix) + keyIDLength + 1 + 43
	maxOwnerName = 64
)

// Authenticate returns the caller whose token it is, else ErrUnauthorized. It
// compares hashes in constant time, also when there is no such key.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	const op = "authenticate"
	refused := &Error{Op: op, Kind: ErrUnauthorized, Hint: "Send a valid key."}
	id, ok := keyIDOf(token)
	if !ok {
		return Caller{}, refused
	}
	key, err := s.index.Key(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Caller{}, failure(op, "", err)
	}
	hash := sha256.Sum256([]byte(token))
	match := subtle.ConstantTimeCompare(hash[:], key.Hash[:]) == 1
	if err != nil || !match || !key.RevokedAt.IsZero() {
		return Caller{}, refused
	}
	return Caller{Owner: key.Owner, Key: key.ID, Admin: key.Admin, Packages: key.Packages, Network: key.Network}, nil
}

// keyIDOf returns the public part of a token that has the right form.
func keyIDOf(token string) (string, bool) {
	if len(token) != tokenLength || !strings.HasPrefix(token, tokenPrefix) {
		return "", false
	}
	id, rest := token[len(tokenPrefix):][:keyIDLength], token[len(tokenPrefix)+keyIDLength:]
	if rest[0] != '_' || strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune(keyAlphabet, r) }) {
		return "", false
	}
	return id, true
}

const keyAlphabet = "abcdefghijkmnopqrstuvwxyz23456789" // without characters that are easily misread

// CreateKey makes a key for an owner and returns it with its token, which is
// kept nowhere. The caller must be an admin.
func (s *Service) CreateKey(ctx context.Context, caller Caller, wanted NewKey) (Key, string, error) {
	const op = "create key"
	owner, packages := wanted.Owner, wanted.Packages
	if err := adminOnly(op, caller); err != nil {
		return Key{}, "", err
	}
	if owner == "" || len(owner) > maxOwnerName || strings.ContainsFunc(string(owner), func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`/\"'<>&`, r)
	}) {
		return Key{}, "", Invalid("owner", "must have 1 to %d printable ASCII characters, without spaces, slashes and quotes",
			maxOwnerName)
	}
	if packages != "" && !slices.Contains(language.PackageSets(), packages) {
		return Key{}, "", missingSet(packages, nil)
	}
	if _, err := ParseNetworkRules(wanted.Network); err != nil {
		return Key{}, "", Invalid("network", "%v", err)
	}
	var secret [secretBytes]byte
	rand.Read(secret[:])
	key := Key{ID: RandomText(keyAlphabet, keyIDLength), Owner: owner, Admin: wanted.Admin, CreatedAt: s.now(),
		Packages: packages, Network: strings.Join(wanted.Network, ",")}
	token := tokenPrefix + key.ID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	key.Hash = sha256.Sum256([]byte(token))
	if err := s.index.AddKey(ctx, key); err != nil {
		return Key{}, "", failure(op, "", err)
	}
	s.meter.keys.Add(1)
	return key, token, nil
}

// ListKeys returns every key, revoked ones too. The caller must be an admin.
func (s *Service) ListKeys(ctx context.Context, caller Caller) ([]Key, error) {
	const op = "list keys"
	if err := adminOnly(op, caller); err != nil {
		return nil, err
	}
	keys, err := s.index.Keys(ctx)
	return keys, failure(op, "", err)
}

// RevokeKey ends a key. The caller must be an admin. Revoking twice is fine.
func (s *Service) RevokeKey(ctx context.Context, caller Caller, id string) error {
	const op = "revoke key"
	if err := adminOnly(op, caller); err != nil {
		return err
	}
	return missing(op, id, s.index.RevokeKey(ctx, id, s.now()))
}

func adminOnly(op string, caller Caller) error {
	if caller.Admin {
		return nil
	}
	return &Error{Op: op, Kind: ErrForbidden, Hint: "Only a key with admin rights may do this."}
}
